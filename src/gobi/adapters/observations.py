"""From Gymnasium's spaces to what rewards read: observations as views, integers, numbers or pictures."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gobi.adapters import pictures
from gobi.adapters.actions import Acted, actions
from gobi.adapters.batches import checked
from gobi.adapters.scales import FINITE, Scale, scale
from gobi.errors import GobiError, require
from gobi.types import Spec

require("gymnasium", extra="gymnasium")

from gymnasium import Space, spaces  # noqa: E402

__all__ = ["Acted", "Observed", "actions", "observations", "spec"]

MOST_SYMBOLS = 256
"""Integers of a wider range than this are numbers to compare, not symbols; but for Gymnasium's Discrete."""
MOST_ONE_HOT = 4096
"""Beside other parts, integers become zeros and ones if there are no more of those than this."""
MINIGRID = {"image", "direction", "mission"}
"""The parts of Farama's MiniGrid observations."""
MINIGRID_CLASSES = 16
"""More than its eleven kinds of objects, the most numerous of the symbols there."""
PIXEL_RANGE = 128
"""Whole numbers of a narrower range are symbols, however many of them there are."""
UNKNOWN_LENGTH = 1000
"""Steps of an episode that nobody limits, to size memories by: they grow where it is more."""


@dataclasses.dataclass(frozen=True)
class Observed:
    """What a reward reads of a space, and how to make it.

    shape, dtype:  of one observation.
    classes:       observations are the integers 0 .. classes - 1; 0 where they are numbers or pixels.
    read:          from a batch as a vector environment gives it to an array [envs, *shape].
    """

    shape: tuple[int, ...]
    dtype: str
    classes: int
    read: Callable[[Any], np.ndarray]

    def __call__(self, batch: Any) -> np.ndarray:
        """The observations [envs, *shape] of a batch: an array, or a dictionary or tuple of them."""
        return self.read(batch)


def spec(id: str, observation_space: Space, action_space: Space, max_steps: int | None = None) -> Spec:
    """What a reward must know of a task with these spaces (those of a single environment)."""
    observed, acted = observations(observation_space), actions(action_space)
    return Spec(
        id=id,
        observation_shape=observed.shape,
        observation_dtype=observed.dtype,
        num_actions=acted.num_actions,
        max_steps=max_steps or UNKNOWN_LENGTH,
        action_size=acted.action_size,
        classes=observed.classes,
    )


