"""MultiRoom: a chain of rooms, a door between each two, the goal in the last one."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, UInt32

from gobi.envs.minigrid import cells, rooms
from gobi.envs.minigrid.draws import Draws
from gobi.envs.minigrid.generator import Generator
from gobi.envs.minigrid.state import State, level
from gobi.errors import GobiError

MIN_SIZE = 4
TRIES = 8
"""Tries to attach a next room, before the whole attempt is given up."""
MOST_COMBINATIONS = 2**20
"""Of the draws that one random word is split into, so that each is off by less than one part in 4,000."""


class Chain(NamedTuple):
    """The rooms placed so far in one attempt.

    corner, extent:  upper left cell and size of each room, walls included.
    door, wall:      where each room is entered, and through which wall: 0 right, 1 below, 2 left, 3 above.
    placed:          rooms placed.
    failures:        tries in a row that found no place for the next room.
    """

    corner: Int32[Array, "rooms 2"]
    extent: Int32[Array, "rooms 2"]
    door: Int32[Array, "rooms 2"]
    wall: Int32[Array, " rooms"]
    placed: Int32[Array, ""]
    failures: Int32[Array, ""]


@dataclasses.dataclass(frozen=True)
class MultiRoom(Generator):
    """`rooms` rooms of 4 to `max_size` cells a side, walls included, on a grid of `side` x `side`.

    An attempt is a chain: each next room gets eight tries, then all starts anew. For twelve rooms one attempt
    in a thousand comes through, so attempts run side by side, and a chunk keeps the ones that do, in order.
    """

    rooms: int = 6
    max_size: int = 10
    side: int = 25

    def __post_init__(self):
        if self.rooms < 1 or self.max_size < MIN_SIZE or self.side <= self.max_size:
            raise GobiError(
                f"MultiRoom needs rooms >= 1, max_size >= {MIN_SIZE} and side > max_size, "
                f"got rooms {self.rooms}, max_size {self.max_size}, side {self.side}"
            )
        if self.rooms * (MIN_SIZE - 1) ** 2 > self.side**2:
            raise GobiError(f"{self.rooms} rooms do not fit on a grid of {self.side}x{self.side} cells")
        if ((self.side - 2) * (self.max_size - MIN_SIZE + 1)) ** 2 > MOST_COMBINATIONS:
            raise GobiError(
                f"MultiRoom with max_size {self.max_size} and side {self.side} is too large: "
                f"(side - 2) * (max_size - {MIN_SIZE - 1}) may be at most {math.isqrt(MOST_COMBINATIONS)}"
            )

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the grid."""
        return self.side, self.side

    @property
    def max_steps(self) -> int:
        """Farama's limit."""
        return 20 * self.rooms

    @property
    def name(self) -> str:
        """The id, with its sizes."""
        return f"gobi/MultiRoom-N{self.rooms}-S{self.max_size}-{self.side}x{self.side}"

    @property
    def attempts(self) -> int:
        """Attempts in a chunk: more where rooms are many, since few attempts then come through."""
        return 512 if self.rooms <= 4 else 2048 if self.rooms <= 8 else 16384

    @property
    def chunk_size(self) -> int:
        """The most levels kept of a chunk; what comes through beyond it is let go, in order."""
        return 256 if self.rooms <= 4 else 512 if self.rooms <= 8 else 64

    def chunk(self, key: Key[Array, ""]) -> tuple[State, Int32[Array, ""]]:
        """The levels of all attempts that came through, in the order of the attempts."""
        chain_key, furnish_key = jax.random.split(key)
        chains = self._attempts(chain_key, self.attempts)
        complete = chains.placed == self.rooms
        kept = jnp.argsort(~complete, stable=True)[: self.chunk_size]
        chains = jax.tree.map(lambda part: part[kept], chains)
        levels = jax.vmap(self._furnish)(jax.random.split(furnish_key, self.chunk_size), chains)
        return levels, jnp.minimum(jnp.sum(complete), self.chunk_size).astype(jnp.int32)

    def one(self, key: Key[Array, ""]) -> State:
        """A single level: small batches of attempts until one comes through.

        For sizes that never fit it does not end, since compiled code cannot refuse; `make_bank` says so.
        """
        batch = self.attempts // 16

        def attempt(number: Int32[Array, ""]) -> tuple[Int32[Array, ""], Chain]:
            chains = self._attempts(jax.random.fold_in(key, number), batch)
            first = jnp.argmax(chains.placed)
            return number + 1, jax.tree.map(lambda part: part[first], chains)

        _, chain = jax.lax.while_loop(
            lambda carry: carry[1].placed < self.rooms,
            lambda carry: attempt(carry[0]),
            attempt(jnp.int32(1)),
        )
        return self._furnish(jax.random.fold_in(key, 0), chain)

    def farama(self) -> tuple[str, dict[str, Any]]:
        """Farama's class and arguments."""
        return "MultiRoomEnv", {
            "minNumRooms": self.rooms,
            "maxNumRooms": self.rooms,
            "maxRoomSize": self.max_size,
            "width": self.side,
            "height": self.side,
        }

    def _attempts(self, key: Key[Array, ""], count: int) -> Chain:
        """A number of attempts, side by side."""
        first, later = jax.random.split(key)
        tries = TRIES * (self.rooms - 1)
        starts = jax.random.bits(first, (count,), jnp.uint32)
        words = jax.random.bits(later, (tries, count), jnp.uint32)
        chains = jax.vmap(self._first_room)(starts)
        step = jax.vmap(self._try_next_room)
        return jax.lax.scan(lambda chain, word: (step(chain, word), None), chains, words)[0]

    def _first_room(self, word: UInt32[Array, ""]) -> Chain:
        """The first room lies at a random place; if it does not fit, the attempt is over."""
        sizes = self.max_size - MIN_SIZE + 1
        x, y, width, height = _digits(word, (self.side - 2, self.side - 2, sizes, sizes))
        corner, extent = jnp.stack([x, y]), MIN_SIZE + jnp.stack([width, height])
        fits = self._inside(corner, extent)
        blank = jnp.zeros((self.rooms, 2), jnp.int32)
        return Chain(
            corner=blank.at[0].set(corner),
            extent=blank.at[0].set(extent),
            door=blank.at[0].set(corner),
            wall=jnp.full(self.rooms, 2, jnp.int32),
            placed=fits.astype(jnp.int32),
            failures=jnp.where(fits, 0, TRIES).astype(jnp.int32),
        )

    def _try_next_room(self, chain: Chain, word: UInt32[Array, ""]) -> Chain:
        """One try: a door in another wall of the last room, a room of random size behind it."""
        number = jnp.arange(self.rooms)
        is_last = number == chain.placed - 1
        corner, extent, wall = (
            jnp.sum(jnp.where(is_last.reshape(-1, *[1] * (part.ndim - 1)), part, 0), axis=0, dtype=jnp.int32)
            for part in (chain.corner, chain.extent, chain.wall)
        )
        sizes = self.max_size - MIN_SIZE + 1
        # The wall is one of the three that the last room was not entered by, in ascending order.
        choice, width, height, rest = _digits(word, (3, sizes, sizes), remainder=True)
        exit_wall = choice + (choice >= wall)
        new_extent = MIN_SIZE + jnp.stack([width, height])
        sideways = exit_wall % 2 == 0
        door_span = jnp.where(sideways, extent[1], extent[0]) - 2
        slide_span = jnp.where(sideways, new_extent[1], new_extent[0]) - 2
        door_offset, slide = 1 + rest % door_span, rest // door_span % slide_span

        # Exit walls 0 (right) and 1 (below) are the far ones.
        far = exit_wall < 2
        across = jnp.where(far, jnp.where(sideways, extent[0], extent[1]) - 1, 0)
        door = corner + jnp.where(
            sideways, jnp.stack([across, door_offset]), jnp.stack([door_offset, across])
        )
        depth = jnp.where(sideways, new_extent[0], new_extent[1]) - 1
        back = jnp.where(far, 0, -depth)
        # The door may be in any cell of the new room's wall but its corners.
        shift = slide - slide_span
        new_corner = door + jnp.where(sideways, jnp.stack([back, shift]), jnp.stack([shift, back]))

        older = number < chain.placed - 1
        fits = self._inside(new_corner, new_extent)
        fits = fits & ~jnp.any(older & _overlaps(new_corner, new_extent, chain))
        alive = (chain.failures < TRIES) & (chain.placed < self.rooms)
        added = alive & fits
        is_new = (number == chain.placed) & added
        return Chain(
            corner=jnp.where(is_new[:, None], new_corner, chain.corner),
            extent=jnp.where(is_new[:, None], new_extent, chain.extent),
            door=jnp.where(is_new[:, None], door, chain.door),
            wall=jnp.where(is_new, (exit_wall + 2) % 4, chain.wall),
            placed=chain.placed + added,
            failures=jnp.where(added, 0, chain.failures + alive),
        )

    def _inside(self, corner: Int32[Array, "2"], extent: Int32[Array, "2"]) -> Bool[Array, ""]:
        """Farama lets a room touch the right edge of the grid, but not the lower one."""
        end = corner + extent
        return jnp.all(corner >= 0) & (end[0] <= self.side) & (end[1] < self.side)

    def _furnish(self, key: Key[Array, ""], chain: Chain) -> State:
        """Walls, doors of changing colours, the agent in the first room, the goal in the last."""
        draws = Draws(key, words=self.rooms + 3)
        grid = jnp.full(self.size, cells.EMPTY_CELL)
        colour = None
        for number in range(self.rooms):
            corner, extent = chain.corner[number], chain.extent[number]
            outer = rooms.rectangle(self.size, tuple(corner), tuple(extent))
            inner = rooms.rectangle(self.size, tuple(corner + 1), tuple(extent - 2))
            grid = jnp.where(outer & ~inner, cells.WALL_CELL, grid)
            if number > 0:
                colour = _other_colour(draws, colour)
                door = cells.pack(cells.DOOR, 0, cells.CLOSED) | colour << cells.COLOUR_SHIFT
                grid = rooms.put_at(grid, chain.door[number], door)
        first = rooms.rectangle(self.size, tuple(chain.corner[0]), tuple(chain.extent[0]))
        last = rooms.rectangle(self.size, tuple(chain.corner[-1]), tuple(chain.extent[-1]))
        free = grid == cells.EMPTY_CELL
        agent = draws.index(first & free)
        direction = draws.integer(0, 4)
        not_agent = jnp.arange(self.side**2).reshape(self.size) != agent
        grid = rooms.put(grid, draws.index(last & free & not_agent), cells.GOAL_CELL)
        return level(grid, rooms.position(self.size, agent), direction)


