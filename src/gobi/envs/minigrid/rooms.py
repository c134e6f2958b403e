"""Rooms on a regular grid, as in Farama's RoomGrid: walls, places for doors, and where things may lie."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt16

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.draws import Draws
from gobi.envs.minigrid.rules import HEADINGS

Grid = UInt16[Array, "width height"]
Whole = int | Int32[Array, ""]
Thing = int | np.uint16 | Int32[Array, ""]
"""A packed cell to be put somewhere."""


@dataclasses.dataclass(frozen=True)
class RoomGrid:
    """`columns` x `rows` rooms of `room_size` cells a side, walls included and shared."""

    columns: int
    rows: int
    room_size: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in cells."""
        return (self.room_size - 1) * self.columns + 1, (self.room_size - 1) * self.rows + 1

    def walls(self) -> Grid:
        """The empty rooms."""
        width, height = self.size
        x, y = np.arange(width)[:, None], np.arange(height)[None, :]
        wall = (x % (self.room_size - 1) == 0) | (y % (self.room_size - 1) == 0)
        return jnp.asarray(np.where(wall, cells.WALL_CELL, cells.EMPTY_CELL))

    def doors_right(self, draws: Draws) -> Int32[Array, "{self.columns-1} {self.rows} 2"]:
        """A place for a door in each wall between a room and the one to its right."""
        return self._places(draws, self.columns - 1, self.rows, axis=0)

    def doors_down(self, draws: Draws) -> Int32[Array, "{self.columns} {self.rows-1} 2"]:
        """A place for a door in each wall between a room and the one below it."""
        return self._places(draws, self.columns, self.rows - 1, axis=1)

    def _places(self, draws: Draws, columns: int, rows: int, axis: int) -> Int32[Array, "..."]:
        step = self.room_size - 1
        places = []
        for column in range(columns):
            for row in range(rows):
                along = draws.integer(1, step)
                offset = (step, along) if axis == 0 else (along, step)
                places.append(jnp.stack([column * step + offset[0], row * step + offset[1]]))
        return (
            jnp.stack(places).reshape(columns, rows, 2)
            if places
            else jnp.zeros((columns, rows, 2), jnp.int32)
        )

    def room(self, column: Whole, row: Whole) -> Bool[Array, "width height"]:
        """The cells of a room, its walls included."""
        step = self.room_size - 1
        return rectangle(self.size, (column * step, row * step), (self.room_size, self.room_size))

    @property
    def middle(self) -> tuple[int, int]:
        """Where Farama supposes the agent while it places objects: none is put next to it."""
        step, half = self.room_size - 1, self.room_size // 2
        return self.columns // 2 * step + half, self.rows // 2 * step + half

    def place(self, draws: Draws, grid: Grid, column: Whole, row: Whole, thing: Thing) -> Grid:
        """Puts a thing into a random free cell of a room, not next to the middle of the grid."""
        x, y = _coordinates(self.size)
        distance = jnp.abs(x - self.middle[0]) + jnp.abs(y - self.middle[1])
        free = self.room(column, row) & (grid == cells.EMPTY_CELL) & (distance >= 2)
        return put(grid, draws.index(free), thing)

    def place_agent(
        self, draws: Draws, grid: Grid, column: int, row: int
    ) -> tuple[Int32[Array, "2"], Int32[Array, ""]]:
        """A free cell of a room and a heading, such that the agent faces nothing but floor or wall."""
        free = self.room(column, row) & (grid == cells.EMPTY_CELL)
        bare = (grid == cells.EMPTY_CELL) | (cells.object_of(grid) == cells.WALL)
        # The agent is inside the border, so what rolls over the edge is never asked for.
        ahead = [jnp.roll(bare, (-int(dx), -int(dy)), axis=(0, 1)) for dx, dy in HEADINGS]
        chosen = draws.index(free[:, :, None] & jnp.stack(ahead, axis=-1))
        return position(self.size, chosen // 4), chosen % 4


def rectangle(
    size: tuple[int, int], corner: tuple[Whole, Whole], extent: tuple[Whole, Whole]
) -> Bool[Array, "width height"]:
    """The cells of a rectangle with its upper left cell at `corner`."""
    x, y = _coordinates(size)
    return (x >= corner[0]) & (x < corner[0] + extent[0]) & (y >= corner[1]) & (y < corner[1] + extent[1])


def bordered(size: tuple[int, int]) -> Grid:
    """An empty grid with a wall around it."""
    width, height = size
    inside = rectangle(size, (1, 1), (width - 2, height - 2))
    return jnp.where(inside, cells.EMPTY_CELL, cells.WALL_CELL)


def put(grid: Grid, index: Whole, thing: Thing) -> Grid:
    """Puts a thing at a flat index, over whatever is there."""
    width, height = grid.shape
    x, y = _coordinates((width, height))
    return jnp.where(x * height + y == index, jnp.asarray(thing, jnp.uint16), grid)


def put_at(
    grid: Grid, where: Int32[Array, "2"], thing: Thing, present: bool | Bool[Array, ""] = True
) -> Grid:
    """Puts a thing at a position, over whatever is there, if it is present at all."""
    return jnp.where(present, put(grid, where[0] * grid.shape[1] + where[1], thing), grid)


def position(size: tuple[int, int], index: Int32[Array, ""]) -> Int32[Array, "2"]:
    """The x and y of a flat index."""
    return jnp.stack([index // size[1], index % size[1]])


def _coordinates(size: tuple[int, int]) -> tuple[Int32[Array, "width 1"], Int32[Array, "1 height"]]:
    width, height = size
    return jnp.arange(width, dtype=jnp.int32)[:, None], jnp.arange(height, dtype=jnp.int32)[None, :]
