"""Farama's `minigrid` as the oracle: states travel both ways, so that both can play the same game.

Needs the extra `minigrid`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8, UInt16

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.state import State
from gobi.errors import GobiError, require


def new_farama(env: MiniGrid, **options: Any) -> Any:
    """Farama's environment for the same task: the class with our sizes, without wrappers, not yet reset."""
    envs = require("minigrid.envs", extra="minigrid")
    name, arguments = env.generator.farama()
    if hasattr(envs, name):
        kind = getattr(envs, name)
    else:
        kind = getattr(require("minigrid.envs.obstructedmaze_v1", extra="minigrid"), name)
    made = kind(**arguments, **options)
    if made.max_steps != env.spec.max_steps or (made.width, made.height) != env.generator.size:
        raise GobiError(
            f"{env.spec.id}: Farama's {name} is {made.width}x{made.height} with {made.max_steps} steps, "
            f"ours {env.generator.size} with {env.spec.max_steps}; this minigrid version has changed"
        )
    return made


def from_farama(farama: Any) -> State:
    """Our state from Farama's environment, at any moment of an episode. Wrappers are seen through."""
    bare = farama.unwrapped
    target = getattr(bare, "obj", None)
    return State(
        grid=jnp.asarray(packed_grid(bare)),
        position=jnp.asarray(np.asarray(bare.agent_pos, np.int32)),
        direction=jnp.int32(int(bare.agent_dir)),
        carrying=jnp.uint16(packed(bare.carrying) if bare.carrying else int(cells.NOTHING)),
        target=jnp.uint16(packed(target) & cells.KIND_MASK if target else int(cells.NOTHING)),
        step_count=jnp.int32(int(bare.step_count)),
    )


def to_farama(state: State, farama: Any) -> Any:
    """Puts our state into a Farama environment of the same task and returns it, ready for `step`."""
    bare = farama.unwrapped
    grid, position = np.asarray(state.grid), np.asarray(state.position)
    if grid.shape != (bare.width, bare.height):
        raise GobiError(f"the state's grid is {grid.shape}, Farama's {(bare.width, bare.height)}")
    grid_module = require("minigrid.core.grid", extra="minigrid")
    bare.grid = grid_module.Grid(bare.width, bare.height)
    for x, y in np.ndindex(*grid.shape):
        bare.grid.set(x, y, unpacked(int(grid[x, y]), (x, y)))
    bare.agent_pos = (int(position[0]), int(position[1]))
    bare.agent_dir = int(state.direction)
    bare.carrying = unpacked(int(state.carrying), (-1, -1))
    bare.step_count = int(state.step_count)
    target = int(state.target)
    if target:
        # Farama asks for this very object, not for one like it.
        movable = [bare.carrying, *bare.grid.grid]
        movable += [thing.contains for thing in movable if thing is not None]
        found = [thing for thing in movable if thing and packed(thing) & cells.KIND_MASK == target]
        if not found:
            raise GobiError(f"the target of this state, packed {target}, is nowhere in it")
        bare.obj = found[0]
    return farama


def packed_grid(bare: Any) -> UInt16[np.ndarray, "width height"]:
    """Farama's grid as packed cells."""
    found = [int(cells.EMPTY_CELL) if thing is None else packed(thing) for thing in bare.grid.grid]
    return np.array(found, np.uint16).reshape(bare.height, bare.width).T


def packed(thing: Any) -> int:
    """One of Farama's objects as a packed cell, with what it contains."""
    kind, colour, state = thing.encode()
    inside = thing.contains
    if inside is not None and inside.contains is not None:
        raise GobiError("a box inside a box cannot be represented; none of the tasks has one")
    return cells.pack(kind, colour, state, packed(inside) if inside is not None else 0)


def unpacked(cell: int, place: tuple[int, int]) -> Any:
    """Farama's object for a packed cell, or None for an empty one."""
    objects = require("minigrid.core.world_object", extra="minigrid")
    kind = cell & cells.OBJECT_MASK
    colour = (cell >> cells.COLOUR_SHIFT) & cells.COLOUR_MASK
    state = (cell >> cells.STATE_SHIFT) & cells.STATE_MASK
    thing = objects.WorldObj.decode(kind, colour, state)
    if thing is None:
        return None
    thing.init_pos = thing.cur_pos = place
    if kind == cells.BOX:
        thing.contains = unpacked(cell >> cells.CONTENTS_SHIFT, place)
    return thing


def farama_panorama(farama: Any) -> UInt8[np.ndarray, "4 7 7 3"]:
    """The panorama by Farama's own view, turning its agent on the spot and back."""
    bare = farama.unwrapped
    facing, views = bare.agent_dir, []
    for turn in (1, 2, 3, 4):
        bare.agent_dir = (facing + turn) % 4
        views.append(bare.gen_obs()["image"])
    bare.agent_dir = facing
    return np.stack(views)


def farama_full_grid(farama: Any) -> UInt8[np.ndarray, "width height 3"]:
    """The full grid by Farama's own FullyObsWrapper."""
    wrappers = require("minigrid.wrappers", extra="minigrid")
    return wrappers.FullyObsWrapper(farama).observation({})["image"]


def farama_levels(env: MiniGrid, seed: int, count: int) -> State:
    """Levels made by Farama, stacked on the host; the first is the one of `reset(seed=seed)`."""
    farama = new_farama(env)
    found = []
    for number in range(count):
        farama.reset(seed=seed if number == 0 else None)
        found.append(jax.tree.map(np.asarray, from_farama(farama)))
    return jax.tree.map(lambda *arrays: np.stack(arrays), *found)
