"""`gobi reproduce`: the paper's figures, and a few that it lacks."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import jax
import tyro

from gobi.cli import ending, packs
from gobi.cli.arguments import Switch, at_least, seeds_from
from gobi.cli.claims import chosen
from gobi.cli.compare import compare
from gobi.cli.terminal import say, show
from gobi.cli.train import Settings, choose, read_settings
from gobi.envs.dmc import is_control
from gobi.errors import GobiError, unknown
from gobi.reproduce import STUDIES, Study, illustration, matching, timing
from gobi.reproduce.ending import conclude
from gobi.reproduce.evidence import Evidence, gather
from gobi.reproduce.study import Arm
from gobi.reproduce.timing import Earlier
from gobi.training import run
from gobi.training.control.evaluation import cores
from gobi.training.folder import Run

ILLUSTRATION = "illustration"
REPRODUCED = Path("reproduced")


def reproduce(
    figure: Annotated[str, tyro.conf.Positional] = "",
    /,
    *,
    tasks: tuple[str, ...] = (),
    arms: tuple[str, ...] = (),
    rewards: tuple[str, ...] = (),
    seeds: int = 0,
    seed: int = 0,
    frames: str = "",
    settings: Settings = (),
    minutes: float = 0.0,
    together: int = 0,
    processes: int = 1,
    out: Path | None = None,
    plan: Switch = False,
    kept: Annotated[tuple[Path, ...], tyro.conf.arg(name="from")] = (),
    listed: Annotated[Switch, tyro.conf.arg(name="list")] = False,
) -> None:
    """Trains all runs of a figure and compares them, or goes on where that was stopped; lists the figures.

    Args:
        figure: the figure's name.
        tasks: only the runs on these tasks.
        arms: only these arms of it, as --plan names them.
        rewards: only the arms with these rewards.
        seeds: how many, side by side; by default as many as in the paper.
        seed: the first of them.
        frames: environment steps of each run, such as 1e6; by default the recipe's.
        settings: changes one field of the recipe of every run; may be given several times. Not one that the
            study is about.
        minutes: stop after so much time, with everything saved; by default when all is done.
        together: agents that may be side by side in one process; by default 32, or 16 on a CPU. On control
            tasks, always those of one run.
        processes: on control tasks, runs that are trained at once, each in a process of its own.
        out: the folder to write into, or to go on in; by default reproduced/FIGURE. With --list, where the
            folders of all figures lie.
        plan: only say what would be trained.
        kept: train nothing; conclude the study from runs in these folders: its table, figure and verdicts.
        listed: only list the figures, and how they stand; so does the command alone.
    """
    if listed or not figure:
        _list(out or REPRODUCED)
        return
    usual, out = out is None, out or REPRODUCED / figure
    narrowed = any((tasks, arms, rewards, frames, settings, seeds, seed, minutes, together, processes > 1))
    if _needs_no_training(figure, out, narrowed, plan, kept):
        return
    for flag, value in (("--seeds", seeds), ("--together", together), ("--minutes", minutes)):
        at_least(flag, value, 0)
    at_least("--processes", processes, 1)
    until = time.monotonic() + 60 * minutes if minutes else None
    study = _changed(STUDIES[figure], settings).only(tasks, arms, rewards)
    numbers = seeds_from(seed, seeds or study.seeds)
    # Only our own folder of studies is searched: what else lies beside a named one can be anything.
    beside = REPRODUCED if usual else out
    if processes > 1:
        _prepare_processes(study)
    runs = _planned(study, numbers, settings, frames, out)
    if not study.maps:
        runs = packs.reused(runs, beside)
    packs.check(runs)
    unfinished = [one for one in runs if not run.finished(*one)]
    groups = packs.grouped(unfinished, together or packs.most_agents())
    _tell(study, runs, groups, out, timing.earlier(beside), processes)
    if settings:
        say(f"every run has {', '.join(settings)}: such runs are compared with each other only")
    if plan:
        return
    at_once = processes > 1 and bool(unfinished)
    if left := packs.train_at_once(unfinished, processes, until) if at_once else packs.train(groups, until):
        _say_left(left, out)
        return
    _compare(figure, study, runs, out)
    # Claims that compare studies find the others beside this one.
    ending.end(figure, [out, beside], out)


def _needs_no_training(figure: str, out: Path, narrowed: bool, plan: bool, kept: tuple[Path, ...]) -> bool:
    """Does what takes no training, and says whether that was all; refuses figures that there are not.

    narrowed:  whether something was asked for that only training can have.
    """
    if figure == ILLUSTRATION:
        if narrowed or kept:
            raise GobiError(f"{ILLUSTRATION} trains nothing: it goes with --plan and --out only")
        _illustrate(out, plan)
        return True
    if figure not in STUDIES:
        raise unknown("figure", figure, [*STUDIES, ILLUSTRATION])
    if kept:
        if narrowed or plan:
            raise GobiError("--from takes the runs that it finds: it goes with --out only")
        ending.end(figure, chosen(kept), out / "kept", kept=True)
    return bool(kept)


def _prepare_processes(study: Study) -> None:
    """Before anything is computed: processes that share a card must each take no more than they need."""
    if not all(is_control(arm.task) for arm in study.arms):
        raise GobiError(
            "--processes is for studies on control tasks: on grids runs share a process (--together)"
        )
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def _compare(figure: str, study: Study, runs: Sequence[Run], out: Path) -> None:
    """The maps and the grid of a study that has them, and the page that sets its runs against each other."""
    shown = [folder.path for folder, _ in runs]
    ending.draw_maps(study, {arm.folder: out / arm.folder for arm in study.arms}, out)
    if study.axes:
        _, trained = conclude(figure, Evidence(gather(shown), {figure: STUDIES[figure]}))
        shown = ending.search(figure, trained, out) or shown
    # A page of its own for every time, so that one can see what more runs have changed.
    say("")
    try:
        compare(tuple(shown), out=_new(out / "comparison"), peeks=study.peeks)
    except GobiError as error:
        # Such as runs on tasks that have no other method, or shorter ones than pre-training.
        say(f"no comparison: {error}")
    say("")


def _list(place: Path) -> None:
    known = ending.states(place)
    rows = [[name, study.title, str(len(study.arms)), *known[name]] for name, study in STUDIES.items()]
    nine = "why growth should be counted: nine states, planned exactly"
    rows.append([ILLUSTRATION, nine, "0", *ending.illustrated(place)])
    show(rows, ["figure", "what is compared", "runs", f"state in {place}", "the paper's claims"], ["runs"])
    say("\ngobi reproduce FIGURE trains them; --plan says first what that would be; gobi claims tells more")


def _changed(study: Study, words: Sequence[str]) -> Study:
    """The study with these settings in every run; what it is about cannot be set."""
    names = [word.partition("=")[0] for word in words]
    if "reward" in names:
        raise GobiError(
            "--set cannot change the reward of a study: --rewards takes the runs with some of its own"
        )
    for name in names:
        if name in matching.varied(study):
            raise GobiError(f"--set cannot change {name}: the runs of this study differ in {name}")

    def changed(arm: Arm) -> Arm:
        # A control recipe from the state has a reward of its own, which may not be the arm's.
        own = {"reward": arm.reward} if words and is_control(arm.task) else {}
        return dataclasses.replace(arm, changes={**own, **arm.changes, **read_settings(arm.task, words)})

    return dataclasses.replace(study, arms=tuple(map(changed, study.arms)))


def _planned(study: Study, seeds: tuple[int, ...], words: Sequence[str], frames: str, out: Path) -> list[Run]:
    """The runs of a study with these settings, each in a folder of its own."""
    found = []
    for arm in study.arms:
        given = read_settings(arm.task, words, frames=frames)
        recipe = choose(arm.task, arm.recipe, {**arm.settings, **given})
        found.append((run.Folder(out / arm.folder), run.Plan(recipe, seeds)))
    return found


def _tell(
    study: Study,
    runs: Sequence[Run],
    groups: Sequence[Sequence[Run]],
    out: Path,
    known: Sequence[Earlier],
    processes: int,
) -> None:
    """What will be trained, what is trained already, and how long the rest should take here."""
    rows, total = [], 0
    places = {folder: number for number, group in enumerate(groups, start=1) for folder, _ in group}
    for arm, (folder, plan) in zip(study.arms, runs, strict=True):
        frames = plan.recipe.all_frames
        total += frames * len(plan.seeds)
        changed = ", ".join(f"{name}={value}" for name, value in arm.changes.items())
        where = "" if folder.path == out / arm.folder else f": {folder.path}"
        state = f"to train, pack {places[folder]}" if folder in places else f"finished before{where}"
        rows.append([arm.folder, changed, str(len(plan.seeds)), f"{frames / 1e6:g}M", state])
    say(f"{study.title} ({study.source or 'not in the paper'})")
    show(rows, ["run", "our recipe, but", "seeds", "frames", "state"], ["seeds", "frames"])
    say(f"{total / 1e6:,.1f}M frames in all")
    if groups:
        at_once = min(processes, len(groups))
        turns = f"{at_once} at once" if at_once > 1 else "one after the other"
        count = "one pack" if len(groups) == 1 else f"{len(groups)} packs, {turns}"
        trained, long = packs.runs_in_words(sum(map(len, groups))), _how_long(groups, known, at_once)
        say(f"to train: {trained} in {count}; {long}")


def _how_long(groups: Sequence[Sequence[Run]], known: Sequence[Earlier], at_once: int) -> str:
    # On a CPU, more than it has cores are no faster.
    side_by_side = min(at_once, cores()) if jax.default_backend() == "cpu" else at_once
    seconds, source = timing.seconds(groups, known, side_by_side), timing.source(groups, known)
    if seconds is None:
        return f"how long is not known: {source}"
    if side_by_side > 1:
        source = f"none slows another down, and each is {source}"
    return f"about {packs.duration(seconds)} if {source}"


def _say_left(left: Sequence[Run], out: Path) -> None:
    names = ", ".join(str(folder.path.relative_to(out)) for folder, _ in left)
    runs = packs.runs_in_words(len(left))
    say(f"\nthe time is up, and what was trained is saved; the same command goes on. Left: {runs} ({names})")


def _illustrate(out: Path, plan: bool) -> None:
    if plan:
        say(f"nothing is trained: the plans are worked out exactly, and drawn into {out}")
        return
    out.mkdir(parents=True, exist_ok=True)
    for name, reward in (("GoBI", illustration.growth), ("R2", illustration.grew)):
        found = illustration.plan(reward)
        moves = " ".join(map(str, found.path))
        count = len(found.gains)
        say(f"{name}: {count} move{'s' if count > 1 else ''}, {moves}, gaining {list(found.gains)}")
    illustration.draw(out / "illustration.png")
    ending.say_claims(ILLUSTRATION)
    say(f"written: {out / 'illustration.png'}")


def _new(folder: Path) -> Path:
    number, free = 1, folder
    while free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free
