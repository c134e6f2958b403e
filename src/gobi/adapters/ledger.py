"""What a bonus keeps on the host: where its rollout stands, how its memories do, and what there is to log."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool

from gobi.adapters.advice import Sizes
from gobi.adapters.running import OWN


class Ledger:
    """What a bonus keeps on the host.

    at:       the place in the rollout of the next step.
    lessons:  rollouts so far.
    midway:   which environments are in the middle of an episode.
    grown:    which memories were given more room, in turn.
    row:      what the reward logged in the last rollout, by which memories are judged.
    full:     whether it was said that a memory is as large as it may be.
    frozen:   nothing is paid at present.
    stale:    the environments went on while it was.
    """

    def __init__(self, num_envs: int):
        self.at = self.lessons = 0
        self.midway: Bool[np.ndarray, " envs"] = np.zeros(num_envs, bool)
        self.grown: list[list[str]] = []
        self.row: dict[str, float] | None = None
        self.full = self.frozen = self.stale = False
        self.metrics: dict[str, float] = {}
        self.sizes = Sizes.none(num_envs)

    def told(self, row: dict[str, float], own: dict[str, float], lessons: dict[str, float]) -> None:
        """A rollout has ended."""
        self.metrics = row | lessons | own
        self.sizes.late = own["bonus"]
        if self.sizes.at_first is None:
            self.sizes.at_first = own["bonus"]


def row_of(told: dict[str, np.ndarray]) -> dict[str, float]:
    """One number for each series of the reward's own: of `load/` the largest, of `dropped/` the last."""

    def one(name: str, series: np.ndarray) -> float:
        if name.startswith("load/"):
            return float(series.max())
        return float(series[-1] if name.startswith("dropped/") else series.mean())

    return {name: one(name, series) for name, series in told.items() if name not in OWN}


def own_of(told: dict[str, np.ndarray]) -> dict[str, float]:
    """What is told of every reward, of a rollout."""
    bonus, squares, paid, earned, frames = (float(told[name].sum(dtype=np.float64)) for name in OWN)
    mean = bonus / max(frames, 1)
    return {
        "bonus": mean,
        "bonus_std": math.sqrt(max(squares / max(frames, 1) - mean**2, 0.0)),
        "bonus_share": paid / max(paid + earned, 1e-9),
    }
