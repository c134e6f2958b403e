"""Codes of vectors: cells between hyperplanes anywhere, worked out with numpy, the same in any batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.errors import GobiError
from gobi.memory import SimHash
from gobi.memory.offset_codes import OffsetHash


def as_integers(codes) -> np.ndarray:
    codes = np.asarray(codes).astype(np.uint64)
    return codes[..., 1] << np.uint64(32) | codes[..., 0]


def points(count: int, size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, size)).astype(np.float32)


def by_hand(hash: OffsetHash, rows: np.ndarray) -> np.ndarray:
    """The bits as Python integers, in double precision."""
    rounded = np.rint(rows.astype(np.float64) * 1024) / 1024
    signs = rounded @ np.asarray(hash.projection, np.float64).T + np.asarray(hash.offset, np.float64) > 0
    return signs @ (np.uint64(1) << np.arange(signs.shape[1], dtype=np.uint64))


@pytest.mark.parametrize("size", [1, 2, 300])
def test_a_code_is_the_sides_of_the_hyperplanes_that_a_vector_lies_on(size):
    hash = OffsetHash(jax.random.key(size), (size,), bits=50)
    rows = points(2000, size)
    np.testing.assert_array_equal(as_integers(hash(jnp.asarray(rows))), by_hand(hash, rows))


def test_vectors_in_one_direction_are_told_apart_which_a_simhash_cannot():
    ray = jnp.linspace(0.05, 1, 200)[:, None] * jnp.array([1.0, 0.0])
    offset, simhash = (
        len(np.unique(as_integers(kind(jax.random.key(0), (2,))(ray)))) for kind in (OffsetHash, SimHash)
    )
    assert simhash == 1
    assert offset > 4


def test_the_nearer_two_vectors_the_more_often_they_share_a_code():
    hash, rows = OffsetHash(jax.random.key(1), (2,)), points(3000, 2)
    step = np.random.default_rng(1).normal(size=rows.shape)
    step /= np.linalg.norm(step, axis=1, keepdims=True)
    codes = as_integers(hash(jnp.asarray(rows)))
    shared = [
        np.mean(codes == as_integers(hash(jnp.asarray(rows + length * step, jnp.float32))))
        for length in (0.01, 0.05, 0.2, 1)
    ]
    assert shared[0] > 0.8
    assert shared[-1] < 0.05
    assert shared == sorted(shared, reverse=True)


@pytest.mark.parametrize(("size", "spread"), [(1, 1.0), (2, 3.0), (50, 1.0)])
def test_every_hyperplane_passes_within_reach_of_the_data(size, spread):
    hash = OffsetHash(jax.random.key(2), (size,), bits=2000, spread=spread)
    distance = np.asarray(hash.offset) / np.linalg.norm(hash.projection, axis=1)
    reach = spread * min(np.sqrt(size), 2)
    assert np.abs(distance).max() <= reach * (1 + 1e-5)
    assert np.abs(distance).max() > 0.95 * reach
    assert abs(distance.mean()) < 0.1 * reach


def test_a_code_does_not_depend_on_the_batch_or_on_rounding_errors():
    hash, rows = OffsetHash(jax.random.key(3), (40,)), points(600, 40)
    together = np.asarray(hash(jnp.asarray(rows.reshape(20, 30, 40))))
    one = jax.jit(lambda row: hash(row))
    alone = np.stack([one(jnp.asarray(row)) for row in rows[:40]])
    np.testing.assert_array_equal(together.reshape(-1, 2)[:40], alone)
    shaken = rows.astype(np.float64) + 1e-7
    unsure = np.abs(rows * 1024 - np.floor(rows * 1024) - 0.5).min(axis=1) < 1e-3
    same = as_integers(hash(jnp.asarray(shaken, jnp.float32))) == as_integers(together).reshape(-1)
    assert same[~unsure].all()


def test_more_than_64_bits_are_folded_without_losing_what_differs():
    hash, rows = OffsetHash(jax.random.key(4), (3,), bits=90), points(3000, 3)
    signs = np.asarray(rows @ np.asarray(hash.projection).T > -np.asarray(hash.offset))
    # Rows next to a hyperplane may be rounded over it.
    near = np.abs(rows @ np.asarray(hash.projection).T + np.asarray(hash.offset)).min(axis=1) < 0.01
    codes = as_integers(hash(jnp.asarray(rows)))
    kept = ~near
    assert len(np.unique(codes[kept])) == len(np.unique(signs[kept], axis=0)) > 500


def test_a_centred_hash_has_hyperplanes_through_the_middle_of_the_bytes():
    shape = (12, 10, 3)
    hash = OffsetHash.centred(jax.random.key(5), shape)
    pictures = np.random.default_rng(5).integers(0, 256, (300, *shape), np.uint8)
    centred = pictures.reshape(300, -1).astype(np.float64) - 127.5
    signs = centred @ np.asarray(hash.projection, np.float64).T > 0
    expected = signs @ (np.uint64(1) << np.arange(50, dtype=np.uint64))
    np.testing.assert_array_equal(as_integers(hash(jnp.asarray(pictures))), expected)
    # Every sign turns when light and dark are exchanged.
    turned = as_integers(hash(jnp.asarray(255 - pictures)))
    assert np.mean(expected ^ turned == np.uint64(2**50 - 1)) > 0.99


def test_wrong_shapes_and_spreads_are_refused_in_one_line():
    with pytest.raises(GobiError, match=r"codes observations of shape \(2,\), not \(5, 3\)"):
        OffsetHash(jax.random.key(0), (2,))(jnp.zeros((5, 3)))
    with pytest.raises(GobiError, match="spread must be a positive number, got 0"):
        OffsetHash(jax.random.key(0), (2,), spread=0.0)
