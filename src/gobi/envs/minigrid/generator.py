"""What every task family gives: levels, made in chunks of a fixed size."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, Key

from gobi.envs.minigrid.state import State


@dataclasses.dataclass(frozen=True)
class Generator(abc.ABC):
    """A task family with its sizes chosen.

    Levels are made a chunk at a time, and a chunk is the same on every device: level i of a seed is the i-th
    level in the chunks 0, 1, 2, ... of that seed, whoever asks for it.
    """

    @property
    @abc.abstractmethod
    def size(self) -> tuple[int, int]:
        """Width and height of the grid."""

    @property
    @abc.abstractmethod
    def max_steps(self) -> int:
        """Steps after which an episode is truncated."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The id of a task made by hand, which spells out its sizes."""

    @property
    def see_through_walls(self) -> bool:
        """Whether the view has no occlusion (Farama's Empty tasks)."""
        return False

    @property
    @abc.abstractmethod
    def chunk_size(self) -> int:
        """The most levels that one chunk can hold."""

    @abc.abstractmethod
    def chunk(self, key: Key[Array, ""]) -> tuple[State, Int32[Array, ""]]:
        """One chunk of levels, stacked along the first axis, and how many of them count.

        Levels past that number are filler. Small chunks are as random as large ones: nothing depends on
        which level of a chunk is used.
        """

    @abc.abstractmethod
    def one(self, key: Key[Array, ""]) -> State:
        """A single level, for tests and single episodes; not one of a seed's numbered levels."""

    @abc.abstractmethod
    def farama(self) -> tuple[str, dict[str, Any]]:
        """The class in `minigrid.envs` that plays this task, and its arguments."""


@dataclasses.dataclass(frozen=True)
class PlainGenerator(Generator):
    """A family in which every attempt gives a level."""

    @property
    def chunk_size(self) -> int:
        """Levels in a chunk: enough to fill a GPU, few enough to be quick on a laptop."""
        return 256

    @abc.abstractmethod
    def level(self, key: Key[Array, ""]) -> State:
        """One level."""

    def one(self, key: Key[Array, ""]) -> State:
        """A single level."""
        return self.level(key)

    def chunk(self, key: Key[Array, ""]) -> tuple[State, Int32[Array, ""]]:
        """A level for each of the chunk's keys."""
        levels = jax.vmap(self.level)(jax.random.split(key, self.chunk_size))
        return levels, jnp.int32(self.chunk_size)
