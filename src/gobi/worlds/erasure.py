"""Erasing what can be carried: else it would make the episodic memory grow without exploring."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Num, UInt8

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.view import AGENT_COLUMN, AGENT_ROW

Erase = bool | Literal["lying"]
"""What is taken out of views: nothing, all movable things, or those that lie about, not what is carried."""


def erased(observation: Num[Array, "..."], erase: Erase) -> Num[Array, "..."]:
    """Views as they are hashed and predicted; observations of other kinds have nothing to take out."""
    if not erase:
        return observation
    return erase_movable(observation, carried=erase != "lying")


def erase_movable(observation: UInt8[Array, "*shape 3"], carried: bool = True) -> UInt8[Array, "*shape 3"]:
    """Views in which keys, balls and boxes are empty cells (1, 0, 0).

    carried:  also what the agent has in its hands, which is shown in its own cell.
    """
    kind = observation[..., :1]
    movable = (kind == cells.KEY) | (kind == cells.BALL) | (kind == cells.BOX)
    if not carried:
        movable = movable.at[..., AGENT_COLUMN, AGENT_ROW, :].set(False)
    empty = jnp.array([cells.EMPTY, 0, 0], jnp.uint8)
    return jnp.where(movable, empty, observation)
