"""Making an entry of the zoo: a finished run is stripped to one seed's policy, and that is evaluated."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from gobi.analysis import evaluation
from gobi.envs.minigrid.registry import short
from gobi.errors import GobiError
from gobi.rewards import own
from gobi.training import beforehand, card, checkpoints, metrics, run, trained, world_model
from gobi.training.files import HIDDEN, disk_errors, to_json, write_whole
from gobi.training.recipe import Recipe
from gobi.zoo import catalogue
from gobi.zoo.catalogue import Entry

COLUMNS = ("seed", "frames", "episodes", "return", "success", "length", "bonus", "growth", "seconds")
"""Of the metrics: what it takes to draw a run, and to compare it with others."""


@dataclasses.dataclass(frozen=True)
class Making:
    """How an entry is made.

    place:      the folder of all entries.
    name:       the entry's; by default the task's, short.
    seed:       whose policy; by default the best at the end of training.
    levels:     how many it is evaluated on.
    greedy:     evaluate the most likely actions instead of drawn ones.
    overwrite:  replace an entry of the same name.
    commit:     of the source that evaluates.
    """

    place: Path
    name: str = ""
    seed: int | None = None
    levels: int = 1000
    greedy: bool = False
    overwrite: bool = False
    commit: str | None = None


def make(source: Path, making: Making, progress: Callable[[int, int], None] | None = None) -> Entry:
    """Makes an entry of a finished run. It is evaluated as it lies there, and refused if it is too large."""
    place = run.Folder(source)
    plan = run.planned(place)
    _refuse_what_cannot_be_kept(place, plan)
    seed, chosen = _choose(place, plan, making.seed)
    folder = making.place / (making.name or short(plan.recipe.task))
    if folder.exists() and not making.overwrite:
        raise GobiError(f"{folder} is there already: give another --name, or --overwrite")
    draft = making.place / f"{HIDDEN}{folder.name}.writing"
    with disk_errors(str(folder)):
        draft.mkdir(parents=True)
        try:
            _strip(place, plan, seed, draft)
            # Evaluating takes its time: what is too large already is refused before.
            _refuse_too_large(draft, folder.name)
            entry = _evaluated(draft, folder, chosen, making, progress)
            write_whole(draft / catalogue.RECORD, to_json(entry.record))
            _refuse_too_large(draft, folder.name)
            shutil.rmtree(folder, ignore_errors=True)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return catalogue.read(folder)


def best_seed(place: run.Folder, seeds: tuple[int, ...]) -> int:
    """The seed with the largest mean return of the last 100 episodes of training; the first of equals."""
    rows = metrics.read(place.metrics)

    def last(seed: int) -> float:
        mine = rows["seed"] == seed
        return float(np.nan_to_num(rows["return"][mine][-1], nan=-np.inf)) if mine.any() else -np.inf

    return max(seeds, key=last)


def _refuse_what_cannot_be_kept(place: run.Folder, plan: run.Plan) -> None:
    """Refuses runs that an entry cannot hold, or that nobody else could read."""
    recipe = plan.recipe
    if not isinstance(recipe, Recipe):
        raise GobiError(f"{place.path} was trained on {recipe.task}, and the zoo keeps agents of grids only")
    if not run.finished(place, plan):
        raise GobiError(f"{place.path} is not finished: gobi resume {place.path}")
    if own.is_own(recipe.reward) or own.is_own(recipe.lifelong):
        raise GobiError(f"{place.path} was paid by a file of one's own, which nobody else has")
    if world_model.needed(recipe) and recipe.world_mode != "fixed":
        raise GobiError(f"the world model of {place.path} learned along; the zoo keeps fixed ones only")


def _choose(place: run.Folder, plan: run.Plan, wanted: int | None) -> tuple[int, str]:
    """Whose policy is kept, and why."""
    if wanted is not None:
        seed = trained.known_seed(wanted, plan.seeds)
        return seed, f"seed {seed}, named, of {len(plan.seeds)}"
    if len(plan.seeds) == 1:
        return plan.seeds[0], "only seed"
    return best_seed(place, plan.seeds), f"best of {len(plan.seeds)} seeds"


def _strip(place: run.Folder, plan: run.Plan, seed: int, draft: Path) -> None:
    """Writes what is kept of a run into a folder that is one, too."""
    new = run.Folder(draft)
    write_whole(new.recipe, place.recipe.read_bytes())
    asked = json.loads(place.run.read_text())
    write_whole(new.run, to_json(asked | {"command": _without_folders(asked.get("command", ""))}))
    told = card.read(place.card)
    card.write(new.card, told, command=_without_folders(told.command))
    write_whole(new.metrics, _thinned(place.metrics))
    for kind in beforehand.KINDS:
        if kind.needed(plan.recipe):
            for name in (*kind.MODEL, *(name for name in kind.BESIDE if name.endswith(".json"))):
                if (place.path / name).exists():
                    write_whole(draft / name, (place.path / name).read_bytes())
    agents = trained.load(place.path, seed)
    policy = jax.tree.map(lambda part: part[0], agents.policy)
    checkpoints.save_weights(new.policy, policy, {"frames": agents.frames, "seed": seed})


def _evaluated(
    draft: Path,
    folder: Path,
    chosen: str,
    making: Making,
    progress: Callable[[int, int], None] | None,
) -> Entry:
    """The entry that will lie in the folder, after an evaluation of what is in the draft of it."""
    agents = trained.load(draft)
    found = evaluation.evaluate(agents, making.levels, making.greedy, progress=progress)
    (score,) = found.scores
    greedy = " --greedy" if making.greedy else ""
    return Entry(
        folder=folder,
        task=found.task,
        learner=agents.recipe.learner,
        seed=score.seed,
        chosen=chosen,
        frames=found.frames,
        levels=score.episodes,
        level_seed=found.level_seed,
        policy=found.policy,
        mean_return=score.mean_return,
        return_within=score.return_within,
        success=score.success,
        success_within=score.success_within,
        mean_length=score.mean_length,
        best_return=found.best_return,
        command=f"gobi evaluate {catalogue.PREFIX}/{folder.name} --episodes {making.levels}{greedy}",
        commit=making.commit,
    )


def _refuse_too_large(draft: Path, name: str) -> None:
    bytes_there = catalogue.size(draft)
    if bytes_there > catalogue.MOST_BYTES:
        largest = max((path for path in draft.iterdir()), key=lambda path: path.stat().st_size)
        raise GobiError(
            f"{name} would have {bytes_there:,} bytes ({largest.name} alone {largest.stat().st_size:,}), and "
            f"an entry of the zoo has at most {catalogue.MOST_BYTES:,}: take a smaller network or model_size"
        )


def _thinned(file: Path) -> bytes:
    """A metrics file with the columns that are kept, digit by digit."""
    text = io.StringIO()
    with file.open(newline="") as lines:
        rows = csv.DictReader(lines)
        kept = [name for name in COLUMNS if name in (rows.fieldnames or ())]
        writer = csv.DictWriter(text, kept, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue().encode()


def _without_folders(command: str) -> str:
    """A command without the folders of the machine it was typed on: of an absolute path, only the name."""

    def shortened(word: str) -> str:
        flag, equals, value = word.rpartition("=")
        return f"{flag}{equals}{Path(value).name}" if Path(value).is_absolute() else word

    return shlex.join(shortened(word) for word in shlex.split(command))
