"""gobi: exploration for reinforcement learning in JAX."""

from importlib.metadata import version
from typing import Any

from gobi import zoo
from gobi.envs.minigrid import make
from gobi.envs.minigrid.generator import Generator
from gobi.errors import GobiError
from gobi.types import Spec, Timestep, Transition

__version__ = version("gobi")
__all__ = ["GobiError", "Spec", "Timestep", "Transition", "__version__", "make", "vector", "zoo"]


def vector(task: str | Generator, num_envs: int = 1, **options: Any) -> Any:
    """A `gymnasium.vector.VectorEnv` of one of our MiniGrid tasks, its lanes on the device.

    Options: seed=0, autoreset_mode="NextStep", to="numpy" ("jax", "torch"), views=(), render_mode=None; see
    `gobi.adapters.vector.Vector`. Needs the extra `gymnasium`.
    """
    from gobi.adapters.vector import Vector

    return Vector(task, num_envs, **options)
