"""Control runs in tests: a worker without a process, and a stop after so many steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from gobi.envs.dmc import Control, Step, Worker
from gobi.training.stopping import Stopped, Stopping


class Here(Worker):
    """The calls of `Worker`, answered by a `Control` of its own."""

    def __init__(self, *words: Any):
        self.control = Control(*words)

    @property
    def spec(self):
        return self.control.spec

    def send(self, action: np.ndarray) -> None:
        self.sent = action

    def receive(self) -> Step:
        # Not in `send`, which another thread may call: what draws belongs to the thread that made it.
        return self.control.step(self.sent)

    def close(self) -> None:
        self.control.close()

    def _ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self.control, method)(*arguments)


class After(Stopping):
    """Stops after so many agent steps."""

    def __init__(self, steps: int):
        super().__init__(lambda _: None)
        self.left = steps

    def why(self) -> Stopped | None:
        self.left -= 1
        return Stopped() if self.left == 0 else None
