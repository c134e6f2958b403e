"""The statistics of comparisons, each beside somebody else's implementation or a brute-force one."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gobi.analysis import evaluation, statistics

few = settings(max_examples=60, deadline=None)
scores = st.lists(st.floats(-5, 5), min_size=1, max_size=12).map(np.array)
# Few different values, so that there are ties.
tied = st.lists(st.integers(0, 4), min_size=1, max_size=6).map(lambda values: np.array(values, np.float64))


# Means and intervals


@few
@given(scores)
def test_the_interquartile_mean_is_scipys_trimmed_mean(values):
    assert statistics.interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25))


def test_the_interquartile_mean_of_a_batch_is_that_of_each_row():
    values = np.random.default_rng(0).normal(size=(3, 5, 9))
    expected = stats.trim_mean(values, 0.25, axis=-1)
    np.testing.assert_allclose(statistics.interquartile_mean(values), expected)


@pytest.mark.parametrize("kind", [statistics.mean, statistics.interquartile_mean])
def test_the_bootstrap_of_one_task_is_scipys_percentile_bootstrap(kind):
    values = np.random.default_rng(1).gamma(2.0, size=10)
    ours = statistics.bootstrap([values], kind, resamples=20_000)
    theirs = stats.bootstrap(
        (values,), lambda x, axis: kind(x), method="percentile", n_resamples=20_000,
        rng=np.random.default_rng(2), vectorized=True,
    ).confidence_interval  # fmt: skip
    assert ours == pytest.approx(tuple(theirs), abs=0.03)


def test_the_stratified_bootstrap_is_the_one_over_all_resamples_that_keep_each_tasks_seeds():
    tasks = [np.array([0.0, 0.2, 1.0]), np.array([5.0, 9.0])]
    means = [
        np.mean([*first, *second])
        for first in itertools.product(tasks[0], repeat=3)
        for second in itertools.product(tasks[1], repeat=2)
    ]
    expected = np.quantile(means, [0.025, 0.975])
    ours = statistics.bootstrap(tasks, statistics.mean, resamples=50_000)
    assert ours == pytest.approx(tuple(expected), abs=0.05)
    # Drawn without regard to tasks, a resample could miss one of them: much wider.
    assert ours is not None
    pooled = statistics.bootstrap([np.concatenate(tasks)], statistics.mean)
    assert pooled is not None
    assert pooled[1] - pooled[0] > 1.5 * (ours[1] - ours[0])


def test_every_resample_takes_from_each_task_as_many_seeds_as_it_has():
    chosen = statistics.draws([3, 1, 4], seed=0, resamples=500)
    task = np.digitize(chosen, [3, 4])
    assert (task == [0, 0, 0, 1, 2, 2, 2, 2]).all()
    assert set(chosen[:, :3].ravel()) == {0, 1, 2}


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values = [np.random.default_rng(0).normal(size=7)]
    first, again, other = (statistics.bootstrap(values, statistics.mean, seed) for seed in (3, 3, 4))
    assert first == again != other


def test_one_seed_has_no_interval():
    one, two = np.array([1.0]), np.array([1.0, 2.0])
    assert statistics.bootstrap([one], statistics.mean) is None
    assert statistics.bootstrap([two, one], statistics.mean) is None
    assert statistics.bootstrap_band([one[:, None]], statistics.mean) is None
    assert statistics.probability_of_improvement([one], [two])[1] is None
    assert statistics.restricted_mean(one, np.array([True]), 5.0) == (1.0, None)


def test_a_band_is_the_interval_at_each_point():
    curves = [np.random.default_rng(task).normal(size=(4, 3)) for task in (0, 1)]
    low, high = statistics.bootstrap_band(curves, statistics.interquartile_mean, seed=5) or (None, None)
    for point in range(3):
        columns = [task[:, point] for task in curves]
        expected = statistics.bootstrap(columns, statistics.interquartile_mean, seed=5)
        assert (low[point], high[point]) == expected


@few
@given(st.integers(1, 40), st.data())
def test_wilsons_interval_is_scipys_and_that_of_evaluate(trials, data):
    successes = data.draw(st.integers(0, trials))
    theirs = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    ours = statistics.wilson(successes / trials, trials)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert ours == pytest.approx(evaluation.wilson(successes, trials), abs=1e-6)


# One method against another


@few
@given(tied, tied)
def test_the_probability_of_improvement_is_mann_whitneys_u_over_all_pairs(x, y):
    value, _ = statistics.probability_of_improvement([x], [y], resamples=10)
    brute = [1.0 if a > b else 0.5 if a == b else 0.0 for a in x for b in y]
    assert value == pytest.approx(np.mean(brute))
    # scipy has no p-value, and warns, where all are equal.
    if len(np.unique(np.concatenate([x, y]))) > 1:
        u = stats.mannwhitneyu(x, y, method="asymptotic").statistic
        assert value == pytest.approx(u / (len(x) * len(y)))


def test_over_tasks_it_is_the_mean_and_methods_swapped_it_is_the_rest():
    random = np.random.default_rng(0)
    ours, theirs = ([random.normal(size=n) for n in sizes] for sizes in ((3, 5), (4, 2)))
    each = [statistics.probability_of_improvement([x], [y])[0] for x, y in zip(ours, theirs, strict=True)]
    value, _ = statistics.probability_of_improvement(ours, theirs)
    assert value == pytest.approx(np.mean(each))
    assert statistics.probability_of_improvement(theirs, ours)[0] == pytest.approx(1 - value)


def test_its_interval_is_that_of_a_loop_over_resamples():
    random = np.random.default_rng(3)
    ours, theirs = [random.normal(0.5, size=6), random.normal(size=4)], [random.normal(size=5)] * 2
    drawn = []
    for _ in range(20_000):
        each = []
        for x, y in zip(ours, theirs, strict=True):
            a, b = random.choice(x, len(x)), random.choice(y, len(y))
            each.append(np.mean(a[:, None] > b))
        drawn.append(np.mean(each))
    _, interval = statistics.probability_of_improvement(ours, theirs, resamples=20_000)
    assert interval == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.02)


# Censored times

times_and_solved = st.lists(st.tuples(st.integers(1, 8), st.booleans()), min_size=1, max_size=12)


@few
@given(times_and_solved)
def test_the_survival_curve_is_scipys_with_its_interval(seeds):
    times, solved = _arrays(seeds)
    ours = statistics.kaplan_meier(times, solved)
    theirs = stats.ecdf(stats.CensoredData.right_censored(times, ~solved)).sf
    np.testing.assert_allclose(ours.share, theirs.evaluate(ours.times), atol=1e-12)
    if len(ours.times):
        # scipy warns where the share is 0 and the interval undefined.
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            within = theirs.confidence_interval(method="log-log")
        inside = ours.share > 0
        np.testing.assert_allclose(ours.low[inside], within.low.evaluate(ours.times)[inside], atol=1e-9)
        np.testing.assert_allclose(ours.high[inside], within.high.evaluate(ours.times)[inside], atol=1e-9)


@few
@given(times_and_solved)
def test_the_median_is_the_first_time_at_which_half_or_fewer_are_left(seeds):
    times, solved = _arrays(seeds)
    left, median = 1.0, math.inf
    for time in sorted(set(times)):
        watched = sum(other >= time for other in times)
        left *= 1 - sum(solved[times == time]) / watched
        if left <= 0.5 + 1e-12:
            median = time
            break
    found = statistics.kaplan_meier(times, solved)
    low, high = found.median_interval
    assert found.median == median
    assert low <= median <= high


@few
@given(times_and_solved, st.integers(1, 10))
def test_the_restricted_mean_is_the_area_under_the_survival_curve(seeds, horizon):
    times, solved = _arrays(seeds)
    curve = stats.ecdf(stats.CensoredData.right_censored(times, ~solved)).sf
    fine = np.arange(0.0, horizon, 0.01) + 0.005
    value, _ = statistics.restricted_mean(times, solved, float(horizon), resamples=10)
    assert value == pytest.approx(curve.evaluate(fine).mean() * horizon, abs=1e-6)


def test_if_all_are_watched_to_one_end_the_restricted_mean_counts_the_unsolved_as_that_end():
    times, solved = np.array([2.0, 4.0, 10.0, 10.0]), np.array([True, True, False, False])
    value, interval = statistics.restricted_mean(times, solved, 10.0, seed=1, resamples=20_000)
    assert value == pytest.approx(times.mean())
    theirs = stats.bootstrap((times,), np.mean, method="percentile", n_resamples=20_000, rng=1)
    assert interval == pytest.approx(tuple(theirs.confidence_interval), abs=0.2)


def test_few_seeds_bound_the_median_from_below_only_and_eight_from_both_sides():
    for seeds, upper in ((4, math.inf), (8, 7.0)):
        times = np.arange(1.0, seeds + 1)
        found = statistics.kaplan_meier(times, np.ones(seeds, bool))
        assert found.median == seeds / 2
        assert found.median_interval == (1.0, upper)


def test_where_nobody_solved_it_nothing_is_known_of_the_median_but_that_it_is_late():
    found = statistics.kaplan_meier(np.array([9.0, 9.0]), np.array([False, False]))
    assert found.median == math.inf
    assert found.median_interval == (0.0, math.inf)


def _arrays(seeds: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    times, solved = zip(*seeds, strict=True)
    return np.array(times, np.float64), np.array(solved)


# Curves


@few
@given(st.lists(st.tuples(st.integers(1, 50), st.floats(-1, 1)), min_size=1, max_size=8), st.integers(1, 60))
def test_the_area_is_the_mean_of_the_curve_on_a_fine_grid(points, horizon):
    by_frame = dict(points)
    frames = np.array(sorted(by_frame), np.float64)
    values = np.array([by_frame[int(frame)] for frame in frames])
    fine = (np.arange(horizon * 100) + 0.5) / 100
    expected = np.interp(fine, frames, values).mean()
    assert statistics.area_under_curve(frames, values, float(horizon)) == pytest.approx(expected, abs=1e-4)


def test_a_threshold_counts_when_it_is_first_met_within_the_horizon():
    frames, values = np.array([10.0, 20.0, 30.0, 40.0]), np.array([0.1, 0.5, 0.2, 0.9])
    assert statistics.first_reached(frames, values, 0.5, 40.0) == (20.0, True)
    assert statistics.first_reached(frames, values, 0.6, 40.0) == (40.0, True)
    assert statistics.first_reached(frames, values, 0.6, 39.0) == (39.0, False)
