"""Kinds of places in a level: rooms that hold nothing and lead nowhere, corners, and cells along walls."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int, UInt16

from gobi.envs.minigrid import State, cells

THINGS = (cells.KEY, cells.BALL, cells.BOX, cells.GOAL)

Mask = Bool[np.ndarray, "width height"]


def shares(level: State, reachable: Mask, visits: Int[np.ndarray, "width height"]) -> dict[str, float]:
    """How much of all visits fell on each kind of place, and how much of the reachable cells it is."""
    grid = np.asarray(level.grid)
    kinds = {
        "empty_rooms": empty_rooms(level, reachable),
        "corners": corners(grid, reachable),
        "borders": borders(grid, reachable),
    }
    found = {}
    for name, there in kinds.items():
        found[f"visits_in_{name}"] = round(float(visits[there].sum() / max(1, visits.sum())), 6)
        found[f"cells_in_{name}"] = round(float(there.sum() / max(1, reachable.sum())), 6)
    return found


def empty_rooms(level: State, reachable: Mask) -> Mask:
    """The cells of rooms with one door, without anything in them, in which the agent does not start."""
    kinds = np.asarray(level.grid) & cells.OBJECT_MASK
    start = tuple(int(place) for place in level.position)
    found = np.zeros_like(reachable)
    for room in rooms(kinds, reachable):
        doors = _grown(room) & (kinds == cells.DOOR)
        if doors.sum() == 1 and not room[start] and not np.isin(kinds[room], THINGS).any():
            found |= room
    return found


def rooms(kinds: UInt16[np.ndarray, "width height"], reachable: Mask) -> list[Mask]:
    """The rooms: what is left of the reachable cells without the doors, in connected pieces."""
    left, found = reachable & (kinds != cells.DOOR), []
    while left.any():
        room = np.zeros_like(left)
        room[tuple(np.argwhere(left)[0])] = True
        while (larger := _grown(room) & left).sum() > room.sum():
            room = larger
        found.append(room)
        left = left & ~room
    return found


def corners(grid: UInt16[np.ndarray, "width height"], reachable: Mask) -> Mask:
    """Cells with a wall on a side and a wall ahead or behind."""
    left, right, up, down = _walls(grid)
    return reachable & (left | right) & (up | down)


def borders(grid: UInt16[np.ndarray, "width height"], reachable: Mask) -> Mask:
    """Cells with a wall beside them."""
    left, right, up, down = _walls(grid)
    return reachable & (left | right | up | down)


def _walls(grid: UInt16[np.ndarray, "width height"]) -> tuple[Mask, Mask, Mask, Mask]:
    """Whether the neighbour at the left, right, above and below is a wall; so is what lies outside."""
    wall = np.pad((grid & cells.OBJECT_MASK) == cells.WALL, 1, constant_values=True)
    return wall[:-2, 1:-1], wall[2:, 1:-1], wall[1:-1, :-2], wall[1:-1, 2:]


def _grown(mask: Mask) -> Mask:
    """The cells and their four neighbours."""
    wide = np.pad(mask, 1)
    return mask | wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:]
