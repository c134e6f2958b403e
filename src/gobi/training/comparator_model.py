"""The comparator that episodic curiosity learns before a run: made once, shared, kept in the folder."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from gobi.envs.minigrid import MiniGrid
from gobi.rewards import registry
from gobi.rewards.comparator import Comparator, comparator
from gobi.rewards.ec import EC
from gobi.rewards.ec_pretraining import PretrainedEC, pretrained
from gobi.training import checkpoints
from gobi.training.recipe import Recipe

SEED = 0
"""One comparator per task and recipe, whatever the run's seeds: they share it."""
MODEL = ("comparator.safetensors", "comparator.json")
"""Its files in a folder; the second vouches for the first."""
BESIDE = ()
"""Nothing more is written about it."""
LANES, UNROLL = 50, 100
"""Of the random play; each rollout of these is followed by a lesson."""
LESSONS = 50
"""Steps of Adam after each rollout, unless the option `batches` says otherwise."""

Stage = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Taught:
    """A comparator and how it came to be.

    network:  the comparator.
    frames:   environment steps of random play that it learned from.
    seconds:  time that this took, compiling included.
    pairs:    0: it has no pairs of panorama and action, as a world model has.
    """

    network: Comparator
    frames: int
    seconds: float
    pairs: int = 0


def needed(recipe: Recipe) -> bool:
    """Whether the recipe's reward is episodic curiosity that learns beforehand."""
    return recipe.reward == "ec" and _options(recipe).get("pretrain", 0) > 0


def reward(recipe: Recipe, network: Comparator) -> PretrainedEC:
    """The recipe's reward with that comparator."""
    return PretrainedEC(**_options(recipe), network=network)


def load_or_train(folder: Path, recipe: Recipe, env: MiniGrid, stage: Stage) -> Taught:
    """The comparator in the folder, or a new one that is written there."""
    weights, about = (folder / name for name in MODEL)
    if about.exists():
        plain = EC(**{**_options(recipe), "pretrain": 0})
        like = jax.eval_shape(
            lambda key: comparator(key, env.spec, plain.size, plain.inputs), jax.random.key(SEED)
        )
        known = checkpoints.facts(weights)
        return Taught(checkpoints.load_weights(weights, like), known["frames"], known["seconds"])
    taught = teach(recipe, env, stage)
    facts = {"frames": taught.frames, "seconds": taught.seconds, "recipe": recipe.digest}
    checkpoints.save_weights(weights, taught.network, facts)
    return taught


def teach(recipe: Recipe, env: MiniGrid, stage: Stage) -> Taught:
    """Random play of at least as many steps as the option `pretrain` says, in whole rollouts."""
    options = _options(recipe)
    asked = options.pop("pretrain")
    lanes = min(LANES, math.ceil(asked / UNROLL))
    rollouts = math.ceil(asked / (lanes * UNROLL))

    def told(number: int, total: int, logged: dict[str, float]) -> None:
        stage(f"comparator, accuracy {logged['ec/accuracy']:.2f}", number, total)

    begun = time.perf_counter()
    made = pretrained(
        jax.random.key(SEED),
        env,
        rollouts=rollouts,
        num_envs=lanes,
        unroll=UNROLL,
        progress=told,
        **{"batches": LESSONS, **options},
    )
    seconds = round(time.perf_counter() - begun, 3)
    return Taught(made.network, rollouts * lanes * UNROLL, seconds)


def _options(recipe: Recipe) -> dict[str, Any]:
    return registry.options("ec", recipe.reward_options)
