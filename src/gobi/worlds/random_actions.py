"""Random vector actions, which worlds follow to see where they lead."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

DRAWS = ("uniform", "normal")


def random_actions(key: Key[Array, ""], draws: str, count: int, size: int) -> Float32[Array, "count size"]:
    """So many actions of so many numbers, `uniform` in -1 .. 1, or `normal` and cut off there."""
    if draws == "normal":
        return jnp.clip(jax.random.normal(key, (count, size)), -1, 1)
    return jax.random.uniform(key, (count, size), minval=-1.0, maxval=1.0)
