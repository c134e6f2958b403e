"""The world model of a run: pre-trained once, shared by all seeds, kept in the run's folder."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax

from gobi.envs.minigrid import MiniGrid
from gobi.errors import MissingExtra
from gobi.training import assembly, checkpoints
from gobi.training.files import disk_errors, to_json, write_whole
from gobi.training.recipe import Recipe
from gobi.worlds import from_settings
from gobi.worlds.collecting import collect, distinct
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

Stage = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """A world model and how it came to be.

    network:  the model.
    frames:   environment steps that it was trained on; 0 if it learns online from scratch.
    report:   how well it predicts levels that were not in its data; None if it was not pre-trained.
    """

    network: Network
    frames: int
    report: Report | None


def needed(recipe: Recipe) -> bool:
    """Whether the recipe has a world model at all."""
    return recipe.imagines and recipe.world == "learned"


def load_or_train(folder: Path, recipe: Recipe, env: MiniGrid, stage: Stage) -> Pretrained:
    """The model in the folder, or a new one that is written there with its report and a picture."""
    weights = folder / "world.safetensors"
    init, *_ = jax.random.split(jax.random.key(SEED), 4)
    if weights.with_suffix(".json").exists():
        like = jax.eval_shape(lambda key: from_settings(assembly.model_settings(recipe), key), init)
        network = checkpoints.load_weights(weights, like)
        return Pretrained(network, checkpoints.facts(weights)["frames"], None)
    made = pretrain(recipe, env, stage)
    if made.report is not None:
        _write_report(folder, made.network, made.report, recipe, env)
    # The weights come last: a run that stops before starts pre-training again.
    checkpoints.save_weights(weights, made.network, {"frames": made.frames, "recipe": recipe.digest})
    return made


def pretrain(recipe: Recipe, env: MiniGrid, stage: Stage) -> Pretrained:
    """Random play, duplicates removed, training, and a report on other levels."""
    init, play, learn, other = jax.random.split(jax.random.key(SEED), 4)
    network = jax.jit(from_settings, static_argnums=0)(assembly.model_settings(recipe), init)
    if recipe.world_mode == "online":
        return Pretrained(network, 0, None)
    data = collect(env, play, recipe.pretrain_frames, progress=lambda n, of: stage("random play", n, of))
    kept = distinct(data)

    def told(epoch: int, epochs: int, loss: float) -> None:
        stage(f"world model, loss {loss:.3f}", epoch, epochs)

    network = train(
        network,
        kept,
        learn,
        epochs=recipe.pretrain_epochs,
        learning_rate=recipe.pretrain_rate,
        schedule=recipe.pretrain_schedule,
        erase_targets=recipe.erase_movable,
        progress=told,
    )
    held_out = collect(env, other, min(HELD_OUT, recipe.pretrain_frames))
    found = report(network, held_out, learn, kept, erase_targets=recipe.erase_movable)
    return Pretrained(network, data.frames, found)


def _write_report(folder: Path, network: Network, found: Report, recipe: Recipe, env: MiniGrid) -> None:
    """Writes the report, and a picture where matplotlib is installed."""
    with disk_errors(str(folder)):
        write_whole(folder / "world_report.json", to_json(dataclasses.asdict(found)))
    *_, other = jax.random.split(jax.random.key(SEED), 4)
    shown = collect(env, other, min(PICTURED, recipe.pretrain_frames))
    with contextlib.suppress(MissingExtra):
        picture(folder / "world.png", network, shown, other, erase_targets=recipe.erase_movable)
