"""The actions of Gymnasium's spaces as rewards and worlds read them: one number, or a vector in [-1, 1]."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gobi.adapters.scales import Scale, scale
from gobi.errors import GobiError, require

require("gymnasium", extra="gymnasium")

from gymnasium import Space, spaces  # noqa: E402

MOST_ACTIONS = 256
"""Combinations of several discrete actions that are numbered, at most; more are numbers in [-1, 1]."""


@dataclasses.dataclass(frozen=True)
class Acted:
    """The actions of a space as rewards and worlds read them.

    num_actions:  integers 0 .. num_actions - 1; 0 where they are vectors.
    action_size:  numbers in [-1, 1] of a vector; 0 where they are integers.
    read:         from a batch of actions to int32[envs] or float32[envs, action_size].
    """

    num_actions: int
    action_size: int
    read: Callable[[Any], np.ndarray]

    def __call__(self, batch: Any) -> np.ndarray:
        """The actions of a batch."""
        return self.read(batch)


def actions(space: Space) -> Acted:
    """How to read the actions of a single environment's space.

    Several discrete actions at once are numbered if there are at most 256 combinations; of more, each is a
    number in [-1, 1], so that what lies between two of them is still near to an action.
    """
    if isinstance(space, spaces.Discrete):
        return Acted(int(space.n), 0, _Numbered(np.array([space.n]), np.array([space.start])))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        binary = isinstance(space, spaces.MultiBinary)
        sizes = np.full(space.shape, 2) if binary else np.asarray(space.nvec)
        start = np.zeros_like(sizes) if binary else np.asarray(space.start)
        sizes, start = sizes.reshape(-1), start.reshape(-1)
        if math.prod(sizes.tolist()) <= MOST_ACTIONS:
            return Acted(math.prod(sizes.tolist()), 0, _Numbered(sizes, start))
        return Acted(0, sizes.size, _Within(scale(start, start + sizes - 1)))
    if isinstance(space, spaces.Box):
        low, high = (np.asarray(bound, np.float64) for bound in (space.low, space.high))
        return Acted(0, low.size, _Within(scale(low, high)))
    raise GobiError(
        f"rewards cannot read actions of the space {space}, only Discrete, MultiDiscrete, MultiBinary and Box"
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Numbered:
    """The combination of discrete actions as one number, the last of them counting fastest."""

    sizes: np.ndarray
    start: np.ndarray

    def __call__(self, batch: Any) -> np.ndarray:
        values = np.asarray(batch)
        values = values.reshape(-1, self.sizes.size).astype(np.int64) - self.start
        if ((values < 0) | (values >= self.sizes)).any():
            raise GobiError(f"an action is outside of its space: {np.asarray(batch).tolist()}")
        weights = np.append(np.cumprod(self.sizes[:0:-1])[::-1], 1)
        return (values @ weights).astype(np.int32)


@dataclasses.dataclass(frozen=True, eq=False)
class _Within:
    """Numbers to [-1, 1]: by their bounds, beyond which they are cut; by tanh where there are none."""

    scale: Scale

    def __call__(self, batch: Any) -> np.ndarray:
        values = np.asarray(batch, np.float64)
        values = values.reshape(len(values), -1)
        within = np.clip(self.scale(values), -1, 1)
        return np.where(self.scale.bounded, within, np.tanh(values)).astype(np.float32)
