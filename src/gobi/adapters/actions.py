"""The actions of Gymnasium's spaces as rewards and worlds read them: one number, or a vector in [-1, 1]."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gobi.adapters.batches import as_array
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
        return Acted(0, sizes.size, _Within(scale(start, start + sizes - 1), sizes.size))
    if isinstance(space, spaces.Box):
        low, high = (np.asarray(bound, np.float64) for bound in (space.low, space.high))
        return Acted(0, low.size, _Within(scale(low, high), low.size))
    raise GobiError(
        f"rewards cannot read actions of the space {space}, only Discrete, MultiDiscrete, MultiBinary and Box"
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Numbered:
    """The combination of discrete actions as one number, the last of them counting fastest."""

    sizes: np.ndarray
    start: np.ndarray

    def __call__(self, batch: Any) -> np.ndarray:
        values = _rows(batch, self.sizes.size, whole=True).astype(np.int64) - self.start
        if ((values < 0) | (values >= self.sizes)).any():
            lane = int(((values < 0) | (values >= self.sizes)).any(axis=1).argmax())
            got, least = (values + self.start)[lane].tolist(), self.start.tolist()
            most = (self.start + self.sizes - 1).tolist()
            raise GobiError(
                f"environment {lane}: an action is outside of its space: got {got}, wanted {least} to {most}"
            )
        weights = np.append(np.cumprod(self.sizes[:0:-1])[::-1], 1)
        return (values @ weights).astype(np.int32)


@dataclasses.dataclass(frozen=True, eq=False)
class _Within:
    """Numbers to [-1, 1]: by their bounds, beyond which they are cut; by tanh where there are none."""

    scale: Scale
    size: int

    def __call__(self, batch: Any) -> np.ndarray:
        values = _rows(batch, self.size, whole=False).astype(np.float64)
        wrong = ~np.isfinite(values).all(axis=1)
        if wrong.any():
            raise GobiError(f"environment {int(wrong.argmax())}: an action has NaN or infinite numbers in it")
        within = np.clip(self.scale(values), -1, 1)
        return np.where(self.scale.bounded, within, np.tanh(values)).astype(np.float32)


def _rows(batch: Any, size: int, whole: bool) -> np.ndarray:
    """A batch of actions, a row of so many numbers for each environment."""
    wanted = f"{'whole numbers' if whole else 'numbers'}, {size} for each environment"
    values = as_array(batch)
    if values is None:
        raise GobiError(f"actions must be {wanted}, got rows of different lengths")
    if values.dtype.kind not in "biuf":
        raise GobiError(f"actions must be {wanted}, got {values.dtype}")
    if whole and values.dtype.kind == "f" and not (values == np.floor(values)).all():
        raise GobiError(f"actions must be {wanted}, got {values.reshape(-1)[:8].tolist()}")
    if values.ndim == 0 or values.size != len(values) * size:
        raise GobiError(f"actions must be {wanted}, got an array of shape {list(values.shape)}")
    return values.reshape(len(values), size)
