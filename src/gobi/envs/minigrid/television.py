"""A noisy television: one cell of a level that changes its colour at random at every step.

Nobody can foresee its colours, and nothing comes of them. A reward that pays for what is new, or for what was
not foreseen, may pay an agent for watching it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, Key, UInt32

from gobi.envs.minigrid import cells, rooms
from gobi.envs.minigrid.draws import Draws
from gobi.envs.minigrid.generator import Generator
from gobi.envs.minigrid.state import State, reached_from

OWN_DRAWS = 2**30
"""Folded into a key: what is drawn here has nothing to do with what the level itself draws from that key."""


@dataclasses.dataclass(frozen=True)
class Noisy(Generator):
    """The levels of another family, a television in each.

    It is a floor tile in the room that the agent starts in, and is walked over like an empty cell. Level i of
    a seed is the other family's level i, and the tile.

    task:  the other family.
    """

    task: Generator

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the grid."""
        return self.task.size

    @property
    def max_steps(self) -> int:
        """The limit of the other family."""
        return self.task.max_steps

    @property
    def name(self) -> str:
        """The id, with its sizes."""
        return f"{self.task.name}-noisy"

    @property
    def see_through_walls(self) -> bool:
        """Whether the view has no occlusion."""
        return self.task.see_through_walls

    @property
    def chunk_size(self) -> int:
        """The most levels that one chunk can hold."""
        return self.task.chunk_size

    def chunk(self, key: Key[Array, ""]) -> tuple[State, Int32[Array, ""]]:
        """The other family's chunk."""
        levels, count = self.task.chunk(key)
        keys = jax.random.split(jax.random.fold_in(key, OWN_DRAWS), self.chunk_size)
        return jax.vmap(with_television)(keys, levels), count

    def one(self, key: Key[Array, ""]) -> State:
        """A single level."""
        return with_television(jax.random.fold_in(key, OWN_DRAWS), self.task.one(key))

    def farama(self) -> tuple[str, dict[str, Any]]:
        """What draws the pictures; it has no television of its own, so it cannot play this task."""
        return self.task.farama()


def with_television(key: Key[Array, ""], level: State) -> State:
    """The level with a television: in the room of the agent, which has an empty cell in every family."""
    draws, kind = Draws(key, words=2), cells.object_of(level.grid)
    room = reached_from((kind != cells.WALL) & (kind != cells.DOOR), level.position)
    empty = room & (kind == cells.EMPTY)
    empty = empty.at[level.position[0], level.position[1]].set(False)
    grid = rooms.put(level.grid, draws.index(empty), cells.pack(cells.FLOOR))
    furnished = dataclasses.replace(level, grid=grid, noise=draws.word())
    return redrawn(furnished)


def redrawn(state: State) -> State:
    """The state with the colour that the television has at this step; as it is if there is none.

    The colour is a function of the level's noise and the step count. So `step` stays pure, whoever plays a
    level sees the same colours, and the simulator as a world knows the next one.
    """
    if state.noise is None:
        return state
    tile = jnp.uint16(cells.FLOOR) | colour(state.noise, state.step_count) << cells.COLOUR_SHIFT
    shown = jnp.where(cells.object_of(state.grid) == cells.FLOOR, tile.astype(jnp.uint16), state.grid)
    return eqx.tree_at(lambda s: s.grid, state, shown)


def colour(noise: UInt32[Array, ""], step: Int32[Array, ""]) -> UInt32[Array, ""]:
    """The colour at a step: each of the six as likely as the others, whatever came before."""
    # A counter that goes in large odd steps, mixed as MurmurHash3 ends.
    word = noise + step.astype(jnp.uint32) * jnp.uint32(0x9E3779B9)
    word = (word ^ word >> 16) * jnp.uint32(0x85EBCA6B)
    word = (word ^ word >> 13) * jnp.uint32(0xC2B2AE35)
    return (word ^ word >> 16) % len(cells.COLOUR_NAMES)
