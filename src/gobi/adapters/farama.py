"""Panoramas and full grids of Farama's own MiniGrid environments, read off their grids. Needs `gymnasium`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt8

from gobi.adapters.play import SHOWN, VIEWS
from gobi.envs.minigrid import cells
from gobi.errors import GobiError, require, unknown

require("gymnasium", extra="gymnasium")

import gymnasium  # noqa: E402

WALL = (cells.WALL, cells.GREY, 0)
EMPTY = (cells.EMPTY, 0, 0)

Codes = UInt8[np.ndarray, "width height 3"]
Clear = Bool[np.ndarray, "width height"]


class Views(gymnasium.Wrapper):
    """Shows more of one of Farama's MiniGrid environments in each info, and leaves the environment alone.

    `info["panorama"]`: what there is to the right, back, left and front of its agent, uint8[4, 7, 7, 3].
    `info["full_grid"]`: the whole grid as Farama's FullyObsWrapper encodes it, uint8[width, height, 3].

    Vector environments hand both on, at an episode's end inside `final_info`. Other wrappers may lie between.

    views:  which of the two.
    """

    def __init__(self, env: gymnasium.Env, views: Sequence[str] = VIEWS):
        super().__init__(env)
        for name in views:
            if name not in VIEWS:
                raise unknown("view", name, VIEWS)
        if not hasattr(env.unwrapped, "gen_obs_grid"):
            raise GobiError(f"{env} is not one of Farama's MiniGrid environments")
        self.views = tuple(views)
        self.metadata = {**env.metadata, SHOWN: self.views}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """As the environment's own, with the views of the new episode's start in the info."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._shown(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment's own, with the views of where the step led in the info."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, self._shown(info)

    def _shown(self, info: dict[str, Any]) -> dict[str, Any]:
        bare: Any = self.env.unwrapped
        found = {}
        if "panorama" in self.views:
            found["panorama"] = panorama(bare)
        if "full_grid" in self.views:
            found["full_grid"] = full_grid(bare)
        return {**info, **found}


def full_grid(bare: Any) -> Codes:
    """The whole grid of one of Farama's environments, the agent's cell as (agent, red, direction)."""
    codes, _ = _read(bare, 0, 0, bare.grid.width, bare.grid.height)
    x, y = bare.agent_pos
    codes[x, y] = cells.AGENT, cells.RED, bare.agent_dir
    return codes


def panorama(bare: Any) -> UInt8[np.ndarray, "4 side side 3"]:
    """What its agent would see to the right, back, left and front, without turning it."""
    side = bare.agent_view_size
    codes, clear = _surroundings(bare, side - 1)
    if not bare.carrying:
        codes[side - 1, side - 1] = EMPTY
    else:
        codes[side - 1, side - 1] = bare.carrying.encode()
    middle = slice(side // 2, side // 2 + side)
    shown = np.empty((4, side, side, 3), np.uint8)
    seen_past = np.empty((4, side, side), bool)
    for number in range(4):
        # Turned until the heading points up, the agent is in the middle of the last row of what it sees.
        turns = (2 - bare.agent_dir - number) % 4
        shown[number] = np.rot90(codes, turns)[middle, :side]
        seen_past[number] = np.rot90(clear, turns)[middle, :side]
    if not bare.see_through_walls:
        shown[~_visible(seen_past)] = 0
    return shown


def _surroundings(bare: Any, reach: int) -> tuple[Codes, Clear]:
    """The square around the agent, so many cells to each side, walls outside the grid."""
    x, y = (int(part) for part in bare.agent_pos)
    left, top = max(x - reach, 0), max(y - reach, 0)
    right, bottom = min(x + reach + 1, bare.grid.width), min(y + reach + 1, bare.grid.height)
    codes = np.empty((2 * reach + 1, 2 * reach + 1, 3), np.uint8)
    codes[:] = WALL
    clear = np.zeros(codes.shape[:2], bool)
    inside = np.s_[left - x + reach : right - x + reach, top - y + reach : bottom - y + reach]
    codes[inside], clear[inside] = _read(bare, left, top, right, bottom)
    return codes, clear


def _read(bare: Any, left: int, top: int, right: int, bottom: int) -> tuple[Codes, Clear]:
    """The codes of a part of the grid, and which of its cells can be seen past."""
    width, things = bare.grid.width, bare.grid.grid
    found = [thing for y in range(top, bottom) for thing in things[y * width + left : y * width + right]]
    codes = [EMPTY if thing is None else thing.encode() for thing in found]
    clear = [thing is None or thing.see_behind() for thing in found]
    shape = bottom - top, right - left
    return (
        np.array(codes, np.uint8).reshape(*shape, 3).swapaxes(0, 1),
        np.array(clear, bool).reshape(shape).T,
    )


def _visible(clear: Bool[np.ndarray, "views side side"]) -> Bool[np.ndarray, "views side side"]:
    """Which cells [column, row] of each view are seen, by MiniGrid's rule for light."""
    side = clear.shape[1]
    bits = 1 << np.arange(side)
    rows = [_lit(view) for view in np.einsum("vcr,c->vr", clear, bits).tolist()]
    return (np.array(rows)[:, None, :] & bits[:, None]) != 0


def _lit(clear: list[int]) -> list[int]:
    """The lit cells of each row as bits, given those that can be seen past, the agent in the last row.

    In each row light spreads to the right through clear cells, then to the left, and every clear lit cell
    lights the cells above it: straight, and diagonally in the direction of the sweep.
    """
    side = len(clear)
    lit, found = 1 << side // 2, [0] * side
    for row in reversed(range(side)):
        lit = _spread(lit, clear[row], 1) & ((1 << side) - 1)
        rightwards = lit & clear[row] & ((1 << side - 1) - 1)
        lit = _spread(lit, clear[row], -1)
        leftwards = lit & clear[row] & ~1
        found[row] = lit
        lit = rightwards | rightwards << 1 | leftwards | leftwards >> 1
    return found


def _spread(lit: int, clear: int, towards: int) -> int:
    """Light runs on from each lit clear cell until it has lit one that is not clear."""
    while True:
        through = lit & clear
        further = lit | (through << 1 if towards > 0 else through >> 1)
        if further == lit:
            return lit
        lit = further
