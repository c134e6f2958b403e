"""Distances to the k-th nearest neighbour are those of scikit-learn, on either path."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from gobi.rewards.control import distances
from gobi.rewards.control.distances import kth_distance, smallest


def sklearn_distance(queries: np.ndarray, points: np.ndarray, k: int) -> np.ndarray:
    neighbours = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(points.astype(np.float64))
    return neighbours.kneighbors(queries.astype(np.float64))[0][:, -1]


def one_product(queries, points, there, k):
    """The path of accelerators, on whatever machine this is."""
    index = distances._nearest(queries, points, there, k)[1]
    return jnp.sqrt(jnp.max(jnp.sum(jnp.square(queries[:, None] - points[index]), axis=-1), axis=-1))


@pytest.mark.parametrize("path", [kth_distance, one_product])
@pytest.mark.parametrize(("m", "k"), [(40, 4), (129, 1), (4096, 4), (9001, 4), (9001, 7)])
def test_the_distances_are_those_of_scikit_learn(path, m, k):
    rng = np.random.default_rng(m + k)
    # Far from the origin and close together, as a random encoder's features are.
    points = (3 + 0.05 * rng.standard_normal((m, 50))).astype(np.float32)
    there = rng.random(m) < 0.7
    there[:10] = True
    queries = points[rng.choice(np.flatnonzero(there), 32)]
    found = jax.jit(path, static_argnums=3)(queries, points, jnp.asarray(there), k)
    # scikit-learn's own brute force finds a point at 1e-8 of itself.
    np.testing.assert_allclose(found, sklearn_distance(queries, points[there], k), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("path", [kth_distance, one_product])
def test_equal_points_are_at_distance_zero(path):
    rng = np.random.default_rng(0)
    points = np.repeat(rng.standard_normal((30, 50)).astype(np.float32) + 5, 4, axis=0)
    apart = jax.jit(path, static_argnums=3)
    assert np.all(np.asarray(apart(points[::7], points, jnp.ones(len(points), bool), 4)) == 0)
    assert np.all(np.asarray(apart(points[::7], points, jnp.ones(len(points), bool), 5)) > 1)


def test_nothing_is_far_from_too_few_points():
    points = jnp.asarray(np.random.default_rng(1).standard_normal((300, 3)), jnp.float32)
    there = jnp.zeros(300, bool).at[jnp.array([3, 200, 299])].set(True)
    apart = jax.jit(kth_distance, static_argnums=3)
    assert np.all(np.asarray(apart(points[:5], points, there, 4)) == 0)
    assert np.all(np.asarray(apart(points[:5], points, there, 3)) > 0)


@pytest.mark.parametrize(("m", "k"), [(1, 1), (3, 5), (128, 4), (200, 150), (1000, 4)])
def test_the_smallest_of_a_row_are_those_that_sorting_puts_first(m, k):
    values = np.random.default_rng(m).integers(0, 30, (6, m)).astype(np.float32)
    found, at = jax.jit(smallest, static_argnums=1)(jnp.asarray(values), k)
    wanted = np.pad(np.sort(values, axis=1), [(0, 0), (0, max(k - m, 0))], constant_values=np.inf)[:, :k]
    np.testing.assert_array_equal(found, wanted)
    real = np.isfinite(wanted)
    np.testing.assert_array_equal(np.take_along_axis(values, np.asarray(at), axis=1)[real], wanted[real])
    assert all(len(set(row[: min(k, m)])) == min(k, m) for row in np.asarray(at))
