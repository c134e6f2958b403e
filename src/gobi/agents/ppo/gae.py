"""Generalised advantage estimation (Schulman et al., 2016) over a rollout of many environments."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32


def gae(
    rewards: Float32[Array, "steps envs"],
    values: Float32[Array, "states envs"],
    discounts: Float32[Array, "steps envs"],
    gae_lambda: float | Float32[Array, ""],
) -> Float32[Array, "steps envs"]:
    """A_t = delta_t + discount_t lambda A_{t+1}, where delta_t = r_t + discount_t V_{t+1} - V_t.

    values:     of the state before each step, and last of the state after all of them.
    discounts:  of what follows a step; 0 where nothing does.
    """
    errors = rewards + discounts * values[1:] - values[:-1]

    def back(later, step):
        error, decay = step
        advantage = error + decay * later
        return advantage, advantage

    nothing = jnp.zeros_like(rewards[0])
    return jax.lax.scan(back, nothing, (errors, gae_lambda * discounts), reverse=True)[1]
