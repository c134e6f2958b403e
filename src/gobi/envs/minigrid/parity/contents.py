"""Stacked levels taken apart, and how to ask where something is in each of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64, Integer, Shaped

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.state import State

Feature = Shaped[np.ndarray, " levels"]
Category = Int64[np.ndarray, " levels"]
Places = Int64[np.ndarray, "levels 2"]
Cells = Int64[np.ndarray, "levels width height"]
Mask = Bool[np.ndarray, "levels width height"]

ABSENT = -1
DIGIT = 4096
"""More than any category that goes into a joint one."""


class Levels(NamedTuple):
    """Stacked levels: what is in each cell, [level, x, y], and where each agent stands and looks."""

    kind: Cells
    colour: Cells
    state: Cells
    contents: Cells
    position: Places
    direction: Category
    target: Category

    @property
    def locked(self) -> Mask:
        """Where there are locked doors."""
        return (self.kind == cells.DOOR) & (self.state == cells.LOCKED)

    @property
    def is_target(self) -> Mask:
        """Where there is a thing that ends the episode when picked up."""
        same = self.kind | self.colour << cells.COLOUR_SHIFT
        return same == self.target[:, None, None]

    def colour_at(self, places: Places) -> Category:
        """The colour of what is at a place; ABSENT if the place is."""
        x, y = places.T
        return np.where(x < 0, ABSENT, self.colour[np.arange(len(x)), x, y])


def taken_apart(levels: State) -> Levels:
    """Stacked states as whole numbers, the packed cells unpacked."""
    grid, position, direction, target = (
        np.asarray(part).astype(np.int64)
        for part in (levels.grid, levels.position, levels.direction, levels.target)
    )
    return Levels(
        kind=grid & cells.OBJECT_MASK,
        colour=(grid >> cells.COLOUR_SHIFT) & cells.COLOUR_MASK,
        state=(grid >> cells.STATE_SHIFT) & cells.STATE_MASK,
        contents=grid >> cells.CONTENTS_SHIFT,
        position=position,
        direction=direction,
        target=target,
    )


def joint(*parts: Integer[np.ndarray, " levels"]) -> Category:
    """One category for each combination of up to five categories, the same in every sample."""
    combined = np.zeros(len(parts[0]), np.int64)
    for part in parts:
        combined = combined * DIGIT + part + 1
    return combined


def count(mask: Bool[np.ndarray, "levels ..."]) -> Category:
    """How many entries of each level are true."""
    return mask.reshape(len(mask), -1).sum(1).astype(np.int64)


def first(mask: Mask) -> Places:
    """x and y of the first true cell of each level, column by column; both ABSENT if there is none."""
    flat = nth(mask.reshape(len(mask), -1), 0)
    place = np.stack(np.divmod(flat, mask.shape[2]), axis=1)
    return np.where(flat[:, None] < 0, ABSENT, place)


def nth(mask: Bool[np.ndarray, "levels places"], number: int) -> Category:
    """The index of the true entry with this number, counted from 0; ABSENT if there are not so many."""
    later = mask & (np.cumsum(mask, axis=1) > number)
    return np.where(later.any(1), later.argmax(1), ABSENT).astype(np.int64)
