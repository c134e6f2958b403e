"""`gobi tasks`: the tasks that have a name, and what can be reached on them."""

from __future__ import annotations

import csv as csv_format
import importlib.util
import sys
from collections.abc import Collection

from gobi.cli.arguments import Switch
from gobi.cli.terminal import say, show
from gobi.envs.dmc import tasks as control
from gobi.envs.minigrid import ceilings
from gobi.envs.minigrid.registry import TASKS
from gobi.envs.minigrid.rules import NUM_ACTIONS

CSV_HEADINGS = (
    "id", "paper", "width", "height", "max_steps", "actions",
    "solvable_share", "counted", "best_return", "levels", "version", "action_size",
)  # fmt: skip
"""`counted` and `levels` are the numbers of levels behind what stands before them.

Control tasks have no grid, and `action_size` numbers in [-1, 1] instead of a count of `actions`.
"""


def tasks(*, csv: Switch = False) -> None:
    """Lists the tasks: sizes, limits, and what the best play reaches.

    Args:
        csv: comma-separated values instead of a table.
    """
    if csv:
        _write_csv()
        return
    numbers = ["grid", "max\nsteps", "actions", "solvable", "best\nreturn"]
    headings = ["task", "paper", *numbers, "version"]
    show(_rows(), headings, numbers)
    say(
        "\npaper: one of the twelve tasks of the GoBI paper\n"
        "solvable: share of the levels that can be solved at all\n"
        "best return: mean return of a solver that knows the whole grid; 0 for levels that cannot be solved"
    )
    if known := ceilings.known().values():
        counted, played = _span([one.counted for one in known]), _span([one.levels for one in known])
        say(f"measured on {counted} levels (solvable) and {played} levels (return) a task; -: not measured")
    _say_control()


def _say_control() -> None:
    """The control tasks, and what it takes to play them."""
    numbers = ["max\nsteps", "numbers in\nan action"]
    rows = [
        [name, about.paper, str(control.MAX_STEPS), str(about.actions), about.reward]
        for name, about in control.ABOUT.items()
    ]
    say("")
    show(rows, ["control task", "paper", *numbers, "reward"], numbers)
    say(
        "\nsteps: of the agent, two of the simulation each; the most that can be earned is 1,000\n"
        "paper: its fourth control task has no name in the text, and may be either of the last two\n"
        "other tasks of dm_control: dmc/DOMAIN_TASK, or dmc/DOMAIN_TASK@0.3 with rewards below 0.3 set to 0"
    )
    if importlib.util.find_spec("dm_control") is None:
        say("control tasks need pip install 'gobi[dmc]'")
    say("\nany task of Gymnasium's: gym/ID, such as gym/CartPole-v1; gym/MODULE:ID imports MODULE first")
    if importlib.util.find_spec("gymnasium") is None:
        say("Gymnasium's tasks need pip install 'gobi[gymnasium]'")


def _span(counts: Collection[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _rows() -> list[list[str]]:
    known = ceilings.known()
    rows = []
    for name, task in TASKS.items():
        width, height = task.generator.size
        ceiling = known.get(name)
        rows.append(
            [
                name,
                "yes" if task.paper else "",
                f"{width}x{height}",
                str(task.generator.max_steps),
                str(NUM_ACTIONS),
                f"{ceiling.solvable_share:.1%}" if ceiling else "-",
                f"{ceiling.best_return:.3f}" if ceiling else "-",
                task.version,
            ]
        )
    return rows


def _write_csv() -> None:
    known = ceilings.known()
    writer = csv_format.writer(sys.stdout, lineterminator="\n")
    writer.writerow(CSV_HEADINGS)
    for name, task in TASKS.items():
        ceiling = known.get(name)
        reached = [""] * 4
        if ceiling:
            reached = [ceiling.solvable_share, ceiling.counted, ceiling.best_return, ceiling.levels]
        size, limit = task.generator.size, task.generator.max_steps
        writer.writerow([name, int(task.paper), *size, limit, NUM_ACTIONS, *reached, task.version, 0])
    for name, about in control.ABOUT.items():
        paper = int(about.paper == "yes")
        writer.writerow([name, paper, "", "", control.MAX_STEPS, 0, *[""] * 4, about.reward, about.actions])
