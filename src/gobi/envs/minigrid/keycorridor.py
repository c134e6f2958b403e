"""KeyCorridor: a hallway with rooms on both sides; a ball behind the locked door, its key in another room."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Key

from gobi.envs.minigrid import cells, rooms
from gobi.envs.minigrid.draws import Draws
from gobi.envs.minigrid.generator import PlainGenerator
from gobi.envs.minigrid.state import State, level
from gobi.errors import GobiError

COLUMNS = 3
HALLWAY = 1
"""The middle column of rooms has no walls between them."""


@dataclasses.dataclass(frozen=True)
class KeyCorridor(PlainGenerator):
    """Three columns of `rows` rooms of `room_size` cells a side, walls included."""

    room_size: int = 3
    rows: int = 3

    def __post_init__(self):
        if self.room_size < 3 or self.rows < 1:
            raise GobiError(
                "KeyCorridor needs room_size >= 3 and rows >= 1, "
                f"got room_size {self.room_size} and rows {self.rows}"
            )

    @property
    def rooms(self) -> rooms.RoomGrid:
        """The rooms without their doors."""
        return rooms.RoomGrid(COLUMNS, self.rows, self.room_size)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the grid."""
        return self.rooms.size

    @property
    def max_steps(self) -> int:
        """Farama's limit."""
        return 30 * self.room_size**2

    @property
    def name(self) -> str:
        """The id, with its sizes."""
        return f"gobi/KeyCorridorS{self.room_size}R{self.rows}"

    def level(self, key: Key[Array, ""]) -> State:
        """Door, ball and key, then the agent, then doors until every room can be reached."""
        layout, rows, step = self.rooms, self.rows, self.room_size - 1
        draws = Draws(key, words=13 * rows)
        right, down = layout.doors_right(draws), layout.doors_down(draws)

        x = jnp.arange(self.size[0])[:, None]
        y = jnp.arange(self.size[1])[None, :]
        in_hallway = (x > step) & (x < 2 * step) & (y > 0) & (y < rows * step)
        grid = jnp.where(in_hallway, cells.EMPTY_CELL, layout.walls())

        shut = draws.integer(0, rows)
        colour = draws.integer(0, 6)
        locked = cells.pack(cells.DOOR, 0, cells.LOCKED) | colour << cells.COLOUR_SHIFT
        grid = rooms.put_at(grid, right[HALLWAY, shut], locked)
        ball = cells.BALL | draws.integer(0, 6) << cells.COLOUR_SHIFT
        grid = layout.place(draws, grid, COLUMNS - 1, shut, ball)
        its_key = cells.KEY | colour << cells.COLOUR_SHIFT
        grid = layout.place(draws, grid, 0, draws.integer(0, rows), its_key)
        agent, direction = layout.place_agent(draws, grid, HALLWAY, rows // 2)

        grid = _connect(draws, grid, shut, right, down)
        return level(grid, agent, direction, ball.astype(jnp.uint16))

    def farama(self) -> tuple[str, dict[str, Any]]:
        """Farama's class and arguments."""
        return "KeyCorridorEnv", {"room_size": self.room_size, "num_rows": self.rows}


def _connect(
    draws: Draws,
    grid: rooms.Grid,
    shut: Int32[Array, ""],
    right: Int32[Array, "2 rows 2"],
    down: Int32[Array, "3 rows-1 2"],
) -> rooms.Grid:
    """Opens doors in random walls until every room can be reached, as Farama's connect_all does.

    Farama draws walls, with replacement, and gives each a door unless it has one or a side of it is the
    locked room, until all rooms hang together. That is a random order of the walls, cut where the last room
    joins; since a door may also join rooms that were joined already, it is not a spanning tree. The cut is
    the largest rank on the best way to any room, a way being as good as its largest rank: a minimax path.
    """
    rows = right.shape[1]
    sides = [((c, r), (c + 1, r), right[c, r]) for c in range(COLUMNS - 1) for r in range(rows)]
    sides += [((c, r), (c, r + 1), down[c, r]) for c in (0, 2) for r in range(rows - 1)]
    rank = jnp.argsort(draws.order(len(sides))).astype(jnp.int32)
    never, always = jnp.int32(len(sides)), jnp.int32(-1)

    places = COLUMNS * rows
    between = jnp.full((places, places), never)
    for room in range(rows - 1):
        pair = np.array([HALLWAY * rows + room, HALLWAY * rows + room + 1])
        between = between.at[pair, pair[::-1]].set(always)

    allowed = []
    for number, ((c1, r1), (c2, r2), _) in enumerate(sides):
        is_the_lock = (c2 == 2) & (c1 == 1) & (shut == r1)
        touches_the_lock = (c2 == 2) & ((shut == r1) & (c1 == 2) | (shut == r2))
        allowed.append(~touches_the_lock)
        cost = jnp.where(is_the_lock, always, jnp.where(touches_the_lock, never, rank[number]))
        pair = np.array([c1 * rows + r1, c2 * rows + r2])
        between = between.at[pair, pair[::-1]].set(cost)

    reached = jnp.full(places, never).at[HALLWAY * rows].set(always)
    for _ in range(places - 1):
        through = jnp.min(jnp.maximum(reached[:, None], between), axis=0)
        reached = jnp.minimum(reached, through)
    last = jnp.max(reached)

    for number, (_, _, place) in enumerate(sides):
        door = cells.pack(cells.DOOR, 0, cells.CLOSED) | draws.integer(0, 6) << cells.COLOUR_SHIFT
        grid = rooms.put_at(grid, place, door, allowed[number] & (rank[number] <= last))
    return grid
