"""Knobs: the numbers of a recipe that are arguments of the compiled program, and what follows from them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32

from gobi.agents import registry
from gobi.agents.learner import Metrics, Rollout, Weights


class Knobs(eqx.Module):
    """The numbers of a recipe that only scale something: changing one does not compile again, a sweep is a
    `vmap` axis.

    frames:          over which the learning rate falls to zero; infinite where it does not.
    entropy_frames:  over which the entropy's weight does.
    hyper:           the learner's own.
    """

    coefficient: Float32[Array, "*sweep"]
    decay: Float32[Array, "*sweep"]
    extrinsic: Float32[Array, "*sweep"]
    clip: Float32[Array, "*sweep"]
    learning_rate: Float32[Array, "*sweep"]
    frames: Float32[Array, "*sweep"]
    entropy_frames: Float32[Array, "*sweep"]
    hyper: Any

    def weights(self, exponent: Float32[Array, ""]) -> Weights:
        """How task reward and bonus add up once the bonus has decayed so often."""
        coefficient = self.coefficient * jnp.exp(exponent * jnp.log1p(-self.decay))
        return Weights(self.extrinsic, coefficient, self.clip)

    def rate(self, frames: Float32[Array, ""]) -> Float32[Array, ""]:
        """The learning rate after so many frames."""
        return self.learning_rate * jnp.maximum(0.0, 1 - frames / self.frames)

    def hyper_after(self, frames: Float32[Array, ""]) -> Any:
        """The learner's numbers after so many frames."""
        if not hasattr(self.hyper, "entropy_cost"):
            return self.hyper
        left = jnp.maximum(0.0, 1 - frames / self.entropy_frames)
        return eqx.tree_at(lambda hyper: hyper.entropy_cost, self.hyper, self.hyper.entropy_cost * left)


def knobs(recipe: Any) -> Knobs:
    """The numbers of a recipe, as arrays."""
    schedule = getattr(recipe, "schedule_frames", 0) or recipe.all_frames
    falling, fading = recipe.learning_rate_decay == "linear", recipe.entropy_decay == "linear"
    return Knobs(
        coefficient=jnp.float32(recipe.coefficient),
        decay=jnp.float32(recipe.decay),
        extrinsic=jnp.float32(recipe.extrinsic),
        clip=jnp.float32(recipe.clip or jnp.inf),
        learning_rate=jnp.float32(recipe.learning_rate),
        frames=jnp.float32(schedule if falling else jnp.inf),
        entropy_frames=jnp.float32(schedule if fading else jnp.inf),
        hyper=registry.hyper(recipe),
    )


def reward_metrics(rollout: Rollout, learning_rate: Float32[Array, ""]) -> Metrics:
    """What is logged of a rollout's rewards: how large the bonus is, and its share of all that is paid."""
    weights = rollout.weights
    paid, earned = weights.intrinsic * rollout.bonus, weights.extrinsic * rollout.rewards
    sizes = jnp.sum(jnp.abs(paid)), jnp.sum(jnp.abs(earned))
    return {
        "bonus": jnp.mean(rollout.bonus),
        "bonus_share": sizes[0] / jnp.maximum(sizes[0] + sizes[1], 1e-9),
        "coefficient": weights.intrinsic,
        "learning_rate": learning_rate,
        "reward_is_finite": jnp.isfinite(rollout.total).all().astype(jnp.float32),
    }
