"""From a recipe to its parts: the world and the intrinsic reward."""

from __future__ import annotations

from typing import Any

import jax

from gobi.envs.minigrid import MiniGrid
from gobi.errors import unknown
from gobi.memory.codes import SimHash
from gobi.rewards import R1, R2, R3, GoBI, Nothing, Reward, own, registry
from gobi.rewards.comparator import Comparator
from gobi.training import comparator_model
from gobi.training.recipe import Recipe
from gobi.worlds import GridModel, Nowhere, Simulator
from gobi.worlds.network import Network, Settings

HASH_KEY = 50
"""The projection of a SimHash is the same in all runs, so that their codes can be compared."""


def reward(recipe: Recipe, env: MiniGrid, network: Network | Comparator | None = None) -> Reward:
    """The recipe's intrinsic reward.

    network:  the world model, or episodic curiosity's comparator, where one was learned beforehand.
    """
    coding = None
    if recipe.hash == "simhash":
        coding = SimHash(jax.random.key(HASH_KEY), env.spec.observation_shape, recipe.hash_bits)
    if recipe.reward == "none":
        return Nothing()
    if own.is_own(recipe.reward):
        return _own(recipe, env)
    if isinstance(network, Comparator):
        return comparator_model.reward(recipe, network)
    if registry.find(recipe.reward).make is not None:
        return single(recipe, recipe.reward, recipe.reward_options, coding)
    lifelong = single(recipe, recipe.lifelong, recipe.lifelong_options, coding)
    if recipe.reward == "r3":
        return R3(lifelong)
    options: dict[str, Any] = {
        "hash": coding,
        "credit": recipe.credit,
        "erase": recipe.erased,
        "skip_executed": recipe.skip_executed,
    }
    around = world(recipe, env, network)
    if recipe.reward == "r1":
        return R1(around, **options)
    return (R2 if recipe.reward == "r2" else GoBI)(around, lifelong, **options)


def _own(recipe: Recipe, env: MiniGrid) -> Reward:
    """The user's own, if it reads what there is and its shapes are right."""
    made = own.load(recipe.reward, recipe.reward_options)
    ways = {"observation": env.observe, "panorama": env.panorama, "full_grid": env.full_grid}
    makers = {**ways, "state": lambda state: state}
    for view in sorted(made.reads - set(makers)):
        raise unknown(f"view read by {recipe.reward}", view, makers)

    def views(keys):
        states, _ = jax.vmap(env.reset)(keys)
        return {name: jax.vmap(makers[name])(states) for name in made.reads}

    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), own.TRIED))
    return own.tried(made, env.spec, jax.eval_shape(views, keys))


def single(recipe: Recipe, name: str, options: str, coding: SimHash | None) -> Reward:
    """A reward that stands by itself. Counts take hash, room and sharing from the recipe, or from options."""
    chosen = registry.options(name, options)
    if name == "count":
        chosen = {
            "hash": coding,
            "shared": recipe.counts == "shared",
            "capacity": recipe.count_room,
            **chosen,
        }
    return registry.build(name, chosen)


def world(recipe: Recipe, env: MiniGrid, network: Network | None = None) -> Simulator | GridModel | Nowhere:
    """What the recipe imagines with."""
    if recipe.steps == 0:
        return Nowhere()
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
        sees=recipe.world_reads,
        erase_targets=recipe.erased,
        learning_rate=recipe.finetune_rate if recipe.world_mode == "finetuned" else recipe.pretrain_rate,
    )


def model_settings(recipe: Recipe) -> Settings:
    """The settings of the recipe's world model."""
    return Settings(
        kind=recipe.model,
        size=recipe.model_size,
        predicts="panorama" if recipe.steps > 1 else "view",
        noise="coded" if recipe.model_noise else "none",
        # Else as kept models have it: they have to draw an empty cell over every thing that they would copy.
        erase="lying" if recipe.erased == "lying" else False,
    )


PRIVILEGED = {"panorama": "panorama", "full_grid": "full grid", "state": "simulator"}
"""Views that the task does not show the agent, and what a card calls them."""


def privileges(reward: Reward) -> tuple[str, ...]:
    """What training looks at that the task does not show the agent."""
    return tuple(name for view, name in PRIVILEGED.items() if view in reward.reads)
