"""gobi: exploration for reinforcement learning in JAX."""

from importlib.metadata import version

from gobi.envs.minigrid import make
from gobi.errors import GobiError
from gobi.types import Spec, Timestep, Transition

__version__ = version("gobi")
__all__ = ["GobiError", "Spec", "Timestep", "Transition", "__version__", "make"]
