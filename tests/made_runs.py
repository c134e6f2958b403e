"""Folders of runs as training leaves them, made without training: the policies are fresh ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from gobi import make
from gobi.agents import networks
from gobi.training import checkpoints, run, world_model
from gobi.training.recipe import Recipe
from gobi.training.trainer import Trainer

SMALL: dict[str, Any] = {"network": "compact", "world": "real", "num_envs": 2, "unroll": 10, "bank": 8}
EMPTY, DOORKEY = "MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0"


def made_run(
    path: Path, task: str = EMPTY, seeds: tuple[int, ...] = (0,), frames: int = 200, **settings: Any
) -> Path:
    """A run with one checkpoint; `settings` are those of the recipe."""
    recipe = Recipe(task, "gobi", frames, **{**SMALL, "count_room": 256, "snapshots": 0, **settings})
    run.begin(run.Folder(path), run.Plan(recipe, seeds))
    add_checkpoint(path, frames)
    return path


def add_checkpoint(path: Path, frames: int) -> None:
    """Another checkpoint, with the tree that training would save; the policies depend on seeds and frames."""
    place = run.Folder(path)
    plan = run.planned(place)
    network = None
    if world_model.needed(plan.recipe):
        network = world_model.load_or_train(
            path, plan.recipe, make(plan.recipe.task), lambda *_: None
        ).network
    trainer = Trainer(plan.recipe, network)
    progress = jax.tree.map(_blank, trainer.shapes(plan.seeds, []))
    # A number by which a test can tell whose state it has.
    progress = eqx.tree_at(lambda p: p.state.lanes.queue.taken, progress, jnp.array(plan.seeds, jnp.int32))
    progress = eqx.tree_at(lambda p: p.state.policy, progress, policies(path, frames))
    facts = {
        "frames": frames,
        "updates": frames // plan.recipe.frames_per_update,
        "recipe": plan.recipe.to_json(),
        "seeds": plan.seeds,
    }
    checkpoints.save(place.checkpoints, progress, facts)


def add_snapshot(path: Path, frames: int) -> None:
    """The first seed's policy, as training keeps it along the way."""
    place = run.Folder(path)
    first = jax.tree.map(lambda part: part[0], policies(path, frames))
    facts = {"frames": frames, "seed": run.planned(place).seeds[0]}
    checkpoints.save_weights(place.snapshots / f"{frames:012d}.safetensors", first, facts)


def policies(path: Path, frames: int) -> networks.Policy:
    """The policies of all seeds, one after the other along the first axis.

    They prefer to walk and to turn, so that episodes are of many lengths.
    """
    plan = run.planned(run.Folder(path))
    env = make(plan.recipe.task)
    keys = [jax.random.fold_in(jax.random.key(seed), frames) for seed in plan.seeds]
    each = [networks.build(plan.recipe.network, env.spec, key) for key in keys]
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *each)
    return eqx.tree_at(lambda p: p.heads.output.bias, stacked, replace_fn=lambda bias: bias.at[:, :3].add(2))


def _blank(shape: jax.ShapeDtypeStruct) -> jax.Array:
    if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), shape.shape)
    return jnp.zeros(shape.shape, shape.dtype)
