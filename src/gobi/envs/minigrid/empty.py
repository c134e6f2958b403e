"""Empty: one room, the goal in the far corner."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Key

from gobi.envs.minigrid import cells, rooms
from gobi.envs.minigrid.generator import PlainGenerator
from gobi.envs.minigrid.state import State, level
from gobi.errors import GobiError


@dataclasses.dataclass(frozen=True)
class Empty(PlainGenerator):
    """A room of `side` x `side` cells, walls included. Always the same level."""

    side: int = 8

    def __post_init__(self):
        if self.side < 4:
            raise GobiError(f"Empty needs a side of at least 4 cells, got {self.side}")

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the grid."""
        return self.side, self.side

    @property
    def max_steps(self) -> int:
        """Farama's limit."""
        return 4 * self.side**2

    @property
    def name(self) -> str:
        """The id, with its side."""
        return f"gobi/Empty-{self.side}x{self.side}"

    @property
    def see_through_walls(self) -> bool:
        """Farama's Empty tasks show the view without occlusion."""
        return True

    def level(self, key: Key[Array, ""]) -> State:
        """The agent in one corner, the goal in the other."""
        del key
        last = self.side - 2
        grid = rooms.bordered(self.size).at[last, last].set(cells.GOAL_CELL)
        return level(grid, jnp.array([1, 1], jnp.int32), jnp.int32(0))

    def farama(self) -> tuple[str, dict[str, Any]]:
        """Farama's class and arguments."""
        return "EmptyEnv", {"size": self.side}
