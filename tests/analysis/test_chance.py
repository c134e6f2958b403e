"""What equal methods would show by chance, against scipy and all arrangements; and what is called better."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gobi.analysis import chance, statistics

few = settings(max_examples=25, deadline=None)
tied = st.lists(st.integers(0, 4).map(float), min_size=2, max_size=5).map(np.array)


def test_the_chance_of_separation_counts_the_orders_in_which_seeds_may_come_in():
    orders = list(itertools.permutations(range(5)))
    separated = [order for order in orders if min(order[:2]) > max(order[2:])]
    assert chance.separation([(2, 3)]) == pytest.approx(len(separated) / len(orders))
    assert chance.separation([(4, 4), (2, 3)]) == pytest.approx(1 / 70 / 10)


def test_seeds_are_too_few_where_complete_separation_is_no_evidence():
    assert chance.too_few([(3, 3)])
    assert chance.too_few([(2, 6)])
    assert not chance.too_few([(4, 4)])
    assert not chance.too_few([(3, 5)])
    assert not chance.too_few([(3, 3), (2, 2)])


# The permutation test


@few
@given(st.integers(1, 7), st.integers(1, 7), st.randoms())
def test_without_ties_it_is_mann_and_whitneys_exact_test(ours, theirs, random):
    ranks = list(range(ours + theirs))
    random.shuffle(ranks)
    x, y = np.array(ranks[:ours], float), np.array(ranks[ours:], float)
    expected = stats.mannwhitneyu(x, y, method="exact").pvalue
    assert chance.permutation_p([x], [y]) == pytest.approx(expected)


@few
@given(tied, tied)
def test_with_ties_it_is_scipys_permutation_test(x, y):
    def improvement(a, b):
        return statistics.probability_of_improvement([a], [b], resamples=1)[0]

    theirs = stats.permutation_test((x, y), improvement, n_resamples=1000)
    assert chance.permutation_p([x], [y]) == pytest.approx(theirs.pvalue)


@few
@given(st.lists(st.tuples(tied, tied), min_size=2, max_size=2))
def test_over_tasks_labels_are_permuted_inside_each(tasks):
    tasks = [(x[:3], y[:3]) for x, y in tasks]
    every = []
    for x, y in tasks:
        scores = np.concatenate([x, y])
        dealt = itertools.combinations(range(len(scores)), len(x))
        every.append([_wins(scores[list(mine)], np.delete(scores, mine)) for mine in dealt])
    means = np.array([np.mean(one) for one in itertools.product(*every)])
    seen = np.mean([_wins(x, y) for x, y in tasks])
    sides = np.mean(means >= seen - 1e-9), np.mean(means <= seen + 1e-9)
    p = chance.permutation_p([x for x, _ in tasks], [y for _, y in tasks])
    assert p == pytest.approx(min(1.0, 2 * min(sides)))


def _wins(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((x[:, None] > y) + 0.5 * (x[:, None] == y)))


def test_what_is_too_much_to_count_is_drawn_and_comes_to_the_same(monkeypatch):
    random = np.random.default_rng(0)
    ours, theirs = ([random.normal(shift, size=n) for n in (4, 5, 3)] for shift in (0.7, 0.0))
    exact = chance.permutation_p(ours, theirs)
    monkeypatch.setattr(chance, "LARGEST", 0)
    drawn = chance.permutation_p(ours, theirs)
    assert drawn == pytest.approx(exact, abs=0.01)
    assert drawn != exact
    assert drawn == chance.permutation_p(ours, theirs)


def test_many_seeds_are_counted_too():
    x, y = np.arange(40.0), np.arange(40.0) + 12.5
    assert chance.permutation_p([x], [y]) == pytest.approx(
        stats.mannwhitneyu(x, y, method="exact").pvalue, rel=1e-6
    )


# Who is better


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ([7, 8, 9], [1, 2, 3], "too few seeds"),
        # One of nine pairs is lost: the bootstrap's interval leaves out one half, and that is no evidence.
        ([2.5, 8, 9], [1, 2, 3], "too few seeds"),
        ([1, 2, 3], [2.5, 8, 9], "too few seeds"),
        ([6, 7, 8, 9], [1, 2, 3, 4], "better"),
        ([1, 2, 3, 4], [6, 7, 8, 9], "worse"),
        ([1, 3, 5, 7], [2, 4, 6, 8], "alike"),
        # One lost pair of sixteen, or two: equal methods do as well one time in 18, or 9.
        ([3.5, 7, 8, 9], [1, 2, 3, 4], "alike"),
        ([1, 2, 3, 4], [3.5, 7, 8, 9], "alike"),
        ([3.5, 3.7, 8, 9], [1, 2, 3, 4], "alike"),
        # Three of four get there and none of the others: one time in 7.
        ([-2, -2, -2, -8], [-8, -8, -8, -8], "alike"),
        ([4.5, 7, 8, 9, 10], [1, 2, 3, 4, 5], "better"),
    ],
)
def test_a_winner_needs_an_interval_and_a_permutation_test_that_agree(ours, theirs, said):
    assert chance.compared([np.array(ours, float)], [np.array(theirs, float)]) == said


def test_several_tasks_may_settle_what_one_cannot():
    ours, theirs = np.array([3.5, 7, 8, 9]), np.array([1.0, 2, 3, 4])
    assert chance.compared([ours], [theirs]) == "alike"
    assert chance.compared([ours] * 2, [theirs] * 2) == "better"
