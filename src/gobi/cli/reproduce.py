"""`gobi reproduce`: the paper's MiniGrid figures, and a few that it lacks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gobi.cli.arguments import Switch, at_least, check_seed
from gobi.cli.compare import compare
from gobi.cli.heatmap import heatmap
from gobi.cli.terminal import say, show
from gobi.cli.train import choose, go
from gobi.errors import GobiError, unknown
from gobi.reproduce import STUDIES, Study, illustration
from gobi.training import run
from gobi.training.recipe import Recipe, differences, read_settings

ILLUSTRATION = "illustration"
RATE = 400_000
"""Steps per second of one H200 with sixteen seeds, for a first guess of how long a study takes."""


def reproduce(
    figure: Annotated[str, tyro.conf.Positional] = "",
    /,
    *,
    tasks: tuple[str, ...] = (),
    arms: tuple[str, ...] = (),
    seeds: int = 0,
    seed: int = 0,
    frames: str = "",
    out: Path | None = None,
    plan: Switch = False,
) -> None:
    """Trains all runs of a figure and compares them, or goes on where that was stopped; lists the figures.

    Args:
        figure: the figure's name.
        tasks: only the runs on these tasks.
        arms: only these arms of it, as --plan names them.
        seeds: how many, side by side; by default as many as in the paper.
        seed: the first of them.
        frames: environment steps of each run, such as 1e6; by default the recipe's.
        out: the folder to write into, or to go on in; by default reproduced/FIGURE.
        plan: only say what would be trained.
    """
    if not figure:
        _list()
        return
    out = out or Path("reproduced") / figure
    if figure == ILLUSTRATION:
        _illustrate(out)
        return
    if figure not in STUDIES:
        raise unknown("figure", figure, [*STUDIES, ILLUSTRATION])
    check_seed(seed)
    at_least("--seeds", seeds, 0)
    study = STUDIES[figure].only(tasks, arms)
    numbers = tuple(range(seed, seed + (seeds or study.seeds)))
    given = read_settings([f"frames={frames}"]) if frames else {}
    recipes = [choose(arm.task, arm.recipe, {**arm.changes, **given}) for arm in study.arms]
    _tell(study, recipes, len(numbers))
    if plan:
        return
    for number, (arm, recipe) in enumerate(zip(study.arms, recipes, strict=True), start=1):
        say(f"\n{number} of {len(study.arms)}: {arm.folder}")
        _train(out / arm.folder, run.Plan(recipe, numbers))
        if arm.folder in study.maps:
            heatmap(out / arm.folder, at=tuple(map(float, study.maps[arm.folder])), overwrite=True)
    # A page of its own for every time, so that one can see what more runs have changed.
    say("")
    compare(tuple(out / arm.folder for arm in study.arms), out=_new(out / "comparison"))


def _list() -> None:
    rows = [[name, study.title, str(len(study.arms)), study.source or "-"] for name, study in STUDIES.items()]
    rows.append([ILLUSTRATION, "why growth should be counted: nine states, planned exactly", "0", "appendix"])
    show(rows, ["figure", "what is compared", "runs", "in the paper"], ["runs"])
    say("\ngobi reproduce FIGURE trains them; --plan says first what that would be")


def _tell(study: Study, recipes: Sequence[Recipe], seeds: int) -> None:
    """What will be trained, and a first guess of how long that takes."""
    rows, total = [], 0
    for arm, recipe in zip(study.arms, recipes, strict=True):
        frames = recipe.updates * recipe.frames_per_update
        total += frames * seeds
        changed = ", ".join(f"{name}={value}" for name, value in arm.changes.items())
        rows.append([arm.folder, changed, str(seeds), f"{frames / 1e6:g}M"])
    say(f"{study.title} ({study.source})")
    show(rows, ["run", "our recipe, but", "seeds", "frames"], ["seeds", "frames"])
    say(f"{total / 1e6:,.1f}M frames in all: {_time(total / RATE)} at {RATE:,} steps per second")


def _train(folder: Path, plan: run.Plan) -> None:
    """Begins a run, goes on with it, or says that it is done."""
    place = run.Folder(folder)
    if not place.recipe.exists():
        run.begin(place, plan)
    kept = run.planned(place)
    if (changed := differences(kept.recipe, plan.recipe)) or kept.seeds != plan.seeds:
        what = changed[0] if changed else f"seeds: {list(kept.seeds)} -> {list(plan.seeds)}"
        raise GobiError(f"{folder} holds another run ({what}): give another --out")
    if run.finished(place, kept):
        say("finished before")
        return
    begun = time.perf_counter()
    go(place, kept)
    say(f"took {_time(time.perf_counter() - begun)}")


def _illustrate(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, reward in (("GoBI", illustration.growth), ("R2", illustration.grew)):
        found = illustration.plan(reward)
        moves = " ".join(map(str, found.path))
        count = len(found.gains)
        say(f"{name}: {count} move{'s' if count > 1 else ''}, {moves}, gaining {list(found.gains)}")
    illustration.draw(out / "illustration.png")
    say(f"written: {out / 'illustration.png'}")


def _new(folder: Path) -> Path:
    number, free = 1, folder
    while free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
