"""A scripted solver that knows the whole grid, what is in the boxes included. Runs on the host."""

from gobi.envs.minigrid.solver.search import solve
from gobi.envs.minigrid.solver.solvable import solvable

__all__ = ["solvable", "solve"]
