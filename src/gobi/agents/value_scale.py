"""PopArt: values in units of a running mean and deviation of their targets (van Hasselt et al., 2016).

One learning rate then fits returns of 500 and of 0.01. When the scale moves, the last layer of the values is
changed so that what they are worth stays the same.
"""

from __future__ import annotations

from typing import TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32

LEAST_SCALE = 1e-2
"""Values that differ by less are not scaled up any further."""
RATE = 0.02
"""How far the scale goes towards that of a rollout; further in the first ones."""

Policy = TypeVar("Policy")


class ValueScale(eqx.Module):
    """How large values are, one scale for each of several.

    mean, square:  running means of their targets, and of the targets' squares.
    rollouts:      how many they come from.
    """

    mean: Float32[Array, "*values"]
    square: Float32[Array, "*values"]
    rollouts: Float32[Array, ""]

    @property
    def deviation(self) -> Float32[Array, "*values"]:
        """The standard deviation."""
        return jnp.maximum(jnp.sqrt(jnp.maximum(self.square - jnp.square(self.mean), 0)), LEAST_SCALE)

    def plain(self, values: Float32[Array, "..."]) -> Float32[Array, "..."]:
        """What the network's values are worth."""
        return self.mean + self.deviation * values

    def moved(self, targets: Float32[Array, "steps envs *values"]) -> ValueScale:
        """After one more rollout with these targets."""
        rate = jnp.maximum(RATE, 1 / (self.rollouts + 1))

        def towards(old, new):
            return old + rate * (new - old)

        square = towards(self.square, jnp.mean(jnp.square(targets), axis=(0, 1)))
        mean = towards(self.mean, jnp.mean(targets, axis=(0, 1)))
        return ValueScale(mean, square, self.rollouts + 1)


def first_value_scale(*shape: int) -> ValueScale:
    """Of values that nothing is known of."""
    return ValueScale(jnp.zeros(shape), jnp.ones(shape), jnp.float32(0))


def rescaled(policy: Policy, old: ValueScale, new: ValueScale) -> Policy:
    """A policy whose values are worth the same in units of another scale."""
    ratio = old.deviation / new.deviation
    return policy.rescaled(ratio, (old.mean - new.mean) / new.deviation)  # pyright: ignore[reportAttributeAccessIssue]
