"""Averages over the steps that were made: a lane that only resets counts for nothing (`Transition.real`)."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

Real = Bool[Array, "time envs"] | None
"""Where a step was made; None: everywhere."""

State = TypeVar("State")


def over_envs(rows: Float32[Array, "time envs"], real: Real) -> Float32[Array, " time"]:
    """At each time the mean over the environments that made a step; 0 where none did."""
    if real is None:
        return jnp.mean(rows, axis=1)
    return jnp.sum(jnp.where(real, rows, 0), axis=1) / jnp.maximum(jnp.sum(real, axis=1), 1)


def over_all(rows: Float32[Array, "time envs"], real: Real) -> Float32[Array, ""]:
    """The mean over all steps that were made; 0 if there was none."""
    if real is None:
        return jnp.mean(rows)
    return jnp.sum(jnp.where(real, rows, 0)) / jnp.maximum(jnp.sum(real), 1)


def variance(rows: Float32[Array, "time envs units"], real: Real) -> Float32[Array, " units"]:
    """The variance of each unit over all steps that were made."""
    if real is None:
        return jnp.var(rows, axis=(0, 1))
    count = jnp.maximum(jnp.sum(real), 1)
    there = real[..., None]
    mean = jnp.sum(jnp.where(there, rows, 0), axis=(0, 1)) / count
    return jnp.sum(jnp.where(there, jnp.square(rows - mean), 0), axis=(0, 1)) / count


def if_any(real: Real, new: State, old: State) -> State:
    """The new state, or the old one where no step was made: momentum alone must not move a network."""
    if real is None:
        return new
    made = jnp.any(real)
    return jax.tree.map(lambda after, before: jnp.where(made, after, before), new, old)
