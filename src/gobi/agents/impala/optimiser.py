"""RMSProp and gradient clipping, number for number as in torch."""

from __future__ import annotations

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

Parameters = TypeVar("Parameters")

DECAY, EPSILON = 0.99, 1e-5
"""Torch calls them alpha and eps."""


class RMSProp(eqx.Module):
    """The optimiser's state: a running mean of each squared gradient, in the shape of the parameters."""

    squares: PyTree


def init(parameters: PyTree) -> RMSProp:
    """Means of zero, as torch starts them."""
    return RMSProp(jax.tree.map(jnp.zeros_like, parameters))


def norm(gradients: PyTree) -> Float32[Array, ""]:
    """The Euclidean norm of all gradients together."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradients)))


def clip(gradients: Parameters, size: Float32[Array, ""], max_norm: float | Float32[Array, ""]) -> Parameters:
    """Gradients of norm `size`, scaled down to `max_norm` where larger (`torch.nn.utils.clip_grad_norm_`)."""
    scale = jnp.minimum(1.0, max_norm / (size + 1e-6))
    return jax.tree.map(lambda leaf: leaf * scale, gradients)


def step(
    parameters: Parameters, gradients: Parameters, state: RMSProp, learning_rate: float | Float32[Array, ""]
) -> tuple[Parameters, RMSProp]:
    """One step of RMSProp without momentum. Epsilon stands outside the root, as in torch."""
    squares = jax.tree.map(
        lambda mean, leaf: DECAY * mean + (1 - DECAY) * jnp.square(leaf), state.squares, gradients
    )
    parameters = jax.tree.map(
        lambda value, leaf, mean: value - learning_rate * leaf / (jnp.sqrt(mean) + EPSILON),
        parameters,
        gradients,
        squares,
    )
    return parameters, RMSProp(squares)
