"""Codes: equal for equal observations, different for different ones, and SimHash against numpy."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.errors import GobiError
from gobi.memory import SimHash, exact, mix


def as_integers(codes) -> np.ndarray:
    codes = np.asarray(codes).astype(np.uint64)
    return codes[..., 0] << np.uint64(32) | codes[..., 1]


def views_like(numbers: np.ndarray) -> np.ndarray:
    """Different 7x7 views for different numbers: walls, floor, and the number's digits in some cells."""
    views = np.zeros((len(numbers), 49, 3), np.uint8)
    views[:, :, 0] = np.where(np.arange(49) % 7 < 4, 1, 2)
    for place in range(4):
        views[:, 11 + 7 * place, 0] = numbers // 40**place % 10
        views[:, 11 + 7 * place, 1] = numbers // 10 // 40**place % 4
    return views.reshape(-1, 7, 7, 3)


@pytest.fixture(scope="module")
def two_million_codes() -> np.ndarray:
    coded = jax.jit(exact)
    return np.concatenate(
        [coded(jnp.asarray(views_like(part))) for part in np.split(np.arange(2_000_000), 16)]
    )


def test_two_million_different_views_have_different_codes(two_million_codes):
    assert len(np.unique(as_integers(two_million_codes))) == 2_000_000


@pytest.mark.parametrize("half", ["first", "second", "sum"])
def test_each_half_of_a_code_collides_as_often_as_chance_would_have_it(two_million_codes, half):
    first, second = two_million_codes.T
    words = {"first": first, "second": second, "sum": first + second}[half]
    n = len(words)
    collisions = n - len(np.unique(words))
    expected = n - 2**32 * -np.expm1(n * np.log1p(-(2.0**-32)))
    assert abs(collisions - expected) < 5 * np.sqrt(expected)


def test_codes_do_not_depend_on_the_batch():
    views = views_like(np.arange(24))
    together = exact(jnp.asarray(views.reshape(2, 3, 4, 7, 7, 3)))
    alone = [jax.jit(exact)(jnp.asarray(view)) for view in views]
    assert together.shape == (2, 3, 4, 2)
    np.testing.assert_array_equal(together.reshape(24, 2), np.stack(alone))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "uint16", "int32", "float16", "float32"])
def test_changing_any_one_element_changes_both_words(dtype):
    plain = np.zeros((3, 5), dtype)
    changed = np.stack([plain] * 15)
    changed.reshape(15, 15)[np.diag_indices(15)] = 1
    code, codes = exact(jnp.asarray(plain), ndim=2), exact(jnp.asarray(changed), ndim=2)
    assert np.all(np.asarray(code) != np.asarray(codes))
    assert len(np.unique(as_integers(codes))) == 15


def test_differences_in_the_highest_bits_do_not_cancel():
    words = np.zeros((120, 16), np.uint32)
    pairs = [(i, j) for i in range(16) for j in range(i)]
    for row, pair in zip(words, pairs, strict=True):
        row[list(pair)] = 2**31
    assert len(np.unique(as_integers(exact(jnp.asarray(words), ndim=1)))) == 120


def test_flipping_a_bit_flips_half_of_the_code():
    words = np.random.default_rng(0).integers(0, 2**32, (500, 4), np.uint32)
    for bit in (0, 7, 31):
        flipped = words ^ np.array([0, 1 << bit, 0, 0], np.uint32)
        moved = np.asarray(exact(jnp.asarray(words), ndim=1)) ^ np.asarray(
            exact(jnp.asarray(flipped), ndim=1)
        )
        shares = np.unpackbits(moved.view(np.uint8)).reshape(500, 64).mean(axis=0)
        assert shares.min() > 0.38
        assert shares.max() < 0.62


def test_mixing_in_a_number_keeps_codes_apart():
    codes = exact(jnp.asarray(views_like(np.arange(500))))
    mixed = mix(jnp.tile(codes[:, None], (1, 40, 1)), jnp.arange(40))
    assert mixed.shape == (500, 40, 2)
    assert len(np.unique(as_integers(mixed))) == 20_000
    np.testing.assert_array_equal(mixed[:, 3], mix(codes, jnp.int32(3)))


def signs_by_numpy(code: SimHash, views: np.ndarray) -> np.ndarray:
    flat = views.reshape(len(views), -1).astype(np.float64)
    return flat @ np.asarray(code.projection, np.float64).T > 0


@pytest.mark.parametrize("bits", [1, 16, 32, 50, 64])
def test_simhash_is_the_signs_of_the_projections(bits):
    views = np.random.default_rng(1).integers(0, 11, (300, 7, 7, 3), np.uint8)
    code = SimHash(jax.random.key(2), (7, 7, 3), bits)
    weights = 2 ** np.arange(bits, dtype=np.uint64)
    number = (signs_by_numpy(code, views) * weights).sum(axis=1, dtype=np.uint64)
    found = np.asarray(code(jnp.asarray(views))).astype(np.uint64)
    np.testing.assert_array_equal(found[:, 0] | found[:, 1] << np.uint64(32), number)


def test_simhash_with_many_bits_keeps_apart_what_differs_in_a_bit():
    views = np.random.default_rng(1).integers(0, 3, (400, 4), np.uint8)
    code = SimHash(jax.random.key(0), (4,), 200)
    signs = signs_by_numpy(code, views)
    found = as_integers(code(jnp.asarray(views)))
    same_signs = (signs[:, None] == signs[None]).all(axis=-1)
    np.testing.assert_array_equal(found[:, None] == found[None], same_signs)
    assert 2 < len(np.unique(found)) < 400


def test_simhash_does_not_depend_on_what_is_coded_beside():
    views = jnp.asarray(np.random.default_rng(3).integers(0, 256, (64, 7, 7, 3), np.uint8))
    code = SimHash(jax.random.key(5), (7, 7, 3), 64)
    coded = eqx.filter_jit(code)
    alone = jnp.stack([coded(view) for view in views])
    np.testing.assert_array_equal(code(views), alone)
    np.testing.assert_array_equal(code(views.reshape(4, 16, 7, 7, 3)).reshape(64, 2), alone)


def test_near_observations_share_more_bits_of_a_simhash():
    views = np.random.default_rng(3).normal(size=(200, 30)).astype(np.float32)
    noise = np.random.default_rng(4).normal(size=(200, 30)).astype(np.float32)
    code = SimHash(jax.random.key(0), (30,), 64)

    def share(other):
        differing = np.asarray(code(jnp.asarray(views))) ^ np.asarray(code(jnp.asarray(other)))
        return np.unpackbits(differing.view(np.uint8)).mean()

    def angle(other):
        cosine = (views * other).sum(1) / np.linalg.norm(views, axis=1) / np.linalg.norm(other, axis=1)
        return np.arccos(cosine).mean() / np.pi

    for other in (views + 0.3 * noise, views + noise, noise):
        assert share(other) == pytest.approx(angle(other), abs=0.02)


def test_simhash_refuses_what_it_cannot_code():
    with pytest.raises(GobiError, match="at least 1 bit"):
        SimHash(jax.random.key(0), (3,), 0)
    with pytest.raises(GobiError, match=r"\(7, 7, 3\).*\(7, 7\)"):
        SimHash(jax.random.key(0), (7, 7, 3), 8)(jnp.zeros((7, 7), jnp.uint8))
