"""DoorKey: fetch the key, unlock the door, walk to the goal."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Key

from gobi.envs.minigrid import cells, rooms
from gobi.envs.minigrid.draws import Draws
from gobi.envs.minigrid.generator import PlainGenerator
from gobi.envs.minigrid.state import State, level
from gobi.errors import GobiError


@dataclasses.dataclass(frozen=True)
class DoorKey(PlainGenerator):
    """A room of `side` x `side` cells, split by a wall with a locked yellow door."""

    side: int = 8

    def __post_init__(self):
        if self.side < 5:
            raise GobiError(f"DoorKey needs a side of at least 5 cells, got {self.side}")

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the grid."""
        return self.side, self.side

    @property
    def max_steps(self) -> int:
        """Farama's limit."""
        return 10 * self.side**2

    @property
    def name(self) -> str:
        """The id, with its side."""
        return f"gobi/DoorKey-{self.side}x{self.side}"

    def level(self, key: Key[Array, ""]) -> State:
        """Agent and key to the left of the wall, goal in the lower right corner."""
        draws = Draws(key, words=5)
        last = self.side - 2
        x = jnp.arange(self.side)[:, None]
        grid = rooms.bordered(self.size).at[last, last].set(cells.GOAL_CELL)

        wall = draws.integer(2, last)
        grid = jnp.where(x == wall, cells.WALL_CELL, grid)
        left = (x < wall) & (grid == cells.EMPTY_CELL)
        agent = draws.index(left)
        direction = draws.integer(0, 4)

        # Farama never puts the door beside the goal: its row ends one short of the lower wall.
        door = jnp.stack([wall, draws.integer(1, last)])
        grid = rooms.put_at(grid, door, cells.pack(cells.DOOR, cells.YELLOW, cells.LOCKED))
        not_agent = jnp.arange(self.side**2).reshape(self.size) != agent
        grid = rooms.put(grid, draws.index(left & not_agent), cells.pack(cells.KEY, cells.YELLOW))
        return level(grid, rooms.position(self.size, agent), direction)

    def farama(self) -> tuple[str, dict[str, Any]]:
        """Farama's class and arguments."""
        return "DoorKeyEnv", {"size": self.side}
