"""What is shown while something is trained: a bar for each stage."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from gobi.cli.terminal import console
from gobi.training.pack import Listener
from gobi.training.trainer import Row

SHOWN = {"return": ".3f", "success": ".0%", "bonus": ".3f"}
"""What is told of a row, and how it is written."""
QUIET_SECONDS = 30.0
"""Where bars cannot be shown, a line on how far it is comes no sooner than so long after the last one."""


class Bars(Listener):
    """A bar for each stage, and one for training with what matters most beside it.

    In a pipe or a log, where bars cannot be shown, there is a line now and then.
    """

    def __init__(self, progress: Progress):
        self.progress = progress
        self.spoke = time.monotonic()
        self.tasks: dict[str, Any] = {}
        self.training: Any = None

    def stage(self, what: str, done: int, total: int) -> None:
        """A bar of its own for each stage; one that is done disappears."""
        for other in [name for name in self.tasks if name.split(",")[0] != what.split(",")[0]]:
            self.progress.remove_task(self.tasks.pop(other))
        name = what.split(",")[0]
        if name not in self.tasks:
            self.tasks[name] = self.progress.add_task(what, total=total, told="")
        self.progress.update(self.tasks[name], description=what, completed=done, total=total)

    def row(self, frames: int, total: int, row: Row, steps_per_second: float) -> None:
        """Return, success and speed."""
        for name in list(self.tasks):
            self.progress.remove_task(self.tasks.pop(name))
        if self.training is None:
            self.training = self.progress.add_task("training", total=total, completed=0, told="")
        # Before the first row of a run there is nothing to tell but how fast it is.
        known = [f"{name} {_mean(row, name):{form}}" for name, form in SHOWN.items() if name in row]
        told = " ".join([*known, f"{steps_per_second:,.0f}/s"])
        self.progress.update(self.training, completed=frames, told=told)
        if self.progress.disable and time.monotonic() - self.spoke > QUIET_SECONDS:
            self.spoke = time.monotonic()
            self.say(f"{frames:,} of {total:,} frames, {told}")

    def say(self, text: str) -> None:
        """Above the bars; long lines are left to the terminal."""
        self.progress.console.print(text, soft_wrap=True)


def _mean(row: Row, name: str) -> float:
    """Over the seeds; 0 before the first episode ended."""
    return float(np.nan_to_num(row[name]).mean())


@contextlib.contextmanager
def bars() -> Iterator[Bars]:
    """Bars on a terminal, lines in a pipe."""
    screen = console(error=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        yield Bars(progress)
