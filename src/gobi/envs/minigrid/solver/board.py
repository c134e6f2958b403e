"""A state as the solver sees it: plain lists instead of arrays, and a wall around the grid.

Cells are flat indices. A pose is a cell and a heading in one number, 4 * cell + direction.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.state import State

BLOCKED, FREE, SHUT = range(3)
"""What it costs to go into a cell: impossible, one action, or two, the first of which opens a door."""

Things = dict[int, int]
"""Keys, balls and boxes, as packed cells, by the cell they lie in."""


@dataclasses.dataclass(frozen=True, eq=False)
class Board:
    """A level, or any later state of it.

    cells:   the packed cells.
    steps:   how far a step in each direction moves the flat index of a cell.
    pose:    where the agent stands and looks.
    hands:   what it carries, as a packed cell.
    target:  object and colour whose picking up is a success; 0 if there is none.
    """

    cells: list[int]
    steps: tuple[int, int, int, int]
    pose: int
    hands: int
    target: int

    @functools.cached_property
    def things(self) -> Things:
        """Everything that can be carried."""
        return {cell: what for cell, what in enumerate(self.cells) if cells.KEY <= kind(what) <= cells.BOX}

    @functools.cached_property
    def goals(self) -> tuple[int, ...]:
        """The goal squares."""
        return tuple(cell for cell, what in enumerate(self.cells) if kind(what) == cells.GOAL)

    @functools.cached_property
    def locks(self) -> dict[int, int]:
        """The locked doors, and the key that fits each."""
        return {
            cell: cells.KEY | what & cells.COLOUR_MASK << cells.COLOUR_SHIFT
            for cell, what in enumerate(self.cells)
            if kind(what) == cells.DOOR and _door_state(what) == cells.LOCKED
        }

    @functools.cached_property
    def entry(self) -> list[int]:
        """BLOCKED, FREE or SHUT for each cell, as if nothing lay about.

        Locked doors are BLOCKED. So are goals, since nobody passes through one: the episode ends there.
        """
        return [_entry(what) for what in self.cells]

    @functools.cached_property
    def passable(self) -> list[bool]:
        """Where the agent could ever stand, with every door open and nothing lying about."""
        return [entry != BLOCKED or cell in self.locks for cell, entry in enumerate(self.entry)]

    def facing(self, cell: int) -> list[int]:
        """The poses that have a cell in front of them and could ever be taken."""
        return [
            4 * (cell - step) + direction
            for direction, step in enumerate(self.steps)
            if self.passable[cell - step]
        ]

    def finishes(self, things: Things) -> tuple[int, ...]:
        """The cells of what ends the episode well: goals, targets, and boxes that hold a target."""
        return self.goals + tuple(cell for cell, what in things.items() if offers(what, self.target))


def board(state: State) -> Board:
    """The board of a state; nothing after this touches an array."""
    state = jax.tree.map(np.asarray, state)
    # One wall more all around, so that looking ahead never leaves the list.
    walled = np.pad(state.grid, 1, constant_values=cells.WALL_CELL)
    height = walled.shape[1]
    x, y = (int(coordinate) + 1 for coordinate in state.position)
    return Board(
        cells=walled.ravel().tolist(),
        steps=(height, 1, -height, -1),
        pose=4 * (x * height + y) + int(state.direction),
        hands=int(state.carrying),
        target=int(state.target),
    )


def kind(what: int) -> int:
    """The object in a packed cell."""
    return what & cells.OBJECT_MASK


def contents(what: int) -> int:
    """What a box holds, as a packed cell; 0 for nothing."""
    return what >> cells.CONTENTS_SHIFT


def offers(what: int, wanted: int) -> bool:
    """Whether a thing is the wanted object and colour, or a box that holds it."""
    return wanted != 0 and wanted in (what & cells.KIND_MASK, what >> cells.CONTENTS_SHIFT)


def _door_state(what: int) -> int:
    return (what >> cells.STATE_SHIFT) & cells.STATE_MASK


def _entry(what: int) -> int:
    if kind(what) == cells.DOOR:
        return (FREE, SHUT, BLOCKED)[_door_state(what)]
    return BLOCKED if kind(what) in (cells.WALL, cells.GOAL, cells.LAVA) else FREE
