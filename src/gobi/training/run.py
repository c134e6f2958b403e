"""A run from start to end: begin it, go on with it, ask how it stands.

On a grid, a run alone is a pack of one; control tasks and Gymnasium's have loops of their own.
"""

from __future__ import annotations

from gobi.training import pack
from gobi.training.control import loop as control
from gobi.training.control.recipe import ControlRecipe
from gobi.training.folder import Folder, Plan, begin, finished, planned
from gobi.training.host import loop as host
from gobi.training.host.recipe import HostRecipe
from gobi.training.pack import CHECKPOINT_SECONDS, Listener
from gobi.training.record import Outcome
from gobi.training.stopping import OutOfTime, Stopped, Stopping

__all__ = [
    "CHECKPOINT_SECONDS",
    "Folder",
    "Listener",
    "OutOfTime",
    "Outcome",
    "Plan",
    "Stopped",
    "begin",
    "finished",
    "go",
    "planned",
]


def go(
    folder: Folder,
    plan: Plan,
    listener: Listener | None = None,
    checkpoint: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    stopping: Stopping | None = None,
) -> Outcome:
    """Trains to the end, from the last checkpoint if there is one; see `pack.go`."""
    if isinstance(plan.recipe, ControlRecipe):
        return control.go(folder, plan, listener, checkpoint, checkpoint_seconds, stopping)
    if isinstance(plan.recipe, HostRecipe):
        return host.go(folder, plan, listener, checkpoint, checkpoint_seconds, stopping)
    (outcome,) = pack.go([(folder, plan)], listener, checkpoint, checkpoint_seconds, stopping)
    return outcome
