"""Entries of the zoo made from runs that were not trained, in a zoo of one's own."""

from __future__ import annotations

from pathlib import Path

from made_runs import EMPTY, made_run

from gobi.training import card, run
from gobi.zoo.making import Making, make

ROWS = ((1, 100, 0.9), (1, 200, 0.2), (2, 100, 0.1), (2, 200, 0.8))
"""Seed, frames and return: the seed that is best at the end was not best before."""


def finished_run(path: Path, **settings) -> Path:
    """A run that came to its end, of seeds 1 and 2, with a card and metrics."""
    made_run(path, seeds=(1, 2), **{"reward": "count", **settings})
    place = run.Folder(path)
    described = {
        "reward": "count", "recipe": "gobi", "recipe_digest": "", "network": "compact", "world": "real",
        "world_size": "", "policy_parameters": 1, "world_parameters": 0, "precision": "float32",
        "seeds": (1, 2), "deterministic": False, "privileged": (), "finished": card.now(),
        "command": "gobi train Empty-5x5 --out /home/me/run --set x=/home/me/y",
    }  # fmt: skip
    card.write(place.card, card.begin(EMPTY, **described))
    lines = [f"{seed},{frames},{value},0.5,1.25\n" for seed, frames, value in ROWS]
    place.metrics.write_text("seed,frames,return,success,kl\n" + "".join(lines))
    return path


def entry(source: Path, place: Path, **making):
    """An entry of a run, evaluated on few levels."""
    return make(source, Making(place, **{"levels": 12, **making}))
