"""Policies that need no learning: for demonstrations, and to bring about every kind of event in parity."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Key

from gobi.envs.minigrid import cells, rules
from gobi.envs.minigrid.state import State

WEIGHTS = {
    #                      left right forward pickup drop toggle done
    "way is free":         ( 9,   9,    74,      2,    2,    2,    2),
    "free, hands full":    ( 7,   7,    58,      2,   22,    2,    2),
    "wall":                (44,  44,     4,      2,    2,    2,    2),
    "door open":           ( 7,   7,    66,      2,    2,   14,    2),
    "door closed":         ( 7,   7,     4,      2,    2,   76,    2),
    "door locked":         (34,  34,     4,      2,    2,   22,    2),
    "door locked, key":    ( 4,   4,     4,      2,    2,   82,    2),
    "key or ball":         ( 9,   9,     4,     68,    2,    6,    2),
    "key or ball, full":   (38,  38,     4,      8,    6,    4,    2),
    "box":                 (10,  10,     4,     30,    2,   42,    2),
    "box, hands full":     (16,  16,     4,      8,    6,   48,    2),
}  # fmt: skip
"""How often each action is played in each situation, of 100. No action has weight 0: what does nothing is
played too. A bare wall is the one thing from which a policy that mostly walks would never come away.
"""
_SITUATIONS = {name: number for number, name in enumerate(WEIGHTS)}
_UP_TO = np.cumsum(np.array(list(WEIGHTS.values()), np.int32), axis=1)


def uniform(key: Key[Array, ""], state: State) -> Int32[Array, ""]:
    """Any of the seven actions, whatever the state."""
    del state
    word = jax.random.bits(key, (), jnp.uint32)
    return (word % rules.NUM_ACTIONS).astype(jnp.int32)


def biased(key: Key[Array, ""], state: State) -> Int32[Array, ""]:
    """A random action that suits what is in front of the agent and in its hands.

    Doors are opened and gone through, keys and balls picked up and put down elsewhere, boxes opened or
    carried off; every action remains possible everywhere. Draws are integers, so all devices play alike.
    """
    up_to = jnp.asarray(_UP_TO)[situation(state)]
    word = jax.random.bits(key, (), jnp.uint32)
    draw = (word % up_to[-1].astype(jnp.uint32)).astype(jnp.int32)
    return jnp.sum(up_to <= draw, dtype=jnp.int32)


def situation(state: State) -> Int32[Array, ""]:
    """The row of the table of weights that a state calls for."""
    ahead = rules.front(state)
    cell = state.grid[ahead[0], ahead[1]]
    kind, door = cells.object_of(cell), cells.state_of(cell)
    full = state.carrying != cells.NOTHING
    # A key fits if toggling would change the lock.
    fits = rules.toggled(cell, state.carrying) != cell
    cases = [
        (kind == cells.WALL, "wall"),
        ((kind == cells.DOOR) & (door == cells.OPEN), "door open"),
        ((kind == cells.DOOR) & (door == cells.CLOSED), "door closed"),
        ((kind == cells.DOOR) & fits, "door locked, key"),
        (kind == cells.DOOR, "door locked"),
        ((kind == cells.BOX) & full, "box, hands full"),
        (kind == cells.BOX, "box"),
        (cells.can_pick_up(cell) & full, "key or ball, full"),
        (cells.can_pick_up(cell), "key or ball"),
        ((kind == cells.EMPTY) & full, "free, hands full"),
    ]
    conditions = [condition for condition, _ in cases]
    numbers = [jnp.int32(_SITUATIONS[name]) for _, name in cases]
    return jnp.select(conditions, numbers, jnp.int32(_SITUATIONS["way is free"]))
