"""What a grid cell holds, packed into 16 bits.

    bits 0-3    object      (Farama's OBJECT_TO_IDX)
    bits 4-6    colour      (Farama's COLOR_TO_IDX)
    bits 7-8    door state  0 open, 1 closed, 2 locked
    bits 9-15   what a box holds: object and colour, in the same layout as bits 0-6; 0 is nothing

The first nine bits are exactly the three channels of a MiniGrid observation, so encoding a view is two
shifts, and a box travels with what is in it.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt8, UInt16

UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA, AGENT = range(11)
RED, GREEN, BLUE, PURPLE, YELLOW, GREY = range(6)
OPEN, CLOSED, LOCKED = range(3)

COLOUR_SHIFT, STATE_SHIFT, CONTENTS_SHIFT = 4, 7, 9
OBJECT_MASK, COLOUR_MASK, STATE_MASK = 0b1111, 0b111, 0b11
KIND_MASK = 0b1111111
"""Object and colour together: what makes a key fit a door, or a ball the one to fetch."""

OBJECT_NAMES = (
    "unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent",
)  # fmt: skip
COLOUR_NAMES = ("red", "green", "blue", "purple", "yellow", "grey")


def pack(kind: int, colour: int = 0, state: int = 0, contents: int = 0) -> int:
    """One cell's 16 bits from its parts; `contents` is itself a packed cell, or 0."""
    return kind | colour << COLOUR_SHIFT | state << STATE_SHIFT | (contents & KIND_MASK) << CONTENTS_SHIFT


NOTHING = np.uint16(0)
"""Empty hands. Not the same as EMPTY_CELL: a hand is not a place."""
EMPTY_CELL = np.uint16(pack(EMPTY))
WALL_CELL = np.uint16(pack(WALL, GREY))
GOAL_CELL = np.uint16(pack(GOAL, GREEN))


def object_of(cell: UInt16[Array, "*shape"]) -> UInt16[Array, "*shape"]:
    """The object in a cell: EMPTY, WALL, DOOR, ..."""
    return cell & OBJECT_MASK


def colour_of(cell: UInt16[Array, "*shape"]) -> UInt16[Array, "*shape"]:
    """The colour of what is in a cell."""
    return (cell >> COLOUR_SHIFT) & COLOUR_MASK


def state_of(cell: UInt16[Array, "*shape"]) -> UInt16[Array, "*shape"]:
    """OPEN, CLOSED or LOCKED for a door; 0 for everything else."""
    return (cell >> STATE_SHIFT) & STATE_MASK


def contents_of(cell: UInt16[Array, "*shape"]) -> UInt16[Array, "*shape"]:
    """What is in the box in this cell, as a packed cell; NOTHING if it is empty or no box."""
    return cell >> CONTENTS_SHIFT


def can_pick_up(cell: UInt16[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Keys, balls and boxes can be carried."""
    kind = object_of(cell)
    return (kind >= KEY) & (kind <= BOX)


def can_enter(cell: UInt16[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """The agent may stand on empty cells, floor, goal, lava and in open doors."""
    kind = object_of(cell)
    walkable = (kind == EMPTY) | (kind == FLOOR) | (kind == GOAL) | (kind == LAVA)
    return walkable | ((kind == DOOR) & (state_of(cell) == OPEN))


def can_see_past(cell: UInt16[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Only walls and doors that are not open block the view; balls and boxes do not."""
    kind = object_of(cell)
    return (kind != WALL) & ((kind != DOOR) | (state_of(cell) == OPEN))


def encode(cell: UInt16[Array, "*shape"]) -> UInt8[Array, "*shape 3"]:
    """MiniGrid's three channels: object, colour, state."""
    shifts = jnp.array([0, COLOUR_SHIFT, STATE_SHIFT], jnp.uint16)
    masks = jnp.array([OBJECT_MASK, COLOUR_MASK, STATE_MASK], jnp.uint16)
    return ((cell[..., None] >> shifts) & masks).astype(jnp.uint8)
