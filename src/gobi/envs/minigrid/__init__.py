"""The MiniGrid tasks in pure JAX, with exactly the rules of Farama's `minigrid`."""

from gobi.envs.minigrid.bank import Bank, Queue, fixed_levels, has_room, make_bank, numbered_levels, refill
from gobi.envs.minigrid.doorkey import DoorKey
from gobi.envs.minigrid.empty import Empty
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.keycorridor import KeyCorridor
from gobi.envs.minigrid.lanes import Lanes, LanesStep, Stepper, positions
from gobi.envs.minigrid.multiroom import MultiRoom
from gobi.envs.minigrid.obstructedmaze import ObstructedMaze, ObstructedMaze1D
from gobi.envs.minigrid.registry import FARAMA_TASKS, PAPER_TASKS, TASKS, Task, make
from gobi.envs.minigrid.state import State
from gobi.envs.minigrid.television import Noisy

__all__ = [
    "FARAMA_TASKS",
    "PAPER_TASKS",
    "TASKS",
    "Bank",
    "DoorKey",
    "Empty",
    "KeyCorridor",
    "Lanes",
    "LanesStep",
    "MiniGrid",
    "MultiRoom",
    "Noisy",
    "ObstructedMaze",
    "ObstructedMaze1D",
    "Queue",
    "State",
    "Stepper",
    "Task",
    "fixed_levels",
    "has_room",
    "make",
    "make_bank",
    "numbered_levels",
    "positions",
    "refill",
]
