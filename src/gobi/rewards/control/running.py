"""A running standard deviation to divide bonuses by."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32

Statistics = Literal["welford", "as_coded"]
STATISTICS = ("welford", "as_coded")
LEAST = 1e-8
"""A standard deviation to divide by, at least."""


class Running(eqx.Module):
    """Mean and variance of the numbers so far, and how many they were."""

    mean: Float32[Array, "*seeds"]
    variance: Float32[Array, "*seeds"]
    count: Float32[Array, "*seeds"]

    @property
    def deviation(self) -> Float32[Array, "*seeds"]:
        """The standard deviation."""
        return jnp.maximum(jnp.sqrt(self.variance), LEAST)


def begin() -> Running:
    """A variance of 1 with next to no weight, as RE3's code begins."""
    return Running(jnp.float32(0), jnp.float32(1), jnp.float32(1e-4))


def update(running: Running, numbers: Float32[Array, " n"], statistics: Statistics) -> Running:
    """The statistics with a batch added.

    statistics:  `welford` is the mean and variance of all numbers so far (Chan's parallel form of it).
                 `as_coded` repeats RE3's code: to the running mean it adds the whole difference to the
                 batch's mean, and the batch's share of the count on top. So the mean is that of the last
                 batch plus the share; the first batches, whose share is large, inflate the variance for some
                 hundreds of updates, and later on it is the variance within batches, not between them.
    """
    n = numbers.shape[0]
    mean = jnp.mean(numbers)
    spread = jnp.sum(jnp.square(numbers - mean))
    # torch.var, which the code uses, divides by n - 1.
    variance = spread / (max(n - 1, 1) if statistics == "as_coded" else n)
    share = n / (running.count + n)
    apart = mean - running.mean
    return Running(
        mean=running.mean + (apart * share if statistics == "welford" else apart + share),
        variance=(1 - share) * running.variance + share * variance + jnp.square(apart) * share * (1 - share),
        count=running.count + n,
    )
