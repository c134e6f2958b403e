"""Trains many runs in packs: what is done is not done again, and what is left when the time is up is told.

On grids, runs that one program can train are one pack. A run on a control task, whose seeds are side by side
already, is a pack of its own; several of those can be trained at once, each in a process.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gobi.cli.bars import bars
from gobi.cli.crew import Crew
from gobi.cli.terminal import say, show
from gobi.cli.train import draw_curves
from gobi.errors import GobiError
from gobi.training import pack, run
from gobi.training.control import loop as control
from gobi.training.control.recipe import ControlRecipe
from gobi.training.folder import Run, changed_options, refuse_changed_options
from gobi.training.pack import Listener
from gobi.training.recipe import differences
from gobi.training.record import Outcome
from gobi.training.stopping import Stopping
from gobi.training.trainer import NotFinite

ON_A_CPU = 16
"""Agents in one pack where there is no accelerator: more bring no speed there, and take memory."""

STOPPED = "stopped and saved: the same command goes on from there"
STOPPED_AT_ONCE = "stopped at once: the same command goes on from what was saved before, if anything was"

ON_GRIDS = {"return": ".3f", "success": ".0%"}
ON_CONTROL = {"return": ".1f"}
"""Metrics that are told of a trained pack."""


def most_agents() -> int:
    """How many agents this device trains side by side."""
    return ON_A_CPU if jax.default_backend() == "cpu" else pack.MOST_AGENTS


def grouped(runs: Sequence[Run], most: int) -> list[list[Run]]:
    """The runs in packs of at most so many agents; a run alone may have more."""
    grids = [one for one in runs if not _of_control(one)]
    return [*pack.packs(grids, most), *([one] for one in runs if _of_control(one))]


def check(runs: Sequence[Run]) -> None:
    """Refuses folders that hold other runs."""
    for folder, plan in runs:
        if not _begun(folder):
            continue
        kept = run.planned(folder)
        if changed := differences(kept.recipe, plan.recipe):
            raise GobiError(f"{folder.path} holds another run ({changed[0]}): give another --out")
        if kept.seeds != plan.seeds:
            raise GobiError(f"{folder.path} holds this run with {_other_seeds(kept.seeds, plan.seeds)}")
        refuse_changed_options(folder, plan.recipe)


def _other_seeds(kept: Sequence[int], asked: Sequence[int]) -> str:
    """What seeds a run has that has others than were asked for, and what to do about it."""
    words = _seeds_in_words(kept)
    same = f"--seeds {len(kept)}" if kept[0] == asked[0] else f"--seed {kept[0]} --seeds {len(kept)}"
    told = f"{words}, not {_seeds_in_words(asked)}: {same} goes on with it"
    rest = asked[len(kept) :]
    if rest and tuple(asked[: len(kept)]) == tuple(kept):
        # Seeds of several runs count together wherever they lie.
        told += f"; --seed {rest[0]} --seeds {len(rest)} with another --out in reproduced trains the rest"
    return f"{told}; or give another --out"


def _seeds_in_words(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def reused(runs: Sequence[Run], place: Path) -> list[Run]:
    """The runs; one that has not begun lies where the very same was trained to its end for another study."""
    trained: dict[run.Plan, run.Folder] = {}
    for file in sorted(place.rglob(run.Folder(place).run.name)):
        folder = run.Folder(file.parent)
        with contextlib.suppress(GobiError):
            # A folder that cannot be read is told of when it is its own turn.
            plan = run.planned(folder)
            if run.finished(folder, plan) and not changed_options(folder, plan.recipe):
                trained.setdefault(plan, folder)
    return [(folder if _begun(folder) else trained.get(plan, folder), plan) for folder, plan in runs]


def train(packs: Sequence[Sequence[Run]], until: float | None = None) -> list[Run]:
    """Trains one pack after the other and returns the runs that are left when the time is up.

    until:  the moment of `time.monotonic` when that is.
    """
    stopping = Stopping(say, until)
    broken: list[GobiError] = []
    for number, group in enumerate(packs, start=1):
        left = [one for later in packs[number - 1 :] for one in later]
        if until is not None and time.monotonic() >= until:
            _complain(broken, left)
            return left
        agents = sum(len(plan.seeds) for _, plan in group)
        runs = runs_in_words(len(group))
        say(f"\npack {number} of {len(packs)}: {runs}, {agents} agents side by side, on {jax.devices()[0]}")
        begun = time.perf_counter()
        try:
            outcomes = _go(group, stopping)
        except run.OutOfTime:
            _complain(broken, left)
            return left
        except NotFinite as error:
            # The others can still be had.
            say(f"error: {error}")
            broken.append(error)
            continue
        except run.Stopped:
            say(STOPPED)
            raise
        except KeyboardInterrupt:
            say(STOPPED_AT_ONCE)
            raise
        for folder, _ in group:
            _draw(folder)
        _tell(group, outcomes, time.perf_counter() - begun)
        if stopping.asked and number < len(packs):
            # Asked for in the last interval, after which there was nothing left to stop.
            raise run.Stopped
    _complain(broken)
    return []


def train_at_once(runs: Sequence[Run], at_once: int, until: float | None = None) -> list[Run]:
    """Trains runs in processes of their own, so many at once; returns those that are left in the end.

    until:  the moment of `time.monotonic` when the time is up.
    """
    plans, began = dict(runs), time.perf_counter()
    done: dict[run.Folder, Outcome] = {}
    left: list[Run] = []
    broken: list[GobiError] = []
    say(f"\n{runs_in_words(len(plans))}, {min(at_once, len(plans))} at once, on {jax.devices()[0]}")
    with bars() as shown:
        listeners = {folder: shown.of(_name(folder)) for folder in plans}
        stopping = Stopping(shown.say, until)

        def begin(folder: run.Folder) -> Listener:
            _begin(folder, plans[folder])
            return listeners[folder]

        try:
            with contextlib.closing(Crew(at_once, stopping).train(list(plans), begin)) as endings:
                for folder, ended in endings:
                    listeners[folder].clear()
                    if ended.trouble:
                        broken.append(GobiError(f"{folder.path}: {ended.trouble}"))
                        listeners[folder].say(f"error: {ended.trouble}")
                    elif ended.outcome is None:
                        left.append((folder, plans[folder]))
                    else:
                        done[folder] = ended.outcome
                        took = duration(ended.outcome.seconds)
                        listeners[folder].say(f"finished after {took} of training")
                        _draw(folder)
        except KeyboardInterrupt:
            shown.say(STOPPED_AT_ONCE)
            raise
    if done:
        trained = [one for one in runs if one[0] in done]
        _tell(trained, [done[folder] for folder, _ in trained], time.perf_counter() - began)
    if left and stopping.asked:
        say(STOPPED)
        raise run.Stopped
    _complain(broken, left)
    return left


def _draw(folder: run.Folder) -> None:
    """The curves; a run is trained, whether or not they can be drawn."""
    try:
        draw_curves(folder)
    except (GobiError, OSError) as error:
        say(f"no curves of {folder.path}: {error}")


def _complain(broken: Sequence[GobiError], left: Sequence[Run] = ()) -> None:
    """Some runs could not be trained, after all others were; or all but those for which there was no time."""
    if not broken:
        return
    others = f" (and {runs_in_words(len(broken) - 1)} more)" if len(broken) > 1 else ""
    rest = f"the time is up, {runs_in_words(len(left))} left to train" if left else "the others are trained"
    raise GobiError(
        f"{broken[0]}{others}; {rest}: the same command tries again, --arms names the runs to go on with"
    )


def _name(folder: run.Folder) -> str:
    """The task and the arm."""
    return "/".join(folder.path.parts[-2:])


def runs_in_words(count: int) -> str:
    """So many runs."""
    return "1 run" if count == 1 else f"{count} runs"


def duration(seconds: float) -> str:
    """So much time, for people."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours" if seconds < 3 * 86400 else f"{seconds / 86400:,.0f} days"


