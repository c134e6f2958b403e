"""Nearest neighbours, exactly: all distances in one matrix product."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32


def squared_distances(
    queries: Float32[Array, "*batch n units"], points: Float32[Array, "*batch m units"]
) -> Float32[Array, "*batch n m"]:
    """The squared distance of each query to each point, |q|^2 - 2 q p + |p|^2.

    The three terms are much larger than their sum where all lie close together far from the origin; so the
    origin is first moved amidst the queries. The product is one of full precision, never TensorFloat32.
    """
    centre = jnp.mean(queries, axis=-2, keepdims=True)
    queries, points = queries - centre, points - centre
    products = jnp.einsum("...nu,...mu->...nm", queries, points, precision=jax.lax.Precision.HIGHEST)
    squares = [jnp.sum(jnp.square(vectors), axis=-1) for vectors in (queries, points)]
    return jnp.maximum(squares[0][..., :, None] - 2 * products + squares[1][..., None, :], 0.0)


def nearest(
    queries: Float32[Array, "*batch n units"],
    points: Float32[Array, "*batch m units"],
    there: Bool[Array, "*batch n m"],
    k: int,
) -> Float32[Array, "*batch n k"]:
    """Squared distances to each query's k nearest points, the nearest first; infinite where there are fewer.

    there:  which points a query may see.
    """
    squares = jnp.where(there, squared_distances(queries, points), jnp.inf)
    short = k - squares.shape[-1]
    if short > 0:
        squares = jnp.pad(squares, [(0, 0)] * (squares.ndim - 1) + [(0, short)], constant_values=jnp.inf)
    found, index = jax.lax.top_k(-squares, k)
    # Anew from differences: what three large terms leave of a small distance is their rounding errors, and
    # equal vectors would not be at distance 0.
    rows = jnp.minimum(index, points.shape[-2] - 1).reshape(*index.shape[:-2], -1, 1)
    chosen = jnp.take_along_axis(points, rows, axis=-2).reshape(*index.shape, -1)
    exact = jnp.sum(jnp.square(queries[..., None, :] - chosen), axis=-1)
    return jnp.sort(jnp.where(jnp.isfinite(found), exact, jnp.inf), axis=-1)
