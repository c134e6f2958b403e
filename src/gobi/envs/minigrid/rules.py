"""The rules of MiniGrid: what each of the seven actions does to a state."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Integer, UInt16

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.state import State

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
ACTION_NAMES = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
NUM_ACTIONS = len(ACTION_NAMES)

HEADINGS = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.int32)
"""A step forward for each direction: right, down, left, up."""


class Outcome(NamedTuple):
    """How a step ended: success pays the reward, terminated ends the episode."""

    success: Bool[Array, ""]
    terminated: Bool[Array, ""]


def heading(direction: Int32[Array, ""]) -> Int32[Array, "2"]:
    """The unit vector of a direction, by arithmetic: cheaper than a table on every device."""
    turned = direction & 1
    sign = 1 - (direction & 2)
    return jnp.stack([(1 - turned) * sign, turned * sign])


def front(state: State) -> Int32[Array, "2"]:
    """The position of the cell that the agent faces."""
    return state.position + heading(state.direction)


def move(state: State, action: Integer[Array, ""]) -> tuple[State, Outcome]:
    """Plays one action. Anything outside 0 .. 5 changes nothing but the step count."""
    ahead = front(state)
    cell = state.grid[ahead[0], ahead[1]]
    kind = cells.object_of(cell)
    hands_empty = state.carrying == cells.NOTHING

    picks_up = (action == PICKUP) & cells.can_pick_up(cell) & hands_empty
    drops = (action == DROP) & (kind == cells.EMPTY) & ~hands_empty
    toggles = action == TOGGLE
    advances = (action == FORWARD) & cells.can_enter(cell)

    carrying = jnp.where(picks_up, cell, jnp.where(drops, cells.NOTHING, state.carrying))
    new_cell = jnp.where(toggles, toggled(cell, state.carrying), cell)
    new_cell = jnp.where(picks_up, cells.EMPTY_CELL, jnp.where(drops, state.carrying, new_cell))

    width, height = state.grid.shape
    here = jnp.arange(width)[:, None] * height + jnp.arange(height)
    # A comparison with every cell, not a scatter: it fuses with whatever reads the grid next.
    grid = jnp.where(here == ahead[0] * height + ahead[1], new_cell, state.grid)

    turn = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
    # Farama asks on every pickup whether the target is in the hands, not whether it was just taken.
    fetched = (
        (action == PICKUP) & (state.target != cells.NOTHING) & (carrying & cells.KIND_MASK == state.target)
    )
    on_goal = advances & (kind == cells.GOAL)
    success = fetched | on_goal
    moved = State(
        grid=grid,
        position=jnp.where(advances, ahead, state.position),
        direction=(state.direction + turn) & 3,
        carrying=carrying,
        target=state.target,
        step_count=state.step_count + 1,
        noise=state.noise,
    )
    return moved, Outcome(success, success | (advances & (kind == cells.LAVA)))


def toggled(cell: UInt16[Array, ""], carrying: UInt16[Array, ""]) -> UInt16[Array, ""]:
    """What a cell becomes when toggled: doors open and close, a key of the lock's colour opens it, a box
    gives way to what it holds. The key stays in the hands.
    """
    kind, state = cells.object_of(cell), cells.state_of(cell)
    fits = carrying & cells.KIND_MASK == cells.KEY | (cells.colour_of(cell) << cells.COLOUR_SHIFT)
    new_state = jnp.where(
        state == cells.LOCKED,
        jnp.where(fits, cells.OPEN, cells.LOCKED),
        cells.CLOSED - state,
    ).astype(jnp.uint16)
    door = (cell & cells.KIND_MASK) | new_state << cells.STATE_SHIFT
    contents = cells.contents_of(cell)
    unpacked = jnp.where(contents == cells.NOTHING, cells.EMPTY_CELL, contents)
    return jnp.where(kind == cells.DOOR, door, jnp.where(kind == cells.BOX, unpacked, cell))
