"""The tests of `gobi parity --levels`, against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from gobi.envs.minigrid.parity import statistics


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(st.floats(0.5, 400), st.floats(1e-6, 1500))
def test_the_incomplete_gamma_function_is_scipys(a, x):
    assert statistics.upper_gamma(a, x) == pytest.approx(special.gammaincc(a, x), rel=1e-8, abs=1e-12)


@given(st.floats(0, 6))
def test_the_kolmogorov_distribution_is_scipys(x):
    assert statistics.kolmogorov(x) == pytest.approx(special.kolmogorov(x), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(("m", "n"), [(400, 400), (900, 300)])
def test_chi_square_without_rare_categories_is_scipys(m, n):
    one, other = rng(0).integers(0, 7, m), rng(1).integers(0, 7, n)
    table = np.stack([np.bincount(one, minlength=7), np.bincount(other, minlength=7)])
    expected = stats.chi2_contingency(table, correction=False)
    found = statistics.chi_square(one, other)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("shift", [0.0, 0.15])
def test_kolmogorov_smirnov_is_scipys(shift):
    one, other = rng(2).normal(size=700), rng(3).normal(size=500) + shift
    expected = stats.ks_2samp(one, other, method="exact")
    found = statistics.kolmogorov_smirnov(one, other)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue, rel=0.1)


def test_holm_multiplies_the_smallest_by_the_number_of_tests_and_never_turns_the_order_round():
    adjusted = statistics.holm(np.array([0.01, 0.04, 0.03, 0.005, 0.9]))
    np.testing.assert_allclose(adjusted, [0.04, 0.09, 0.09, 0.025, 0.9])


def test_holm_of_no_tests_is_empty():
    assert statistics.holm(np.zeros(0)).size == 0


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.integers(10, 400), st.integers(10, 400), st.floats(0.01, 0.9))
def test_rare_categories_are_pooled_until_five_are_expected_everywhere(seed, m, n, chance):
    values = rng(seed).geometric(chance, m + n)
    counts = np.stack([np.bincount(part, minlength=values.max() + 1) for part in np.split(values, [m])])
    pooled = statistics._pooled(counts.astype(np.int64))
    np.testing.assert_array_equal(pooled.sum(1), [m, n])
    if pooled.shape[1] > 1:
        expected = pooled.sum(1, keepdims=True) * pooled.sum(0) / (m + n)
        assert expected.min() >= 5


def test_rare_neighbours_are_pooled_with_each_other_and_a_shift_among_them_still_shows():
    one, other = rng(4).integers(0, 1000, 2000), rng(5).integers(100, 1100, 2000)
    assert statistics.chi_square(one, other).p < 1e-20


def test_a_constant_tells_nothing():
    assert statistics.chi_square(np.zeros(50, int), np.zeros(70, int)).p == 1
    assert statistics.kolmogorov_smirnov(np.zeros(50), np.zeros(70)).p == 1


def test_samples_with_nothing_in_common_are_certainly_different():
    assert statistics.chi_square(np.zeros(500, int), np.ones(500, int)).p < 1e-100
    assert statistics.kolmogorov_smirnov(np.zeros(500), np.ones(500)).p < 1e-100


@pytest.mark.parametrize("categories", [2, 10, 300])
def test_p_values_of_samples_that_are_alike_are_uniform(categories):
    draws = rng(categories)
    weights = draws.dirichlet(np.ones(categories))
    found = [
        statistics.chi_square(*draws.choice(categories, (2, 600), p=weights)).p for _ in range(400)
    ]  # fmt: skip
    assert stats.kstest(found, "uniform").pvalue > 0.001
    assert 0.02 < np.mean(np.array(found) < 0.05) < 0.09


def test_p_values_of_quantities_that_are_alike_are_uniform():
    draws = rng(11)
    found = [statistics.kolmogorov_smirnov(*draws.normal(size=(2, 500))).p for _ in range(400)]
    assert stats.kstest(found, "uniform").pvalue > 0.001


def test_a_planted_difference_is_found():
    fair, biased = rng(6).integers(0, 6, 2000), rng(7).choice(6, 2000, p=[0.25] + [0.15] * 5)
    assert statistics.chi_square(fair, biased).p < 1e-6
    assert statistics.kolmogorov_smirnov(rng(8).normal(size=2000), rng(9).normal(0.2, size=2000)).p < 1e-6
