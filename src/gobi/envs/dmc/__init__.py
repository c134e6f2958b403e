"""Control tasks of the DeepMind Control Suite, from pixels or from the state."""

from gobi.envs.dmc.environment import Control, Observations, Step
from gobi.envs.dmc.tasks import TASKS, ControlTask, find, is_control
from gobi.envs.dmc.worker import Worker

__all__ = ["TASKS", "Control", "ControlTask", "Observations", "Step", "Worker", "find", "is_control"]
