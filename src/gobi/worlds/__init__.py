"""What could be seen next: the real simulator and the grid models."""

from gobi.worlds.erasure import erase_movable
from gobi.worlds.grid_model import GridModel
from gobi.worlds.networks import build, from_settings
from gobi.worlds.simulator import Simulator

__all__ = ["GridModel", "Simulator", "build", "erase_movable", "from_settings"]
