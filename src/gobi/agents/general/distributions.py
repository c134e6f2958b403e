"""What a policy's outputs say about actions: one of several, or numbers around a mean.

The outputs of a discrete policy are logits; of a Gaussian one the means, then the logarithms of the standard
deviations. Which of the two it is, the actions tell: they are integers or floats.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key

from gobi.types import Spec

Outputs = Float32[Array, "*rows outputs"]
Actions = Int32[Array, "*rows"] | Float32[Array, "*rows size"]

LEAST, MOST = -5.0, 1.0
"""Of the logarithm of a standard deviation: beyond, a policy is a point, or nowhere."""


def draw(outputs: Outputs, key: Key[Array, ""], continuous: bool) -> Actions:
    """An action for each row."""
    if continuous:
        mean, log_std = parted(outputs)
        return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
    return jax.random.categorical(key, outputs).astype(jnp.int32)


def likeliest(outputs: Outputs, continuous: bool) -> Actions:
    """The likeliest action of each row."""
    return parted(outputs)[0] if continuous else jnp.argmax(outputs, axis=-1).astype(jnp.int32)


def log_probability(outputs: Outputs, actions: Actions) -> Float32[Array, "*rows"]:
    """Of each row's action."""
    if not jnp.issubdtype(actions.dtype, jnp.integer):
        mean, log_std = parted(outputs)
        scaled = (actions - mean) * jnp.exp(-log_std)
        return jnp.sum(-0.5 * jnp.square(scaled) - log_std - 0.5 * math.log(2 * math.pi), axis=-1)
    return jnp.take_along_axis(jax.nn.log_softmax(outputs), actions[..., None], axis=-1)[..., 0]


def entropy(outputs: Outputs, continuous: bool) -> Float32[Array, "*rows"]:
    """Of each row, in nats."""
    if continuous:
        return jnp.sum(parted(outputs)[1] + 0.5 * math.log(2 * math.pi * math.e), axis=-1)
    log_policy = jax.nn.log_softmax(outputs)
    return -jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1)


def parted(outputs: Outputs) -> tuple[Float32[Array, "*rows size"], Float32[Array, "*rows size"]]:
    """Means, and the logarithms of standard deviations, of a Gaussian policy."""
    mean, log_std = jnp.split(outputs, 2, axis=-1)
    return mean, jnp.clip(log_std, LEAST, MOST)


def is_continuous(spec: Spec) -> bool:
    """Whether actions are vectors of numbers."""
    return spec.num_actions == 0
