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

    In a pipe or a log, where bars cannot be shown, there is a line now and then. One of several runs that are
    trained at once has a name.
    """

    def __init__(self, progress: Progress, name: str = ""):
        self.progress, self.name = progress, name
        self.spoke = time.monotonic()
        self.tasks: dict[str, Any] = {}
        self.training: Any = None

    def of(self, name: str) -> Bars:
        """Bars beside these, of a run of this name."""
        return Bars(self.progress, name)

    def clear(self) -> None:
        """Takes the bars away."""
        self._clear_stages(list(self.tasks))
        if self.training is not None:
            self.progress.remove_task(self.training)
            self.training = None

    def stage(self, what: str, done: int, total: int) -> None:
        """A bar of its own for each stage; one that is done disappears."""
        name, shown = what.split(",")[0], self._named(what, " ")
        self._clear_stages([other for other in self.tasks if other != name])
        if name not in self.tasks:
            self.tasks[name] = self.progress.add_task(shown, total=total, told="")
        self.progress.update(self.tasks[name], description=shown, completed=done, total=total)

    def row(self, frames: int, total: int, row: Row, steps_per_second: float) -> None:
        """Return, success and speed."""
        self._clear_stages(list(self.tasks))
        if self.training is None:
            what = self._named("training", " ")
            self.training = self.progress.add_task(what, total=total, completed=0, told="")
        # Before the first row of a run there is nothing to tell but how fast it is.
        known = [f"{name} {_mean(row, name):{form}}" for name, form in SHOWN.items() if name in row]
        told = " ".join([*known, f"{steps_per_second:,.0f}/s"])
        self.progress.update(self.training, completed=frames, told=told)
        if self.progress.disable and time.monotonic() - self.spoke > QUIET_SECONDS:
            self.spoke = time.monotonic()
            self.say(f"{frames:,} of {total:,} frames, {told}")

    def say(self, text: str) -> None:
        """Above the bars; long lines are left to the terminal."""
        self.progress.console.print(self._named(text, ": "), soft_wrap=True)

    def _clear_stages(self, names: list[str]) -> None:
        for name in names:
            self.progress.remove_task(self.tasks.pop(name))

    def _named(self, text: str, between: str) -> str:
        return f"{self.name}{between}{text}" if self.name else text


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
