"""Weights that networks begin with."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key


def orthogonal(key: Key[Array, ""], inputs: int, outputs: int, gain: float = 1.0) -> Float32[Array, "i o"]:
    """A random matrix with orthonormal rows or columns, whichever are fewer, times the gain.

    Under `vmap`, matrices are made one after the other. JAX's own batched QR factorisation waits on a CPU for
    threads of the pool that it runs in: as many of them at a time as there are cores wait for ever.
    """

    impl = jax.random.key_impl(key)

    @jax.custom_batching.sequential_vmap
    def made(data):
        key = jax.random.wrap_key_data(data, impl=impl)
        return jax.nn.initializers.orthogonal(gain)(key, (inputs, outputs), jnp.float32)

    return made(jax.random.key_data(key))
