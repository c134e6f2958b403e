"""The distance to the k-th nearest of very many points, exactly."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from gobi.memory.neighbours import squared_distances

GROUP = 128
"""Points of which only the nearest is looked at first."""
CHUNK = 4096
"""Points at a time on a CPU, where all distances at once would not fit into its caches."""


def kth_distance(
    queries: Float32[Array, "n units"],
    points: Float32[Array, "m units"],
    there: Bool[Array, " m"],
    k: int,
) -> Float32[Array, " n"]:
    """The Euclidean distance of each query to its k-th nearest point; 0 where there are fewer than k.

    there:  which points exist.

    On an accelerator all distances are one product. A CPU goes through the points in chunks, only as far as
    there are any.
    """
    index = jax.lax.platform_dependent(
        queries, points, there, cpu=_chunked(k), default=lambda q, p, t: _nearest(q, p, t, k)[1]
    )
    # The product tells which are nearest; how far they are is found anew from their difference: equal points
    # are then at distance 0, and not at the root of a rounding error.
    squares = jnp.sum(jnp.square(queries[:, None] - points[index]), axis=-1)
    enough = jnp.sum(there, dtype=jnp.int32) >= k
    return jnp.where(enough, jnp.sqrt(jnp.max(squares, axis=-1)), 0.0)


def smallest(values: Float32[Array, "n m"], k: int) -> tuple[Float32[Array, "n k"], Int32[Array, "n k"]]:
    """The k smallest of each row, and where they are; infinite where the row is shorter.

    They are in the k groups of columns whose own smallest are smallest: one pass over the values, instead of
    sorting them.
    """
    n, m = values.shape
    padded = jnp.pad(values, [(0, 0), (0, -m % GROUP)], constant_values=jnp.inf)
    grouped = padded.reshape(n, -1, GROUP)
    groups = min(k, grouped.shape[1])
    _, which = jax.lax.top_k(-jnp.min(grouped, axis=-1), groups)
    candidates = jnp.take_along_axis(grouped, which[..., None], axis=1).reshape(n, -1)
    if groups * GROUP < k:
        candidates = jnp.pad(candidates, [(0, 0), (0, k - groups * GROUP)], constant_values=jnp.inf)
    found, at = jax.lax.top_k(-candidates, k)
    group = jnp.take_along_axis(which, jnp.minimum(at // GROUP, groups - 1), axis=1)
    return -found, jnp.minimum(group * GROUP + at % GROUP, m - 1)


def _nearest(
    queries: Float32[Array, "n units"],
    points: Float32[Array, "m units"],
    there: Bool[Array, " m"],
    k: int,
) -> tuple[Float32[Array, "n k"], Int32[Array, "n k"]]:
    """Squared distances of the k nearest, and which they are."""
    # Whole groups of points, because the table of distances is too large to be copied.
    more = -len(points) % GROUP
    points, there = jnp.pad(points, [(0, more), (0, 0)]), jnp.pad(there, (0, more))
    found, at = smallest(jnp.where(there, squared_distances(queries, points), jnp.inf), k)
    return found, jnp.minimum(at, len(points) - more - 1)


def _chunked(k: int):
    """The k nearest, through chunks of points up to the last that exists."""

    def nearest(
        queries: Float32[Array, "n units"], points: Float32[Array, "m units"], there: Bool[Array, " m"]
    ) -> Int32[Array, "n k"]:
        n, m = len(queries), len(points)
        chunk = min(CHUNK, m)
        last = jnp.max(jnp.where(there, jnp.arange(1, m + 1), 0))

        def more(
            turn: Int32[Array, ""], best: tuple[Float32[Array, "n k"], Int32[Array, "n k"]]
        ) -> tuple[Float32[Array, "n k"], Int32[Array, "n k"]]:
            # The last chunk may reach back into the one before it; what that had is not looked at again.
            start = jnp.minimum(turn * chunk, m - chunk)
            part = jax.lax.dynamic_slice_in_dim(points, start, chunk)
            fresh = start + jnp.arange(chunk) >= turn * chunk
            here = jax.lax.dynamic_slice_in_dim(there, start, chunk) & fresh
            squares, at = _nearest(queries, part, here, k)
            squares = jnp.concatenate([best[0], squares], axis=1)
            at = jnp.concatenate([best[1], start + at], axis=1)
            found, which = jax.lax.top_k(-squares, k)
            return -found, jnp.take_along_axis(at, which, axis=1)

        none = jnp.full((n, k), jnp.inf), jnp.zeros((n, k), jnp.int32)
        return jax.lax.fori_loop(0, (last + chunk - 1) // chunk, more, none)[1]

    return nearest
