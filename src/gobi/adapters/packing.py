"""Many arrays as one row of bytes, so that they cross from the device to the host in a single transfer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8


def pack(tree: Any) -> UInt8[Array, " bytes"]:
    """The arrays of a tree, one after the other. Those of wide numbers must come first, to stay aligned."""
    # Without the barrier XLA works every number out again for each of its bytes.
    leaves = jax.lax.optimization_barrier(jax.tree.leaves(tree))
    return jnp.concatenate([_bytes_of(leaf) for leaf in leaves])


def unpack(data: UInt8[np.ndarray, " bytes"], like: Any) -> Any:
    """The tree again, as NumPy arrays that share the memory of the bytes.

    like:  a tree of the same structure whose leaves have the shapes and dtypes.
    """
    leaves, structure = jax.tree.flatten(like)
    found, start = [], 0
    for leaf in leaves:
        end = start + leaf.size * leaf.dtype.itemsize
        found.append(data[start:end].view(leaf.dtype).reshape(leaf.shape))
        start = end
    return jax.tree.unflatten(structure, found)


def _bytes_of(leaf: Array) -> UInt8[Array, " bytes"]:
    if leaf.dtype == jnp.bool_:
        leaf = leaf.astype(jnp.uint8)
    return jax.lax.bitcast_convert_type(leaf, jnp.uint8).reshape(-1)
