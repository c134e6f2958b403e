"""What a step of the agent is paid: the task's reward and the bonus, and when each is worked out.

Algorithm 1 of the paper stores a step with its whole reward. RE3's code, which it builds on, stores the
task's reward and adds the bonus whenever the step is replayed. The growth of an episode's memory is only
known as the step is made; the lifelong factor and the coefficient may be those of either moment.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, Key

from gobi.agents.rad import Batch
from gobi.rewards.control import ControlReward
from gobi.training.control.recipe import ControlRecipe


class Knobs(NamedTuple):
    """Numbers that scale something: other ones do not compile again."""

    coefficient: np.float32
    decay: np.float32
    extrinsic: np.float32
    clip: np.float32


@dataclasses.dataclass(frozen=True)
class Newest:
    """The step that is just being made, as a batch of one: all of it that may be asked for by then."""

    index: Int32[Array, " 1"]


def knobs(recipe: ControlRecipe) -> Knobs:
    """The numbers of a recipe."""
    clip = recipe.clip if recipe.clip > 0 else np.inf
    return Knobs(*map(np.float32, (recipe.coefficient, recipe.decay, recipe.extrinsic, clip)))


def faded(knobs: Knobs, step: Any) -> Float32[Array, ""]:
    """What is left of the coefficient at a step of the agent."""
    return jnp.exp(step.astype(jnp.float32) * jnp.log1p(-knobs.decay))


def made(
    reward: ControlReward, state: Any, stored: Float32[Array, " 1"], slot: Any, knobs: Knobs, step: Any
) -> tuple[Any, Float32[Array, " 1"]]:
    """The bonus of a step that is paid as it is made, with what is left of the coefficient then."""
    # The rewards that may be paid so draw nothing: see `ControlRecipe`.
    state, bonus, _ = reward.at_sampling(state, jax.random.key(0), stored, Newest(slot[None]))
    return state, faded(knobs, step) * bonus


def replayed(
    reward: ControlReward, state: Any, key: Key[Array, ""], batch: Batch, knobs: Knobs, step: Any, paid: str
) -> tuple[Any, Float32[Array, " batch"], dict[str, Any]]:
    """The total reward of a replayed batch, and what to log."""
    if paid == "made":
        bonus, logged, coefficient = batch.stored, {}, jnp.float32(knobs.coefficient)
    else:
        state, bonus, logged = reward.at_sampling(state, key, batch.stored, batch)
        coefficient = knobs.coefficient * faded(knobs, step)
    extrinsic, intrinsic = knobs.extrinsic * batch.reward, coefficient * bonus
    sizes = jnp.sum(jnp.abs(intrinsic)), jnp.sum(jnp.abs(extrinsic))
    metrics = {
        "bonus": jnp.mean(bonus),
        "bonus_share": sizes[0] / jnp.maximum(sizes[0] + sizes[1], 1e-9),
        "coefficient": coefficient,
    }
    return state, jnp.clip(extrinsic + intrinsic, -knobs.clip, knobs.clip), metrics | logged
