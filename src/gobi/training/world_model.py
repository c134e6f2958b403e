"""The world model of a run: pre-trained once, shared by all seeds, kept in the run's folder."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import jax

from gobi.envs.minigrid import MiniGrid
from gobi.errors import MissingExtra
from gobi.training import assembly, checkpoints
from gobi.training.files import disk_errors, to_json, write_whole
from gobi.training.recipe import Recipe
from gobi.worlds import from_settings
from gobi.worlds.collecting import Transitions, collect, distinct
from gobi.worlds.drawing import picture
from gobi.worlds.network import Network
from gobi.worlds.pretraining import train
from gobi.worlds.reporting import Report, report

SEED = 0
"""One pre-trained model per task and recipe, whatever the run's seeds: they share it."""
HELD_OUT = 10_000
"""Transitions of other levels, on which the report is made; they are not counted as frames of the run."""
PICTURED = 2_000
"""Transitions among which the picture finds moves that change the view."""

MODEL = ("world.safetensors", "world.json")
"""Its files in a folder; the second vouches for the first."""
BESIDE = REPORT, PICTURE = "world_report.json", "world.png"
"""What is written about it."""

Stage = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """A world model and how it came to be.

    network:  the model.
    frames:   environment steps that it was trained on; 0 if it learns online from scratch.
    report:   how well it predicts levels that were not in its data; None if it was not pre-trained.
    pairs:    different pairs of panorama and action among these steps; None if not recorded.
    seconds:  time that pre-training took, compiling and the report included; None if not recorded.
    """

    network: Network
    frames: int
    report: Report | None
    pairs: int | None = 0
    seconds: float | None = 0.0


def needed(recipe: Recipe) -> bool:
    """Whether the recipe has a world model at all."""
    return recipe.imagines and recipe.world == "learned"


def load_or_train(folder: Path, recipe: Recipe, env: MiniGrid, stage: Stage) -> Pretrained:
    """The model in the folder, or a new one that is written there with its report and a picture."""
    weights = folder / MODEL[0]
    init, *_ = jax.random.split(jax.random.key(SEED), 4)
    if weights.with_suffix(".json").exists():
        like = jax.eval_shape(lambda key: from_settings(assembly.model_settings(recipe), key), init)
        network = checkpoints.load_weights(weights, like)
        known = checkpoints.facts(weights)
        return Pretrained(network, known["frames"], None, known.get("pairs"), known.get("seconds"))
    begun = time.perf_counter()
    made = pretrain(recipe, env, stage)
    made = dataclasses.replace(made, seconds=round(time.perf_counter() - begun, 3))
    if made.report is not None:
        _write_report(folder, made.network, made.report, recipe, env)
    # The weights come last: a run that stops before starts pre-training again.
    facts = {"frames": made.frames, "pairs": made.pairs, "seconds": made.seconds, "recipe": recipe.digest}
    checkpoints.save_weights(weights, made.network, facts)
    return made


def pretrain(recipe: Recipe, env: MiniGrid, stage: Stage) -> Pretrained:
    """Random play, duplicates removed, training, and a report on other levels."""
    init, play, learn, other = jax.random.split(jax.random.key(SEED), 4)
    network = jax.jit(from_settings, static_argnums=0)(assembly.model_settings(recipe), init)
    if recipe.world_mode == "online":
        return Pretrained(network, 0, None)
    data = collect(env, play, recipe.pretrain_frames, progress=lambda n, of: stage("random play", n, of))
    data = _seen(recipe, data)
    # A panorama and an action have one outcome. Those of a view are several: how often is to be learned too.
    kept = distinct(data) if recipe.world_reads == "panorama" else data

    def told(epoch: int, epochs: int, loss: float) -> None:
        stage(f"world model, loss {loss:.3f}", epoch, epochs)

    if recipe.pretrain_epochs:
        network = train(
            network,
            kept,
            learn,
            epochs=recipe.pretrain_epochs,
            learning_rate=recipe.pretrain_rate,
            schedule=recipe.pretrain_schedule,
            erase_targets=recipe.erased,
            progress=told,
        )
    held_out = _seen(recipe, collect(env, other, min(HELD_OUT, recipe.pretrain_frames)))
    found = report(network, held_out, learn, kept, erase_targets=recipe.erased)
    learned_from = (data.frames, len(kept)) if recipe.pretrain_epochs else (0, 0)
    return Pretrained(network, learned_from[0], found, learned_from[1])


def _seen(recipe: Recipe, data: Transitions) -> Transitions:
    """As much of random play as the model gets to see."""
    return data if recipe.world_reads == "panorama" else data.without_turning()


def _write_report(folder: Path, network: Network, found: Report, recipe: Recipe, env: MiniGrid) -> None:
    """Writes the report, and a picture where matplotlib is installed."""
    with disk_errors(str(folder)):
        write_whole(folder / REPORT, to_json(dataclasses.asdict(found)))
    *_, other = jax.random.split(jax.random.key(SEED), 4)
    shown = _seen(recipe, collect(env, other, min(PICTURED, recipe.pretrain_frames)))
    with contextlib.suppress(MissingExtra):
        picture(folder / PICTURE, network, shown, other, erase_targets=recipe.erased)