def _go(group: Sequence[Run], stopping: Stopping) -> list[Outcome]:
    for one in group:
        _begin(*one)
    # Each plan as it was kept: whether it repeats itself bit for bit is part of it.
    kept = [(folder, run.planned(folder)) for folder, _ in group]
    with bars() as listener:
        stopping.say = listener.say
        if _of_control(kept[0]):
            return [control.go(*one, listener, stopping=stopping) for one in kept]
        return pack.go(kept, listener, stopping=stopping)


def _of_control(one: Run) -> bool:
    return isinstance(one[1].recipe, ControlRecipe)


def _begin(folder: run.Folder, plan: run.Plan) -> None:
    if not _begun(folder):
        _clear(folder)
        run.begin(folder, plan)


def _begun(folder: run.Folder) -> bool:
    """Whether there is a run in the folder that can go on."""
    return folder.recipe.exists() and folder.run.exists()


def _clear(folder: run.Folder) -> None:
    """Removes what a process left that was killed while it began; nothing else is touched."""
    if folder.path.is_dir() and list(folder.path.iterdir()) == [folder.recipe]:
        folder.recipe.unlink()


def _tell(group: Sequence[Run], outcomes: Sequence[Outcome], took: float) -> None:
    rows, told = [], ON_CONTROL if _of_control(group[0]) else ON_GRIDS
    for (folder, plan), outcome in zip(group, outcomes, strict=True):
        done = [_text(np.mean(outcome.row[name]), form) for name, form in told.items()]
        rows.append([str(folder.path), str(len(plan.seeds)), f"{outcome.frames:,}", *done])
    numbers = ("seeds", "frames", *told)
    show(rows, ("run", *numbers), numbers)
    say(f"took {duration(took)}")


def _text(value: Any, form: str) -> str:
    return "-" if np.isnan(value) else format(value, form)
