"""What a level is like, as named numbers: the agent, the things and where they lie, the doors, the rooms.

Integers are categories, floating-point numbers are quantities. The same code reads levels of either source.
"""

from __future__ import annotations

import jax
import numpy as np

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.generator import Generator
from gobi.envs.minigrid.multiroom import MultiRoom
from gobi.envs.minigrid.parity import chains, roomgrids
from gobi.envs.minigrid.parity.contents import (
    ABSENT,
    DIGIT,
    Feature,
    Levels,
    count,
    first,
    joint,
    taken_apart,
)
from gobi.envs.minigrid.rooms import RoomGrid
from gobi.envs.minigrid.rules import HEADINGS
from gobi.envs.minigrid.state import State

BATCH = 4096
"""Levels worked on at a time, so that a long comparison does not fill the memory."""
KINDS = {"key": cells.KEY, "ball": cells.BALL, "box": cells.BOX, "goal": cells.GOAL, "door": cells.DOOR}


def features(generator: Generator, levels: State) -> dict[str, Feature]:
    """Every feature of each of the stacked levels; the generator only says how the rooms are laid out.

    Single features come with joint ones (agent and key, key's room and ball's room, ...), which tell a wrong
    dependence between parts that are right each by itself.
    """
    batches = []
    for start in range(0, len(levels.direction), BATCH):
        some = slice(start, start + BATCH)
        batch = taken_apart(jax.tree.map(lambda part, some=some: part[some], levels))
        batches.append(_features(generator, batch))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _features(generator: Generator, level: Levels) -> dict[str, Feature]:
    """The features of a batch of levels."""
    found = _agent(level) | _counts(level) | _things(level) | _colours(level)
    layout = getattr(generator, "rooms", None)
    if isinstance(generator, MultiRoom):
        found |= chains.features(level, generator.rooms)
    elif isinstance(layout, RoomGrid):
        found |= roomgrids.features(level, layout)
    return found


def _agent(level: Levels) -> dict[str, Feature]:
    """Where the agent stands, where it looks and what it sees there."""
    x, y = level.position.T
    ahead = level.position + HEADINGS[level.direction]
    return {
        "agent x": x,
        "agent y": y,
        "agent cell": joint(x, y),
        "agent direction": level.direction,
        "agent cell and direction": joint(x, y, level.direction),
        "agent faces": level.kind[np.arange(len(x)), ahead[:, 0], ahead[:, 1]],
    }


def _counts(level: Levels) -> dict[str, Feature]:
    """How many there are of everything."""
    locked = level.locked
    found: dict[str, Feature] = {f"{name} count": count(level.kind == kind) for name, kind in KINDS.items()}
    found["locked door count"] = count(locked)
    found["wall cells"] = count(level.kind == cells.WALL).astype(np.float64)
    keys = np.where(level.kind == cells.BOX, level.contents, level.kind | level.colour << cells.COLOUR_SHIFT)
    without_key = np.zeros(len(locked), np.int64)
    for colour in range(len(cells.COLOUR_NAMES)):
        has_key = np.any(keys == cells.pack(cells.KEY, colour), axis=(1, 2))
        without_key += np.where(has_key, 0, count(locked & (level.colour == colour)))
    return found | {"locked doors without a key": without_key}


def _things(level: Levels) -> dict[str, Feature]:
    """Place and colour of the first thing of each kind, column by column, and how far apart they are."""
    masks = {name: level.kind == kind for name, kind in KINDS.items()} | {"target": level.is_target}
    places = {"agent": level.position} | {name: first(mask) for name, mask in masks.items()}
    found: dict[str, Feature] = {}
    for name in masks:
        x, y = places[name].T
        found |= {f"{name} x": x, f"{name} y": y, f"{name} cell": joint(x, y)}
        found[f"{name} colour"] = level.colour_at(places[name])
    pairs = [("agent", "key"), ("agent", "box"), ("agent", "goal"), ("agent", "target"), ("agent", "door")]
    pairs += [("key", "target"), ("key", "door"), ("box", "target"), ("target", "door")]
    for one, other in pairs:
        apart = places[other] - places[one]
        missing = (places[one][:, 0] < 0) | (places[other][:, 0] < 0)
        steps = np.where(missing, ABSENT, np.abs(apart).sum(1))
        shifted = np.where(missing[:, None], ABSENT, apart + DIGIT // 2)
        found[f"steps from {one} to {other}"] = steps.astype(np.float64)
        found[f"{other} as seen from {one}"] = joint(*shifted.T)
    return found


def _colours(level: Levels) -> dict[str, Feature]:
    """How many doors of each colour, and how the colours of door, key and target go together."""
    doors = level.kind == cells.DOOR
    found: dict[str, Feature] = {
        f"{name} doors": count(doors & (level.colour == colour))
        for colour, name in enumerate(cells.COLOUR_NAMES)
    }
    lock_colour, key_colour = (
        level.colour_at(first(mask)) for mask in (level.locked, level.kind == cells.KEY)
    )
    return found | {
        "lock colour": lock_colour,
        "lock and key colours": joint(lock_colour, key_colour),
        "lock and target colours": joint(lock_colour, level.target),
    }
