"""When a run stops before its end: it is asked to, or its time is up."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any


class Stopped(KeyboardInterrupt):
    """The user stopped the run; it was saved and can go on."""


class OutOfTime(Stopped):
    """The run's time was up; it was saved and can go on."""


class Stopping:
    """Whether to stop. While it is entered, a first Ctrl-C or SIGTERM asks for it; a second ends the process.

    asked:  whether somebody did.
    """

    def __init__(self, say: Callable[[str], None], until: float | None = None):
        """Says so when it was asked. `until` is a moment of `time.monotonic` from which on it stops too."""
        self.say, self.until, self.asked = say, until, False

    def why(self) -> Stopped | None:
        """What is to be raised once all is saved; None to go on."""
        if self.asked:
            return Stopped()
        return OutOfTime() if self.until is not None and time.monotonic() >= self.until else None

    def __enter__(self) -> Stopping:
        self.before: dict[int, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self.before[number] = signal.signal(number, self._ask)
            except ValueError:
                # Not the main thread: whoever runs us there deals with signals.
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.asked = True
        self.say("stopping after this interval; again to stop at once, without a checkpoint")
        for one in self.before:
            signal.signal(one, signal.default_int_handler)
