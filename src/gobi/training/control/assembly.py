"""From a recipe for control to its parts: environments in processes, learner, world and reward."""

from __future__ import annotations

from typing import Any

import jax

from gobi.agents.rad import RAD, slots_for
from gobi.envs.dmc import Control, Worker
from gobi.errors import GobiError
from gobi.rewards.control import ControlReward, Lessons, registry
from gobi.training.control.recipe import ControlRecipe
from gobi.types import Spec
from gobi.worlds import StateModel
from gobi.worlds.rssm import RSSM, Sizes

COMPACT = Sizes(depth=8, deterministic=64, stochastic=16, hidden=64)


def worker(recipe: ControlRecipe, seed: int) -> Worker:
    """The task in a process of its own."""
    return Worker(recipe.task, seed, recipe.observations, recipe.action_repeat, recipe.image_size)


def check(recipe: ControlRecipe) -> None:
    """Refuses what cannot be built for the task, before anything is written."""
    spec = Control(recipe.task, 0, recipe.observations, recipe.action_repeat, recipe.image_size).spec
    made, paid = learner(recipe), reward(recipe, spec)
    jax.eval_shape(lambda key: (made.init(key, spec), paid.init(key, spec, 1)), jax.random.key(0))


def learner(recipe: ControlRecipe) -> RAD:
    """Soft actor-critic."""
    return RAD(
        hidden=recipe.hidden,
        channels=recipe.channels,
        crop=recipe.crop,
        stack=recipe.stack,
        learning_rate=recipe.learning_rate,
        temperature_rate=recipe.temperature_rate,
        temperature=recipe.temperature,
        discount=recipe.discount,
        rate=recipe.target_rate,
        precision=recipe.precision,
    )


def world(recipe: ControlRecipe, spec: Spec) -> RSSM | StateModel:
    """The world model."""
    imagined: Any = {
        "steps": recipe.steps,
        "actions": recipe.imagined_actions,
        "draws": recipe.imagined_draws,
        "learning_rate": recipe.world_rate,
    }
    if recipe.observations == "state":
        return StateModel(spec.observation_shape[0], spec.action_size, **imagined)
    return RSSM(
        **imagined,
        prior=recipe.prior,
        hashed=recipe.hashed,
        precision=recipe.world_precision,
        free_nats=recipe.world_free_nats,
        sizes=Sizes() if recipe.world_size == "paper" else COMPACT,
    )


def slots(recipe: ControlRecipe, spec: Spec) -> int:
    """Slots of the replay: for no more transitions than the run makes, since RE3 looks through them all.

    A batch and an episode always fit in, which a short run may not fill but a film of it does.
    """
    needed = max(recipe.agent_steps, recipe.batch, spec.max_steps)
    return slots_for(min(recipe.capacity, needed), spec.max_steps)


def reward(recipe: ControlRecipe, spec: Spec) -> ControlReward:
    """The intrinsic reward."""
    if recipe.imagines:
        _refuse_long_lessons(recipe, spec)
    return registry.build(
        recipe.reward,
        registry.options(recipe.reward, recipe.reward_options),
        recipe.lifelong,
        registry.factor_options(recipe.lifelong, recipe.lifelong_options),
        world=world(recipe, spec) if recipe.imagines else None,
        slots=slots(recipe, spec),
        lessons=Lessons(
            batch=recipe.world_batch,
            length=recipe.world_length,
            every=recipe.world_every,
            steps=recipe.world_steps,
            prefill=recipe.world_prefill,
            pretrain=recipe.world_pretrain,
        ),
        normalised=recipe.normalised,
    )


def _refuse_long_lessons(recipe: ControlRecipe, spec: Spec) -> None:
    """A sequence that no episode is long enough for would be drawn from frames that were never seen."""
    length, frames = recipe.world_length, spec.max_steps + 1
    if length > frames:
        raise GobiError(
            f"world_length must be at most {frames}, the frames of an episode of {spec.id} with "
            f"action_repeat={recipe.action_repeat}, got {length}"
        )
    # However episodes lie in the ring, one of them, or the longer of two parts, has that many frames then.
    if recipe.capacity < 2 * length - 1:
        raise GobiError(
            f"capacity must be at least {2 * length - 1}, for the replay always to hold a sequence of "
            f"world_length={length} frames of one episode, got {recipe.capacity}"
        )


def lessons_due(recipe: ControlRecipe, lessons: Lessons, step: int) -> int:
    """How many lessons follow the agent's step number `step`, counted from 1.

    Spread or together, there are as many in every `world_every` steps.
    """
    since = step - lessons.prefill
    if recipe.world_lessons == "together" or since <= 0:
        return lessons.due(step)
    return since * lessons.steps // lessons.every - (since - 1) * lessons.steps // lessons.every
