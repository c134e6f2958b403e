"""What can be seen of a state: the agent's view, the panorama, the full grid."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8, UInt16, UInt32

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.rules import heading
from gobi.envs.minigrid.state import State

SIZE = 7
"""The view is SIZE x SIZE cells, the agent in the middle of its last row, looking up."""
AGENT_COLUMN, AGENT_ROW = SIZE // 2, SIZE - 1
ROWS_PER_WORD = 4
"""Visibility travels as two words of four rows of seven bits."""


def egocentric(state: State, see_through_walls: bool = False) -> UInt8[Array, "7 7 3"]:
    """The observation: MiniGrid's symbolic view [column, row, channel], unseen cells all zero."""
    seen = _cells_in_view(state)
    everything = jnp.ones((SIZE, SIZE), bool)
    visible = everything if see_through_walls else _visible(cells.can_see_past(seen))
    in_hands = jnp.where(state.carrying == cells.NOTHING, cells.EMPTY_CELL, state.carrying)
    column, row = _columns_and_rows()
    shown = jnp.where((column == AGENT_COLUMN) & (row == AGENT_ROW), in_hands, seen)
    return cells.encode(jnp.where(visible, shown, jnp.uint16(cells.UNSEEN)))


def panorama(state: State, see_through_walls: bool = False) -> UInt8[Array, "4 7 7 3"]:
    """The views to the right, back, left and front of the present heading. No step is spent."""
    turns = jnp.arange(1, 5, dtype=jnp.int32)

    def turned(turn: Int32[Array, ""]) -> UInt8[Array, "7 7 3"]:
        facing = eqx.tree_at(lambda s: s.direction, state, (state.direction + turn) & 3)
        return egocentric(facing, see_through_walls)

    return jax.vmap(turned)(turns)


def full_grid(state: State) -> UInt8[Array, "width height 3"]:
    """Farama's FullyObsWrapper: the whole grid, the agent's cell as (agent, red, direction).

    What is carried and what boxes hold is not in it.
    """
    agent = cells.pack(cells.AGENT, cells.RED) | state.direction << cells.STATE_SHIFT
    grid = state.grid.at[state.position[0], state.position[1]].set(agent.astype(jnp.uint16))
    return cells.encode(grid)


def _columns_and_rows() -> tuple[Int32[Array, "7 1"], Int32[Array, "1 7"]]:
    index = jnp.arange(SIZE, dtype=jnp.int32)
    return index[:, None], index[None, :]


def _cells_in_view(state: State) -> UInt16[Array, "7 7"]:
    """The cells in front of the agent, rotated so that it looks up; walls outside the grid."""
    ahead = heading(state.direction)
    column, row = _columns_and_rows()
    forward, sideways = AGENT_ROW - row, column - AGENT_COLUMN
    # The agent's right hand points along (-dy, dx).
    x = state.position[0] + ahead[0] * forward - ahead[1] * sideways
    y = state.position[1] + ahead[1] * forward + ahead[0] * sideways
    width, height = state.grid.shape
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    index = jnp.clip(x, 0, width - 1) * height + jnp.clip(y, 0, height - 1)
    found = state.grid.reshape(-1).at[index].get(mode="promise_in_bounds")
    return jnp.where(inside, found, cells.WALL_CELL)


def _visible(clear: Bool[Array, "7 7"]) -> Bool[Array, "7 7"]:
    """Which cells are seen, given which ones can be seen past."""
    column, row = _columns_and_rows()
    bits = jnp.sum(jnp.where(clear, jnp.uint32(1) << column.astype(jnp.uint32), 0), axis=0)
    near, far = _flood(bits.astype(jnp.uint32))
    word = jnp.where(row >= ROWS_PER_WORD, near, far)
    shift = (row % ROWS_PER_WORD) * SIZE + column
    return (word >> shift.astype(jnp.uint32)) & 1 == 1


def _flood(clear: UInt32[Array, "7"]) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    """MiniGrid's visibility, a row of seven bits at a time, from the agent's row upwards.

    In each row light spreads to the right through clear cells, then to the left, and every clear lit cell
    lights the cells above it: straight, and diagonally in the direction of the sweep. Rows are integers
    because 49 booleans set one by one make XLA copy the whole chain into every reader.

    Returns the rows near the agent (4, 5, 6) and the far ones (0 to 3), packed into words.
    """
    everything = jnp.uint32(2**SIZE - 1)
    near, far = jnp.uint32(0), jnp.uint32(0)
    lit = jnp.uint32(1 << AGENT_COLUMN)
    for row in range(SIZE - 1, -1, -1):
        open_ = clear[row]
        lit = _spread(lit, open_, jnp.left_shift, jnp.right_shift) & everything
        swept_right = lit & open_ & jnp.uint32(2 ** (SIZE - 1) - 1)
        above = swept_right | swept_right << 1
        lit = _spread(lit, open_, jnp.right_shift, jnp.left_shift)
        swept_left = lit & open_ & jnp.uint32(2**SIZE - 2)
        above = above | swept_left | swept_left >> 1
        if row >= ROWS_PER_WORD:
            near = near | lit << ((row - ROWS_PER_WORD) * SIZE)
        else:
            far = far | lit << (row * SIZE)
        lit = above
    return near, far


def _spread(lit, clear, onwards, back) -> UInt32[Array, ""]:
    """Light runs on from each lit clear cell until it has lit one that is not clear.

    Doubling: runs of 1, 2 and 4 cells together reach across all seven.
    """
    lit = lit | onwards(lit & clear, 1)
    two = clear & back(clear, 1)
    lit = lit | onwards(lit & two, 2)
    four = two & back(two, 2)
    return lit | onwards(lit & four, 4)
