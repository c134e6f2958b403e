"""Rooms on a regular grid, as features: which walls have doors, what lies in which room, what opens what."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.parity.contents import (
    ABSENT,
    Category,
    Feature,
    Levels,
    Places,
    count,
    first,
    joint,
    nth,
)
from gobi.envs.minigrid.rooms import RoomGrid

KINDS = {"key": cells.KEY, "ball": cells.BALL, "box": cells.BOX}


def features(level: Levels, layout: RoomGrid) -> dict[str, Feature]:
    """The doors between the rooms, the things in them, and in which rooms key and target are."""
    found = _doors(level, layout)
    for column, row in np.ndindex(layout.columns, layout.rows):
        found |= _things(level, layout, column, row)
    key_room, target_room = (
        _room_of(layout, first(mask)) for mask in (level.kind == cells.KEY, level.is_target)
    )
    return found | {
        "key's room": key_room,
        "target's room": target_room,
        "key's and target's rooms": joint(key_room, target_room),
    }


def _doors(level: Levels, layout: RoomGrid) -> dict[str, Feature]:
    """Which walls between rooms have a door, where in the wall, and in which colours."""
    found: dict[str, Feature] = {}
    doors, locks, labels = [], [], []
    for name, (columns, rows) in _walls(layout).items():
        kind, colour, state = (
            part[:, columns, rows].reshape(len(part), -1) for part in (level.kind, level.colour, level.state)
        )
        place = nth(kind == cells.DOOR, 0)
        there = place >= 0
        picked = np.arange(len(place)), place
        label = np.where(there, colour[picked], ABSENT)
        found |= {f"door {name}: place": place, f"door {name}: colour": label}
        doors.append(there)
        locks.append(there & (state[picked] == cells.LOCKED))
        labels.append(label)
    door, lock = np.stack(doors).astype(np.int64), np.stack(locks).astype(np.int64)
    target_room = _room_of(layout, first(level.is_target))
    return found | {
        "walls with a door": _code(door),
        "walls with a locked door": _code(lock),
        "walls with a door, locked or not": _code(door + lock),
        "which doors share a colour": _code(_first_equal(np.stack(labels))),
        "target's room and locked doors": _code(np.concatenate([lock, target_room[None]])),
        "target's room and first door's colour": joint(target_room, labels[0]),
    }


def _things(level: Levels, layout: RoomGrid, column: int, row: int) -> dict[str, Feature]:
    """How many keys, balls and boxes a room has, where the first two lie, and which doors they open."""
    found: dict[str, Feature] = {}
    step = layout.room_size - 1
    columns, rows = (slice(number * step + 1, (number + 1) * step) for number in (column, row))
    kind, colour, contents = (
        part[:, columns, rows].reshape(len(part), -1) for part in (level.kind, level.colour, level.contents)
    )
    # A box stands for what it holds: its own colour is always grey.
    colour = np.where(kind == cells.BOX, contents >> cells.COLOUR_SHIFT, colour)
    for name, number in KINDS.items():
        places = [nth(kind == number, which) for which in (0, 1)]
        colours = [np.where(place < 0, ABSENT, colour[np.arange(len(place)), place]) for place in places]
        label = f"room {column},{row}: {name}"
        found |= {
            f"{label} count": count(kind == number),
            f"{label} place": places[0],
            f"{label} places": joint(*places),
            f"{label} colours": joint(*colours),
        }
        if number != cells.BALL:
            opens = [_first_lock_of(level, each) for each in colours]
            found[f"{label} opens"] = joint(*opens)
            found[f"{label} place and what it opens"] = joint(places[0], opens[0])
    return found


def _walls(layout: RoomGrid) -> dict[str, tuple[slice, slice]]:
    """The cells of each wall between two rooms, named after the room to its left or above it."""
    step = layout.room_size - 1
    walls = {}
    for column, row in np.ndindex(layout.columns, layout.rows):
        x, y = (column + 1) * step, (row + 1) * step
        if column + 1 < layout.columns:
            walls[f"right of {column},{row}"] = slice(x, x + 1), slice(y - step + 1, y)
        if row + 1 < layout.rows:
            walls[f"below {column},{row}"] = slice(x - step + 1, x), slice(y, y + 1)
    return walls


def _first_lock_of(level: Levels, colour: Category) -> Category:
    """The number of the first locked door of a colour among the locked doors of its level."""
    locked = level.locked.reshape(len(colour), -1)
    place = nth(locked & (level.colour.reshape(len(colour), -1) == colour[:, None]), 0)
    number = np.cumsum(locked, axis=1)[np.arange(len(place)), place]
    return np.where(place < 0, ABSENT, number)


def _room_of(layout: RoomGrid, place: Places) -> Category:
    """The number of the room that a place is in."""
    column, row = place.T // (layout.room_size - 1)
    return np.where(place[:, 0] < 0, ABSENT, column * layout.rows + row)


def _code(digits: Int64[np.ndarray, "walls levels"]) -> Category:
    """The digits of each level as one number, the same in every sample.

    The base is odd, so that with very many walls the number wraps around as a hash does and forgets no digit.
    """
    base = max(3, len(digits) | 1)
    code = np.zeros(digits.shape[1], np.int64)
    for digit in digits:
        code = code * base + digit
    return code


def _first_equal(labels: Int64[np.ndarray, "walls levels"]) -> Int64[np.ndarray, "walls levels"]:
    """Which labels are equal, whatever they are: each is replaced by the first wall that has it."""
    return np.argmax(labels[None] == labels[:, None], axis=1).astype(np.int64)
