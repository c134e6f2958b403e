"""The rooms of a MultiRoom level, recovered from its grid and followed from the agent's to the goal's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.parity.contents import ABSENT, Category, Feature, Levels, Mask, Places, first, joint
from gobi.envs.minigrid.rules import HEADINGS


class Chain(NamedTuple):
    """Rooms in the order in which the agent gets to them; everything is ABSENT where the chain has ended.

    low, high:  the corners of each room, walls included.
    door:       the door to the next room.
    side:       the side it is on: 0 right, 1 below, 2 left, 3 above.
    colour:     its colour.
    """

    low: Int64[np.ndarray, "rooms levels 2"]
    high: Int64[np.ndarray, "rooms levels 2"]
    door: Int64[np.ndarray, "rooms levels 2"]
    side: Int64[np.ndarray, "rooms levels"]
    colour: Int64[np.ndarray, "rooms levels"]


def recovered(level: Levels, rooms: int) -> Chain:
    """Measures the room around the agent, goes through its door, measures the next one, `rooms` times."""
    ahead = level.kind == cells.DOOR
    solid = ahead | (level.kind == cells.WALL)
    inside, there = level.position, np.ones(len(solid), bool)
    found = []
    for _ in range(rooms):
        low, high = _room_around(solid, inside)
        door, has_exit = _door_of(ahead, low, high)
        ahead[np.arange(len(door)), door[:, 0], door[:, 1]] = False
        side = _side_of(door, low, high)
        part = low, high, door, side, level.colour_at(door)
        seen = there, there, there & has_exit, there & has_exit, there & has_exit
        found.append(
            [np.where(_like(real, value), value, ABSENT) for real, value in zip(seen, part, strict=True)]
        )
        there = there & has_exit
        inside = np.where(there[:, None], door + HEADINGS[side], level.position)
    return Chain(*(np.stack(each) for each in zip(*found, strict=True)))


def features(level: Levels, rooms: int) -> dict[str, Feature]:
    """Sizes, doors, turns and colours along the chain, where agent and goal are in their rooms, and how close
    rooms lie that are not neighbours.
    """
    chain = recovered(level, rooms)
    goal = first(level.kind == cells.GOAL)
    found: dict[str, Feature] = {
        "rooms": (chain.low[:, :, 0] >= 0).sum(0).astype(np.int64),
        "first room x": chain.low[0, :, 0],
        "first room y": chain.low[0, :, 1],
        "agent in its room": joint(*(level.position - chain.low[0]).T),
        "goal in its room": joint(*(goal - chain.low[-1]).T),
        "any door like the one before": np.any(
            (chain.colour[1:] == chain.colour[:-1]) & (chain.colour[1:] >= 0), axis=0
        ).astype(np.int64),
    }
    for number in range(rooms):
        found |= _room_features(chain, number)
    for number in range(rooms - 1):
        found |= _door_features(chain, number)
    return found | _edges(chain) | _nearness(chain)


def _room_features(chain: Chain, number: int) -> dict[str, Feature]:
    width, height = (chain.high[number] - chain.low[number] + 1).T
    name = f"room {number}"
    return {f"{name} width": width, f"{name} height": height, f"{name} size": joint(width, height)}


def _door_features(chain: Chain, number: int) -> dict[str, Feature]:
    """Side, colour and place of the door from a room to the next, and how they go with the door before."""
    along = 1 - chain.side[number] % 2
    before, behind = (
        np.take_along_axis(chain.door[number] - chain.low[room], along[:, None], axis=1)[:, 0]
        for room in (number, number + 1)
    )
    name = f"door {number}"
    found = {
        f"{name} side": chain.side[number],
        f"{name} colour": chain.colour[number],
        f"{name} in the room before": before,
        f"{name} in the room behind": behind,
    }
    if number > 0:
        found[f"{name} turn"] = joint(chain.side[number - 1], chain.side[number])
        found[f"{name} colours"] = joint(chain.colour[number - 1], chain.colour[number])
    return found


def _edges(chain: Chain) -> dict[str, Feature]:
    """How far the rooms reach to each side of the grid."""
    far = np.where(chain.low < 0, np.iinfo(np.int64).max, chain.low).min(0)
    near = chain.high.max(0)
    return {
        "left edge": far[:, 0],
        "upper edge": far[:, 1],
        "right edge": near[:, 0],
        "lower edge": near[:, 1],
    }


def _nearness(chain: Chain) -> dict[str, Feature]:
    """How many pairs of rooms that are no neighbours in the chain lie wall to wall, or one cell apart.

    Counted by the side on which the later room lies: Farama's test for overlap treats the sides differently.
    """
    names = (("left", "right"), ("above", "below"))
    found: dict[str, Feature] = {
        f"rooms {gap} apart, later {side}": np.zeros(chain.side.shape[1], np.int64)
        for gap in (0, 1)
        for pair in names
        for side in pair
    }
    rooms = len(chain.low)
    for older in range(rooms):
        for later in range(older + 2, rooms):
            there = chain.low[later, :, 0] >= 0
            for axis in (0, 1):
                across = 1 - axis
                beside = (chain.low[older, :, across] <= chain.high[later, :, across]) & (
                    chain.low[later, :, across] <= chain.high[older, :, across]
                )
                before = chain.low[older, :, axis] - chain.high[later, :, axis] - 1
                after = chain.low[later, :, axis] - chain.high[older, :, axis] - 1
                for side, gaps in zip(names[axis], (before, after), strict=True):
                    for gap in (0, 1):
                        found[f"rooms {gap} apart, later {side}"] += there & beside & (gaps == gap)
    return found


def _room_around(solid: Mask, inside: Places) -> tuple[Places, Places]:
    """The corners of the room around a place: how far one can look along its row and its column."""
    index, (x, y) = np.arange(len(solid)), inside.T
    lows, highs = [], []
    for line, here in ((solid[index, :, y], x), (solid[index, x, :], y)):
        numbers, length = np.arange(line.shape[1]), line.shape[1]
        lows.append(np.where(line & (numbers < here[:, None]), numbers, 0).max(1))
        highs.append(np.where(line & (numbers > here[:, None]), numbers, length - 1).min(1))
    return np.stack(lows, axis=1), np.stack(highs, axis=1)


def _door_of(doors: Mask, low: Places, high: Places) -> tuple[Places, Bool[np.ndarray, " levels"]]:
    """The first of the doors in a room's walls, and whether there is one."""
    x = np.arange(doors.shape[1])[None, :, None]
    y = np.arange(doors.shape[2])[None, None, :]
    low, high = low[:, :, None, None], high[:, :, None, None]
    mine = doors & (x >= low[:, 0]) & (x <= high[:, 0]) & (y >= low[:, 1]) & (y <= high[:, 1])
    flat = mine.reshape(len(doors), -1)
    return np.stack(np.divmod(flat.argmax(1), doors.shape[2]), axis=1), flat.any(1)


def _side_of(door: Places, low: Places, high: Places) -> Category:
    """Which side of a room a door is on, numbered like the headings."""
    sides = [door[:, 0] == high[:, 0], door[:, 1] == high[:, 1], door[:, 0] == low[:, 0]]
    return np.select(sides, [0, 1, 2], 3).astype(np.int64)


def _like(flags: Bool[np.ndarray, " levels"], value: Int64[np.ndarray, "levels ..."]):
    """Flags that broadcast along the value's further axes."""
    return flags.reshape(-1, *[1] * (value.ndim - 1))
