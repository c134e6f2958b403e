"""Nearest neighbours against SciPy's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from gobi.memory.neighbours import nearest, squared_distances


@pytest.fixture
def clouds() -> tuple[np.ndarray, np.ndarray]:
    """Two batches of queries and points, of which some are equal."""
    draw = np.random.default_rng(0)
    queries, points = draw.normal(size=(2, 20, 8)), draw.normal(size=(2, 50, 8))
    points[:, 3:9] = queries[:, 3:9]
    return queries.astype(np.float32), points.astype(np.float32)


@pytest.mark.parametrize("away", [0, 300])
def test_distances_are_scipys_even_far_from_the_origin(away, clouds):
    queries, points = (cloud + np.float32(away) for cloud in clouds)
    found = squared_distances(jnp.asarray(queries), jnp.asarray(points))
    expected = np.stack([cdist(q, p, "sqeuclidean") for q, p in zip(queries, points, strict=True)])
    np.testing.assert_allclose(found, expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_the_nearest_are_those_of_a_tree(k, clouds):
    queries, points = clouds
    found = nearest(jnp.asarray(queries), jnp.asarray(points), jnp.ones((2, 20, 50), bool), k)
    for batch in range(2):
        distances = KDTree(points[batch]).query(queries[batch], k=[*range(1, k + 1)])[0]
        np.testing.assert_allclose(np.sqrt(found[batch]), distances, atol=1e-6, rtol=1e-5)
        # The root of a rounding error would be seen: equal ones are at no distance.
        assert not found[batch][3:9, 0].any()


def test_only_what_is_there_is_found_and_infinity_stands_for_what_is_not(clouds):
    queries, points = clouds
    there = np.zeros((2, 20, 50), bool)
    there[0, :, 10:12] = True
    there[1, 5] = True
    found = np.asarray(nearest(jnp.asarray(queries), jnp.asarray(points), jnp.asarray(there), 4))
    expected = np.sort(cdist(queries[0], points[0, 10:12], "sqeuclidean"), axis=1)
    np.testing.assert_allclose(found[0, :, :2], expected, rtol=1e-5)
    assert np.isinf(found[0, :, 2:]).all()
    assert np.isfinite(found[1, 5]).all()
    assert np.isinf(np.delete(found[1], 5, axis=0)).all()


def test_more_neighbours_than_points_can_be_asked_for(clouds):
    queries, points = clouds
    found = nearest(jnp.asarray(queries[0]), jnp.asarray(points[0, :2]), jnp.ones((20, 2), bool), 3)
    assert found.shape == (20, 3)
    assert jnp.isinf(found[:, 2]).all()
    assert jnp.isfinite(found[:, :2]).all()


def test_it_compiles_to_one_product(clouds):
    queries, points = clouds
    text = jax.jit(squared_distances).lower(queries, points).as_text()
    assert text.count("dot_general") == 1
