"""From a recipe to its parts: the world and the intrinsic reward."""

from __future__ import annotations

from typing import Any

import jax

from gobi.envs.minigrid import MiniGrid
from gobi.memory.codes import SimHash
from gobi.rewards import R1, R2, R3, Count, GoBI, Nothing, Reward
from gobi.training.recipe import Recipe
from gobi.worlds import GridModel, Simulator
from gobi.worlds.network import Network, Settings

HASH_KEY = 50
"""The projection of a SimHash is the same in all runs, so that their codes can be compared."""


def reward(recipe: Recipe, env: MiniGrid, network: Network | None = None) -> Reward:
    """The recipe's intrinsic reward. `network` is the world model where one is learned."""
    coding = None
    if recipe.hash == "simhash":
        coding = SimHash(jax.random.key(HASH_KEY), env.spec.observation_shape, recipe.hash_bits)
    lifelong = Count(hash=coding, shared=recipe.counts == "shared", capacity=recipe.count_room)
    if recipe.reward == "none":
        return Nothing()
    if recipe.reward in ("r3", "count"):
        return R3(lifelong)
    options: dict[str, Any] = {
        "hash": coding,
        "credit": recipe.credit,
        "erase": recipe.erase_movable,
        "skip_executed": recipe.skip_executed,
    }
    around = world(recipe, env, network)
    if recipe.reward == "r1":
        return R1(around, **options)
    return (R2 if recipe.reward == "r2" else GoBI)(around, lifelong, **options)


def world(recipe: Recipe, env: MiniGrid, network: Network | None = None) -> Simulator | GridModel:
    """What the recipe imagines with."""
    actions = tuple(range(recipe.imagined_actions))
    if recipe.world == "real":
        return Simulator(env, actions, recipe.steps)
    assert network is not None
    return GridModel(
        network,
        mode=recipe.world_mode,
        actions=actions,
        sampled=recipe.sampled_actions,
        steps=recipe.steps,
        samples=recipe.model_samples,
        erase_targets=recipe.erase_movable,
        learning_rate=recipe.pretrain_rate,
    )


def model_settings(recipe: Recipe) -> Settings:
    """The settings of the recipe's world model."""
    return Settings(
        kind=recipe.model,
        size=recipe.model_size,
        predicts="panorama" if recipe.steps > 1 else "view",
        noise="coded" if recipe.model_noise else "none",
    )


def privileges(recipe: Recipe) -> tuple[str, ...]:
    """What training looks at that the task does not show the agent."""
    if not recipe.imagines:
        return ()
    return ("simulator",) if recipe.world == "real" else ("panorama",)
