"""The formulas of soft actor-critic with a learned temperature (Haarnoja et al. 2018, arXiv 1812.05905)."""

from __future__ import annotations

import math
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Key

Parameters = TypeVar("Parameters")


def squashed_sample(
    key: Key[Array, ""], mean: Float32[Array, "*n actions"], log_std: Float32[Array, "*n actions"]
) -> tuple[Float32[Array, "*n actions"], Float32[Array, "*n"]]:
    """An action tanh(u), u from the Gaussian, and its log probability; gradients flow through both."""
    noise = jax.random.normal(key, mean.shape)
    unsquashed = mean + jnp.exp(log_std) * noise
    return jnp.tanh(unsquashed), squashed_log_prob(unsquashed, noise, log_std)


def squashed_log_prob(
    unsquashed: Float32[Array, "*n actions"],
    noise: Float32[Array, "*n actions"],
    log_std: Float32[Array, "*n actions"],
) -> Float32[Array, "*n"]:
    """log N(u) - sum log(1 - tanh(u)^2), where u = mean + std * noise.

    The second term is 2 (log 2 - u - softplus(-2u)), which stays finite where tanh is 1 in float32.
    """
    gaussian = -0.5 * jnp.square(noise) - log_std - 0.5 * math.log(2 * math.pi)
    change = 2 * (math.log(2) - unsquashed - jax.nn.softplus(-2 * unsquashed))
    return jnp.sum(gaussian - change, axis=-1)


def bellman_target(
    reward: Float32[Array, " n"],
    terminated: Bool[Array, " n"],
    next_values: Float32[Array, "2 n"],
    next_log_prob: Float32[Array, " n"],
    temperature: Float32[Array, ""],
    discount: float,
) -> Float32[Array, " n"]:
    """r + discount * (min of both values - temperature * log pi), nothing after a true end."""
    soft = jnp.min(next_values, axis=0) - temperature * next_log_prob
    return reward + discount * jnp.where(terminated, 0.0, soft)


def critic_loss(values: Float32[Array, "2 n"], target: Float32[Array, " n"]) -> Float32[Array, ""]:
    """The two mean squared errors, added."""
    return jnp.sum(jnp.mean(jnp.square(values - target), axis=-1))


def actor_loss(
    values: Float32[Array, "2 n"], log_prob: Float32[Array, " n"], temperature: Float32[Array, ""]
) -> Float32[Array, ""]:
    """The mean of temperature * log pi - min of both values."""
    return jnp.mean(temperature * log_prob - jnp.min(values, axis=0))


def temperature_loss(
    log_temperature: Float32[Array, ""], log_prob: Float32[Array, " n"], target_entropy: float
) -> Float32[Array, ""]:
    """temperature * (entropy - target entropy), by which only the temperature is trained."""
    excess = jax.lax.stop_gradient(-log_prob - target_entropy)
    return jnp.exp(log_temperature) * jnp.mean(excess)


def towards(target: Parameters, online: Parameters, rate: float) -> Parameters:
    """(1 - rate) * target + rate * online, weight by weight."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), target, online)
