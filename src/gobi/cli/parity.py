"""`gobi parity`: the proof that our tasks are Farama's, transition by transition and level by level."""

from __future__ import annotations

import pathlib
from typing import Annotated

import tyro
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gobi.cli.arguments import at_least, at_most, check_seed
from gobi.cli.terminal import console, say, show
from gobi.envs.minigrid.registry import FARAMA_TASKS, find, make
from gobi.errors import GobiError, require

MOST = 10**10
"""Transitions or levels of a task: a year and more."""
TRANSITION_COLUMNS = (
    "task", "transitions", "door", "key", "ball", "box", "drop", "success", "time-out", "mismatches",
    "played on",
)  # fmt: skip


def parity(
    tasks: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[TASK ...]")] = (),
    /,
    *,
    transitions: int = 0,
    levels: int = 0,
    jobs: int = 1,
    seed: int = 0,
    out: pathlib.Path = pathlib.Path("parity"),
) -> None:
    """Compares tasks with Farama's minigrid: every transition, or the distribution of levels.

    A run that was stopped goes on where it left off when it is started again with the same folder.

    Args:
        tasks: the tasks; all of them if none is named.
        transitions: how many transitions to play in both and compare, for each task.
        levels: how many levels of each source to compare, for each task; a tenth for N12-S10.
        jobs: processes that play transitions.
        seed: of the levels that are compared; what the transitions play is fixed.
        out: folder for the tables, and for what has been played so far.
    """
    require("minigrid", extra="minigrid")
    at_least("--transitions", transitions, 0)
    at_most("--transitions", transitions, MOST)
    at_least("--levels", levels, 0)
    at_most("--levels", levels, MOST)
    at_least("--jobs", jobs, 1)
    check_seed(seed)
    if not transitions and not levels:
        raise GobiError(
            "say how much to compare: --transitions N, --levels N, or both (20000 and 2000 are good)"
        )
    names = [find(task) for task in tasks] or list(FARAMA_TASKS)
    for name in names:
        if name not in FARAMA_TASKS:
            raise GobiError(f"{name} has no twin: Farama's minigrid knows no cell that changes its colour")
    out.mkdir(parents=True, exist_ok=True)
    failures = []
    if transitions:
        failures += _compare_transitions(names, transitions, jobs, out)
    if levels:
        failures += _compare_levels(names, levels, seed, out)
    if failures:
        raise GobiError("; ".join(failures))


def _compare_transitions(names: list[str], transitions: int, jobs: int, out: pathlib.Path) -> list[str]:
    """Plays, shows and writes the table; returns what went wrong."""
    from gobi.envs.minigrid.parity import campaign
    from gobi.envs.minigrid.parity.levels import markdown

    played = dict.fromkeys(names, 0)
    with _progress() as progress:
        bar = progress.add_task("transitions", total=transitions * len(names))

        def advance(tally) -> None:
            played[tally.task] += tally.transitions
            done = sum(min(count, transitions) for count in played.values())
            progress.update(bar, completed=done, description=f"transitions, {tally.task}")

        results = campaign.run(names, transitions, jobs, out, advance)
    rows = [
        (
            tally.task,
            *(f"{count:,}" for count in (
                tally.transitions, tally.door, tally.key, tally.ball, tally.box, tally.drop, tally.success,
                tally.timeouts, tally.mismatches,
            )),
            tally.device,
        )
        for tally in results
    ]  # fmt: skip
    show(rows, TRANSITION_COLUMNS, TRANSITION_COLUMNS[1:-1])
    path = out / "transitions.md"
    path.write_text(markdown(TRANSITION_COLUMNS, rows))
    say(f"\nevery shard is in {out / campaign.FILE}, the table in {path}")
    return [
        f"{tally.mismatches} mismatches in {tally.task}, the first in {tally.first_mismatch}"
        for tally in results
        if tally.mismatches
    ]


def _compare_levels(names: list[str], levels: int, seed: int, out: pathlib.Path) -> list[str]:
    """Compares, shows and writes the tables; returns what went wrong."""
    from gobi.envs.minigrid.parity import levels as comparison

    reports = []
    with _progress() as progress:
        bar = progress.add_task("levels", total=len(names))
        for name in names:
            env = make(name)
            count = comparison.affordable(env, levels)
            report = comparison.compare_levels(
                env, count, seed, lambda message: progress.update(bar, description=message)
            )
            reports.append(report)
            progress.advance(bar)
    for report in reports:
        say(f"\n{report.task}: {report.levels:,} levels, seed {report.seed}")
        show(report.rows() or [("(all levels are the same one)", "", "", "", "")], comparison.ROW_COLUMNS)
    say("")
    rows = [report.summary() for report in reports]
    show(rows, comparison.SUMMARY_COLUMNS)
    path = out / "levels.md"
    details = [
        f"\n## {report.task}\n\n{comparison.markdown(comparison.ROW_COLUMNS, report.rows())}"
        for report in reports
    ]
    path.write_text(comparison.markdown(comparison.SUMMARY_COLUMNS, rows) + "".join(details))
    say(f"\nall p-values are in {path}")
    return [
        f"the levels of {report.task} differ from Farama's in '{report.tests[0].feature}'"
        for report in reports
        if not report.passed
    ]


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        console=console(error=True),
        transient=True,
    )
