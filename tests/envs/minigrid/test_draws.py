"""Random draws: in range, evenly spread, the same for the same key."""

from __future__ import annotations

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from gobi.envs.minigrid.draws import Draws

COUNT = 6000
KEYS = jax.random.split(jax.random.key(0), COUNT)
UNLIKELY = 1e-3
"""The keys are fixed, so a test that passes once passes for ever; a biased draw falls far below this."""


def drawn(draw, *given, words: int = 1) -> np.ndarray:
    """What `draw` makes of fresh draws and what is given, for each of the keys."""

    def over_keys(keys, *given):
        return jax.vmap(lambda key: draw(Draws(key, words), *given))(keys)

    return np.asarray(jax.jit(over_keys)(KEYS, *given))


def is_even(values, outcomes: int) -> bool:
    return chisquare(np.bincount(values, minlength=outcomes)).pvalue > UNLIKELY


@pytest.mark.parametrize(("low", "high"), [(0, 6), (1, 5), (3, 4), (-2, 5)])
def test_integers_are_spread_evenly_from_low_to_high_less_one(low, high):
    values = drawn(lambda draws: draws.integer(low, high))
    assert values.dtype == np.int32
    assert (values.min(), values.max()) == (low, high - 1)
    assert high - low == 1 or is_even(values - low, high - low)


def test_the_bounds_of_an_integer_may_be_drawn_themselves():
    def draw(draws):
        high = draws.integer(1, 4)
        return jnp.stack([high, draws.integer(0, high)])

    high, value = drawn(draw, words=2).T
    assert ((value >= 0) & (value < high)).all()
    assert is_even(value[high == 3], 3)


def test_two_draws_in_a_row_have_nothing_to_do_with_each_other():
    first, second = drawn(lambda draws: jnp.stack([draws.integer(0, 4), draws.integer(0, 4)]), words=2).T
    assert is_even(first * 4 + second, 16)


def test_an_index_is_one_of_the_masks_true_entries_each_as_likely():
    mask = np.random.default_rng(0).random((5, 7)) < 0.3
    values = drawn(Draws.index, jnp.asarray(mask))
    assert values.dtype == np.int32
    entries = np.flatnonzero(mask)
    assert set(values) == set(entries)
    assert is_even(np.searchsorted(entries, values), len(entries))


def test_the_only_true_entry_of_a_mask_is_always_the_one():
    def draw(draws, masks):
        return jax.vmap(draws.index)(masks)

    every_single = jnp.eye(35, dtype=bool).reshape(35, 5, 7)
    values = drawn(draw, every_single)
    np.testing.assert_array_equal(values, np.tile(np.arange(35), (COUNT, 1)))


def test_an_order_is_one_of_all_permutations_each_as_likely():
    values = drawn(lambda draws: draws.order(4), words=4)
    assert values.dtype == np.int32
    counts = collections.Counter(map(tuple, values))
    assert len(counts) == 24
    assert all(sorted(order) == [0, 1, 2, 3] for order in counts)
    assert chisquare(list(counts.values())).pvalue > UNLIKELY


def test_the_same_key_draws_the_same():
    def draw(key):
        draws = Draws(key, 9)
        return [int(draws.integer(0, 100)), *np.asarray(draws.order(8))]

    assert draw(jax.random.key(3)) == draw(jax.random.key(3))
    assert draw(jax.random.key(3)) != draw(jax.random.key(4))


def test_drawing_more_than_was_provided_for_is_an_error_and_no_silent_repetition():
    draws = Draws(jax.random.key(0), words=3)
    draws.order(2)
    draws.integer(0, 2)
    with pytest.raises(ValueError, match="more than its 3 random words"):
        draws.integer(0, 2)
