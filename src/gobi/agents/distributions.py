"""Action distributions: what a policy's outputs say about actions, one of several or numbers around a mean.

The outputs of a categorical policy are logits; of a Gaussian one the means, then the logarithms of the
standard deviations. Which of the two it is, the actions tell: they are integers or floats.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int32, Integer, Key

from gobi.types import Spec

Outputs = Float[Array, "*rows outputs"]
Actions = Int32[Array, "*rows"] | Float32[Array, "*rows size"]

LEAST, MOST = -5.0, 1.0
"""Of the logarithm of a standard deviation: beyond, a policy is a point, or nowhere."""


def is_continuous(spec: Spec) -> bool:
    """Whether actions are vectors of numbers."""
    return spec.num_actions == 0


def noise(key: Key[Array, ""], spec: Spec, steps: int, num_envs: int) -> Float32[Array, "steps envs size"]:
    """All draws of a rollout: of several actions Gumbel's, of vectors normal ones."""
    if is_continuous(spec):
        return jax.random.normal(key, (steps, num_envs, spec.action_size))
    return jax.random.gumbel(key, (steps, num_envs, spec.num_actions))


def sample(outputs: Outputs, noise: Float32[Array, "*rows size"]) -> Actions:
    """An action for each row. A Gaussian has two outputs for each number of noise, a categorical one."""
    if outputs.shape[-1] == noise.shape[-1]:
        # The largest of logits plus Gumbel's noise is a draw from the policy.
        return jnp.argmax(outputs + noise, axis=-1).astype(jnp.int32)
    mean, log_std = split(outputs)
    return mean + jnp.exp(log_std) * noise


def mode(outputs: Outputs, continuous: bool) -> Actions:
    """The likeliest action of each row."""
    return split(outputs)[0] if continuous else jnp.argmax(outputs, axis=-1).astype(jnp.int32)


def log_probability(
    outputs: Outputs, actions: Integer[Array, "*rows"] | Float32[Array, "*rows size"]
) -> Float32[Array, "*rows"]:
    """Of each row's action."""
    if of_integers(actions):
        return jnp.take_along_axis(jax.nn.log_softmax(outputs), actions[..., None], axis=-1)[..., 0]
    mean, log_std = split(outputs)
    scaled = (actions - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * jnp.square(scaled) - log_std - 0.5 * math.log(2 * math.pi), axis=-1)


def entropy(outputs: Outputs, continuous: bool) -> Float32[Array, "*rows"]:
    """Of each row, in nats."""
    if continuous:
        return jnp.sum(split(outputs)[1] + 0.5 * math.log(2 * math.pi * math.e), axis=-1)
    log_policy = jax.nn.log_softmax(outputs)
    return -jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1)


def of_integers(actions: Array) -> bool:
    """Whether these are the actions of a categorical policy."""
    return bool(jnp.issubdtype(actions.dtype, jnp.integer))


def split(outputs: Outputs) -> tuple[Float[Array, "*rows size"], Float[Array, "*rows size"]]:
    """Means, and the logarithms of standard deviations, of a Gaussian policy."""
    mean, log_std = jnp.split(outputs, 2, axis=-1)
    return mean, jnp.clip(log_std, LEAST, MOST)