def observations(space: Space) -> Observed:
    """How to read the observations of a single environment's space.

    MiniGrid's own are read as they are; integers stay integers; pictures become thumbnails of at most 42
    pixels a side; numbers are scaled to about [-1, 1], by their bounds or by logarithm; several parts are
    put together as numbers, or as integers where all of them are. Nothing here depends on what was seen
    before: a state has the same code at all times.
    """
    if not _has_numbers(space):
        raise GobiError(
            f"observations of the space {space} have no numbers in them: all states would be the same one"
        )
    if isinstance(space, spaces.Dict):
        if "image" in space.spaces and set(space.spaces) <= MINIGRID:
            return _minigrid(space.spaces["image"])
        parts = {name: part for name, part in space.spaces.items() if _has_numbers(part)}
        return _together({name: observations(part) for name, part in parts.items()})
    if isinstance(space, spaces.Tuple):
        parts = {place: part for place, part in enumerate(space.spaces) if _has_numbers(part)}
        return _together({place: observations(part) for place, part in parts.items()})
    if isinstance(space, spaces.Discrete):
        return _integers((), int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return _integers(space.nvec.shape, np.asarray(space.start), int(space.nvec.max()))
    if isinstance(space, spaces.MultiBinary):
        return _integers(tuple(space.shape), 0, 2)
    if isinstance(space, spaces.Box):
        return _box(space)
    raise GobiError(
        f"rewards cannot read observations of the space {space}: pass observe=(function, space), a function "
        "from the batch to an array and the space of one row of it"
    )


def _has_numbers(space: Space) -> bool:
    """Whether there is anything to see in a space; spaces that are not known are left to others."""
    if isinstance(space, spaces.Dict):
        return any(map(_has_numbers, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return any(map(_has_numbers, space.spaces))
    return space.shape is None or math.prod(space.shape) > 0


def _minigrid(space: Space) -> Observed:
    """Farama's MiniGrid: the picture of symbols alone, which tells the direction by what is where."""
    inner = observations(space)
    if inner.classes:
        inner = _integers(inner.shape, 0, MINIGRID_CLASSES)
    return dataclasses.replace(inner, read=functools.partial(_part, name="image", read=inner.read))


def _part(batch: Mapping[str, Any], name: str, read: Callable[[Any], np.ndarray]) -> np.ndarray:
    return read(batch[name])


def _box(space: spaces.Box) -> Observed:
    shape, dtype = tuple(space.shape), np.dtype(space.dtype)
    low, high = (np.asarray(bound, np.float64) for bound in (space.low, space.high))
    bounded = bool(np.all(np.abs(low) < FINITE) and np.all(np.abs(high) < FINITE))
    whole = dtype.kind in "iub"
    if shape == (7, 7, 3) and dtype == np.uint8 and high.max() == 255:
        return Observed(shape, "uint8", 0, functools.partial(_same, shape=shape))
    if bounded and pictures.large(shape):
        span = high.max() - low.min()
        if (dtype == np.uint8 and span >= PIXEL_RANGE) or (not whole and len(shape) >= 3):
            thumbnail = pictures.thumbnails(shape, float(low.min()), float(high.max()))
            return Observed(thumbnail.shape, "uint8", 0, thumbnail)
    if whole and bounded and high.max() - low.min() < MOST_SYMBOLS:
        return _integers(shape, int(low.min()), int(high.max() - low.min()) + 1)
    return Observed((low.size,), "float32", 0, _Numbers(shape, scale(low, high)))


def _same(batch: Any, shape: tuple[int, ...]) -> np.ndarray:
    return checked(batch, shape).astype(np.uint8, copy=False)


def _integers(shape: tuple[int, ...], start: Any, classes: int) -> Observed:
    dtype = "uint8" if classes <= 256 else "int32"
    rows = shape or (1,)
    return Observed(rows, dtype, classes, _Integers(shape, rows, start, classes, dtype))


@dataclasses.dataclass(frozen=True, eq=False)
class _Integers:
    """Integers counted from 0."""

    announced: tuple[int, ...]
    shape: tuple[int, ...]
    start: Any
    classes: int
    dtype: str

    def __call__(self, batch: Any) -> np.ndarray:
        values = checked(batch, self.announced).astype(np.int64) - self.start
        wrong = ((values < 0) | (values >= self.classes)).reshape(len(values), -1).any(axis=1)
        if wrong.any():
            raise GobiError(f"environment {int(wrong.argmax())}: the observation is outside of its space")
        return values.reshape(-1, *self.shape).astype(self.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class _Numbers:
    """Real numbers as a vector: to [-1, 1] by their bounds; by sign(x) log(1 + |x|) where there are none."""

    announced: tuple[int, ...]
    scale: Scale

    def __call__(self, batch: Any) -> np.ndarray:
        values = checked(batch, self.announced)
        values = values.reshape(len(values), -1).astype(np.float64)
        small = np.sign(values) * np.log1p(np.abs(values))
        return np.where(self.scale.bounded, self.scale(values), small).astype(np.float32)


def _together(parts: Mapping[Any, Observed]) -> Observed:
    """All parts one after the other: as integers if all of them are, else as numbers."""
    if not parts:
        raise GobiError("rewards cannot read observations of a space without parts")
    joined = _Together(dict(parts), whole=all(part.classes for part in parts.values()))
    if joined.whole:
        classes = max(part.classes for part in parts.values())
        size = sum(math.prod(part.shape) for part in parts.values())
        return Observed((size,), "uint8" if classes <= 256 else "int32", classes, joined)
    return Observed((sum(_size(part) for part in parts.values()),), "float32", 0, joined)


@dataclasses.dataclass(frozen=True, eq=False)
class _Together:
    parts: dict[Any, Observed]
    whole: bool

    def __call__(self, batch: Any) -> np.ndarray:
        if not isinstance(batch, Mapping | Sequence):
            came = type(batch).__name__
            raise GobiError(f"a batch of observations with the parts {list(self.parts)} came as {came}")
        rows = [(part, part(batch[name])) for name, part in self.parts.items()]
        if self.whole:
            return np.concatenate([values.reshape(len(values), -1) for _, values in rows], axis=1)
        return np.concatenate([_as_numbers(part, values) for part, values in rows], axis=1)


def _one_hot(part: Observed) -> bool:
    return part.classes > 0 and math.prod(part.shape) * part.classes <= MOST_ONE_HOT


def _size(part: Observed) -> int:
    return math.prod(part.shape) * (part.classes if _one_hot(part) else 1)


def _as_numbers(part: Observed, values: np.ndarray) -> np.ndarray:
    """A part as numbers between about -1 and 1."""
    rows = len(values)
    if _one_hot(part):
        return (values[..., None] == np.arange(part.classes)).reshape(rows, -1).astype(np.float32)
    if part.dtype == "float32":
        return values
    most = part.classes - 1 if part.classes else 255
    return (values.reshape(rows, -1) / most).astype(np.float32)
