"""Trained agents of a run on a control task, from a checkpoint, and the episodes that they play."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gobi.training import checkpoints
from gobi.training.control import assembly, seat
from gobi.training.control.changing import Held
from gobi.training.control.evaluation import Evaluator, Played, seeds_of
from gobi.training.control.recipe import ControlRecipe
from gobi.training.trained import Kept

LANES = 10
"""Agents that act together while episodes are played."""


@dataclasses.dataclass(frozen=True)
class ControlTrained(Kept):
    """The agents of a run, as they were after so many frames; new episodes come from `level_seed`."""

    recipe: ControlRecipe


def load(folder: Path, wanted: Sequence[int] = (), checkpoint: str | None = None) -> ControlTrained:
    """The agents of a run: all, or those of the wanted seeds; the newest, or those of a checkpoint."""
    return ControlTrained.found(folder, wanted, checkpoint)


def play(
    agents: ControlTrained, episodes: int, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[Played]:
    """So many episodes of each agent with its mean action, the same ones for all.

    progress:  called with the episodes played so far, and how many there will be.
    """
    first = assembly.worker(agents.recipe, seed=0)
    try:
        program = seat.program(agents.recipe, first.spec)
    finally:
        first.close()
    evaluator = Evaluator(agents.recipe, program, LANES)
    seeds, shape = seeds_of(agents.level_seed, 0, episodes), program.shapes().learner
    played = []
    try:
        for number, place in enumerate(agents.places):
            learner: Any = checkpoints.load(agents.source, shape, within=f"['seats'][{place}].learner")
            progress(number * episodes, len(agents.places) * episodes)
            played.append(evaluator.play(Held.of(learner.acting), seeds))
    finally:
        evaluator.close()
    return played