def _digits(
    word: UInt32[Array, ""], bases: tuple[int, ...], remainder: bool = False
) -> list[Int32[Array, ""]]:
    """Splits one random word into draws below each of the bases, as the digits of a number.

    For the tasks with a name the product of all bases is at most 26,000, so no draw is off by more than one
    part in 160,000.
    """
    if math.prod(bases) > MOST_COMBINATIONS:
        raise ValueError(f"too many combinations for one random word: {bases}")
    drawn = []
    for base in bases:
        drawn.append((word % base).astype(jnp.int32))
        word = word // base
    return [*drawn, (word & 0x7FFFFFFF).astype(jnp.int32)] if remainder else drawn


def _overlaps(corner: Int32[Array, "2"], extent: Int32[Array, "2"], chain: Chain) -> Bool[Array, " rooms"]:
    """Farama's test: it asks for a gap to rooms on the right and below, not to those on the left or above."""
    before = jnp.any(corner + extent < chain.corner, axis=1)
    behind = jnp.any(chain.corner + chain.extent <= corner, axis=1)
    return ~(before | behind)


def _other_colour(draws: Draws, colour: Int32[Array, ""] | None) -> Int32[Array, ""]:
    """A door's colour: any for the first one, then any but the one before."""
    if colour is None:
        return draws.integer(0, 6)
    drawn = draws.integer(0, 5)
    return drawn + (drawn >= colour)
