"""A worker without a process: what a run asks of one, played where it is asked."""

from __future__ import annotations

from typing import Any

import numpy as np

from gobi.envs.dmc import Control, Step, Worker


class Here(Worker):
    """The calls of `Worker`, answered by a `Control` of its own."""

    def __init__(self, *words: Any):
        self.control = Control(*words)

    @property
    def spec(self):
        return self.control.spec

    def send(self, action: np.ndarray) -> None:
        self.sent = self.control.step(action)

    def receive(self) -> Step:
        return self.sent

    def close(self) -> None:
        self.control.close()

    def _ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self.control, method)(*arguments)
