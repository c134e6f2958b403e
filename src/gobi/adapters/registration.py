"""Our MiniGrid tasks under the names by which Gymnasium finds them: `gobi/MiniGrid-DoorKey-5x5-v0` and so on.

Importing this module registers them.
"""

from __future__ import annotations

from gobi.envs.minigrid.registry import TASKS
from gobi.errors import require

require("gymnasium", extra="gymnasium")

import gymnasium  # noqa: E402


def registered_name(task: str) -> str:
    """The name of a task in Gymnasium's registry, where ours have a namespace of their own."""
    return f"gobi/{task.removeprefix('gobi/')}"


def register() -> None:
    """Tells Gymnasium of all tasks; those it knows already are left alone."""
    for task in TASKS:
        name = registered_name(task)
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point="gobi.adapters.single:Plain",
                vector_entry_point="gobi.adapters.vector:Vector",
                # Episodes are cut off by the task's own limit of steps, inside the compiled step.
                kwargs={"task": task},
            )


register()
