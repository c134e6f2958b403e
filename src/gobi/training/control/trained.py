"""Trained agents of a run on a control task, from a checkpoint, and the episodes that they play."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gobi.errors import GobiError
from gobi.training import checkpoints, run
from gobi.training.control import assembly, seat
from gobi.training.control.evaluation import Evaluator, Played, seeds_of
from gobi.training.control.recipe import ControlRecipe
from gobi.training.recipe import from_json
from gobi.training.trained import known_seed, new_levels

LANES = 10
"""Agents that act together while episodes are played."""


@dataclasses.dataclass(frozen=True)
class ControlTrained:
    """The agents of a run, as they were after so many frames.

    recipe:        how they were trained.
    seeds:         whose agents these are.
    frames:        what each of them had been trained on.
    source:        the checkpoint.
    episode_seed:  where the episodes come from that none of the run's agents was trained or evaluated on.
    places:        where each agent lies in the checkpoint.
    """

    recipe: ControlRecipe
    seeds: tuple[int, ...]
    frames: int
    source: Path
    episode_seed: int
    places: tuple[int, ...]


def load(folder: Path, wanted: Sequence[int] = (), checkpoint: str | None = None) -> ControlTrained:
    """The agents of a run.

    folder:      the run's folder.
    wanted:      only these of the run's seeds; by default all.
    checkpoint:  the name of a checkpoint; by default the newest.
    """
    place = run.Folder(folder)
    found = checkpoints.named(place.checkpoints, checkpoint) if checkpoint else None
    found = found or checkpoints.latest(place.checkpoints)
    if found is None:
        raise GobiError(f"{folder} has no checkpoint yet: wait for the first, or gobi resume {folder}")
    facts = checkpoints.facts(found)
    # The checkpoint's own recipe: what is in the folder may have been edited since.
    recipe, seeds = from_json(facts["recipe"]), tuple(facts["seeds"])
    chosen = tuple(wanted) or seeds
    places = tuple(seeds.index(known_seed(one, seeds)) for one in chosen)
    return ControlTrained(recipe, chosen, facts["frames"], found, new_levels(seeds), places)


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
    seeds, shape = seeds_of(agents.episode_seed, 0, episodes), program.shapes().learner
    played = []
    try:
        for number, place in enumerate(agents.places):
            learner: Any = checkpoints.load(agents.source, shape, within=f"['seats'][{place}].learner")
            progress(number * episodes, len(agents.places) * episodes)
            played.append(evaluator.play(learner, seeds))
    finally:
        evaluator.close()
    return played
