"""Erasing what can be carried: in ObstructedMaze it would make the episodic memory grow without exploring."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, UInt8

from gobi.envs.minigrid import cells


def erase_movable(observation: UInt8[Array, "*shape 3"]) -> UInt8[Array, "*shape 3"]:
    """Views in which keys, balls and boxes, also the one in the agent's hands, are empty cells (1, 0, 0)."""
    kind = observation[..., :1]
    movable = (kind == cells.KEY) | (kind == cells.BALL) | (kind == cells.BOX)
    empty = jnp.array([cells.EMPTY, 0, 0], jnp.uint8)
    return jnp.where(movable, empty, observation)
