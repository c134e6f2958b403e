"""What agents trained side by side may differ in: numbers that are arguments of the compiled program."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from gobi.agents import registry as learners
from gobi.rewards import registry
from gobi.training.loop import Knobs, SeedState, knobs
from gobi.training.recipe import Recipe

SWEPT = (
    "coefficient",
    "decay",
    "extrinsic",
    "clip",
    "learning_rate",
    "max_grad_norm",
    "discount",
    "entropy_cost",
    "value_cost",
    "gae_lambda",
    "clip_ratio",
    "bonus_discount",
    "imitation_cost",
)
"""The fields of a recipe that are nothing but such numbers: those of `Knobs`."""


def same_program(recipe: Recipe) -> Recipe:
    """What two recipes have in common exactly if one compiled program trains both."""
    options = numbers(recipe)
    words = [
        word for word in recipe.reward_options.split(",") if word.partition("=")[0].strip() not in options
    ]
    # The length of the rate's schedule is such a number too; as frames, it is a whole one.
    alike = {**dict.fromkeys(swept(recipe), 0.0), "schedule_frames": 0}
    return recipe.changed(reward_options=",".join(words), **alike)


def swept(recipe: Recipe) -> tuple[str, ...]:
    """Those of them that the recipe's learner reads, or the loop; the others are at their defaults."""
    learned = {name for other in learners.LEARNERS for name in learners.settings(other)}
    mine = learners.settings(recipe.learner)
    return tuple(name for name in SWEPT if name in mine or name not in learned)


def numbers(recipe: Recipe) -> dict[str, float]:
    """The options of the recipe's reward that are such numbers too."""
    if registry.find(recipe.reward).make is None:
        return {}
    return registry.build(recipe.reward, registry.options(recipe.reward, recipe.reward_options)).numbers


def stacked(agents: Sequence[Recipe]) -> Knobs:
    """The numbers of each agent, along the first axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(knobs, agents))


def with_numbers(state: SeedState, agents: Sequence[Recipe]) -> SeedState:
    """The state of some agents, with the options of each one's own reward."""
    each = [numbers(recipe) for recipe in agents]
    for name in each[0]:
        values = jnp.array([mine[name] for mine in each], jnp.float32)
        state = eqx.tree_at(lambda s, name=name: getattr(s.reward, name), state, values)
    return state
