"""Pictures of states and of episodes, drawn by Farama's own renderer. Needs the extra `minigrid`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from gobi.envs.minigrid import oracle
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.state import State
from gobi.types import Timestep

Frame = UInt8[np.ndarray, "height width 3"]

PICTURE_SIDE = 480
"""Pixels along the longer side of a picture, at most; large enough to tell a key from a ball."""
MIN_TILE, MAX_TILE = 8, 32


def tile_size_for(env: MiniGrid) -> int:
    """Pixels per cell such that the whole grid makes a picture of a handy size."""
    return int(np.clip(PICTURE_SIDE // max(env.generator.size), MIN_TILE, MAX_TILE))


def frame(env: MiniGrid, state: State, tile_size: int | None = None) -> Frame:
    """The picture of one state, the agent's view lit up."""
    return _draw(oracle.new_farama(env), state, tile_size or tile_size_for(env))


def episode(env: MiniGrid, state: State, actions: Sequence[int], tile_size: int | None = None) -> list[Frame]:
    """The pictures of a state and of every state that the actions lead to from there: one more than actions.

    What happens after the end of an episode is not drawn: actions that come later are left out.
    """
    tile_size = tile_size or tile_size_for(env)
    farama = oracle.new_farama(env)
    frames = [_draw(farama, state, tile_size)]
    for action in actions:
        state, timestep = _step(env, state, jnp.int32(action))
        frames.append(_draw(farama, state, tile_size))
        if timestep.done:
            break
    return frames


@functools.partial(jax.jit, static_argnums=0)
def _step(env: MiniGrid, state: State, action: Int32[Array, ""]) -> tuple[State, Timestep]:
    return env.step(state, action)


def _draw(farama: Any, state: State, tile_size: int) -> Frame:
    oracle.to_farama(state, farama)
    return np.asarray(farama.unwrapped.get_frame(highlight=True, tile_size=tile_size), np.uint8)
