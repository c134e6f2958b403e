"""Statistics of few seeds on few tasks: robust means, bootstrap intervals, chances, and censored times.

Intervals are of 95 %. An interval is None where the seeds are too few to have one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64

RESAMPLES = 2000
LEVEL = 0.95
Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""

Interval = tuple[float, float]
Seeds = Float64[np.ndarray, " _"]
"""The scores of the seeds of one task; other tasks may have more or fewer."""
Mean = Callable[[Float64[np.ndarray, "*batch n"]], Float64[np.ndarray, "*batch"]]
"""What is made of the seeds of all tasks, along the last axis."""


# Means and their intervals


def mean(scores: Float64[np.ndarray, "*batch n"]) -> Float64[np.ndarray, "*batch"]:
    """The plain mean along the last axis."""
    return np.asarray(scores.mean(axis=-1))


def interquartile_mean(scores: Float64[np.ndarray, "*batch n"]) -> Float64[np.ndarray, "*batch"]:
    """The mean of the middle half along the last axis: a quarter, rounded down, is cut off at either end.

    Less noisy than the median, less moved by one odd seed than the mean (Agarwal et al., NeurIPS 2021).
    """
    n = scores.shape[-1]
    return mean(np.sort(scores, axis=-1)[..., n // 4 : n - n // 4])


def bootstrap(
    strata: Sequence[Seeds], statistic: Mean, seed: int = 0, resamples: int = RESAMPLES
) -> Interval | None:
    """The stratified percentile bootstrap: seeds are drawn anew inside each task, tasks are not.

    strata:     for each task, the scores of its seeds.
    statistic:  what the interval is of; it is given the drawn scores of all tasks in one row.

    A task with one seed would look as if seeds never differed: then there is no interval.
    """
    if min(len(stratum) for stratum in strata) < 2:
        return None
    chosen = draws([len(stratum) for stratum in strata], seed, resamples)
    return _middle(statistic(np.concatenate(strata)[chosen]))


def bootstrap_band(
    strata: Sequence[Float64[np.ndarray, "_ points"]],
    statistic: Mean,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> tuple[Float64[np.ndarray, " points"], Float64[np.ndarray, " points"]] | None:
    """The same at each point of curves: whole curves are drawn, so neighbouring points belong together."""
    if min(len(stratum) for stratum in strata) < 2:
        return None
    chosen = draws([len(stratum) for stratum in strata], seed, resamples)
    # One point after the other: all at once would be gigabytes for twelve tasks.
    columns = np.concatenate(strata).T
    edges = np.array([_middle(statistic(column[chosen])) for column in columns])
    return edges[:, 0], edges[:, 1]


def draws(sizes: Sequence[int], seed: int, resamples: int = RESAMPLES) -> Int64[np.ndarray, "resamples runs"]:
    """Which runs each resample takes, counted through all strata; a stratum's share stays its own."""
    random = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes[:-1]])
    parts = [
        start + random.integers(0, size, (resamples, size)) for start, size in zip(starts, sizes, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def _middle(values: Float64[np.ndarray, " resamples"]) -> Interval:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def wilson(share: float, trials: int) -> Interval:
    """Wilson's interval of a share: sound at 0 and 1 too, where the normal one has no width.

    The trials need not be yes or no. A mean of numbers between 0 and 1 varies no more than that of zeros and
    ones with the same mean, so for such the interval is on the safe side.
    """
    per_trial = Z**2 / trials
    half = Z * math.sqrt(share * (1 - share) / trials + per_trial / (4 * trials))
    middle = share + per_trial / 2
    return max(0.0, (middle - half) / (1 + per_trial)), min(1.0, (middle + half) / (1 + per_trial))


# One method against another


def probability_of_improvement(
    ours: Sequence[Seeds],
    theirs: Sequence[Seeds],
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> tuple[float, Interval | None]:
    """How often a seed of ours scores more than one of theirs on the same task, ties counted half.

    ours, theirs:  for each task, the scores of the seeds; the mean over tasks is returned, with its interval.
    """
    means = [_wins(x, y).mean() for x, y in zip(ours, theirs, strict=True)]
    value = float(np.mean(means))
    if min(len(scores) for scores in [*ours, *theirs]) < 2:
        return value, None
    random = np.random.default_rng(seed)
    drawn = np.zeros(resamples)
    for x, y in zip(ours, theirs, strict=True):
        mine, others = (_shares(random, len(scores), resamples) for scores in (x, y))
        drawn += np.einsum("ri,ij,rj->r", mine, _wins(x, y), others)
    return value, _middle(drawn / len(ours))


def _wins(
    x: Float64[np.ndarray, " runs"], y: Float64[np.ndarray, " others"]
) -> Float64[np.ndarray, "runs others"]:
    return (x[:, None] > y) + 0.5 * (x[:, None] == y)


def _shares(random: np.random.Generator, size: int, resamples: int) -> Float64[np.ndarray, "resamples size"]:
    """How much of each resample is each run."""
    return random.multinomial(size, np.full(size, 1 / size), resamples) / size


# Times that may not have come before the end


@dataclasses.dataclass(frozen=True)
class Survival:
    """The share of seeds that have not solved the task yet, as Kaplan and Meier estimate it.

    times:      when a seed solved it, in order, each time once.
    share:      that is left from this time on.
    low, high:  95 % interval of the share (Greenwood's variance of its log-log); `high` is NaN at share 0.
    """

    times: Float64[np.ndarray, " times"]
    share: Float64[np.ndarray, " times"]
    low: Float64[np.ndarray, " times"]
    high: Float64[np.ndarray, " times"]

    @property
    def median(self) -> float:
        """When half of the seeds have solved it; inf if they never did."""
        return self._first(self.share)

    @property
    def median_interval(self) -> Interval:
        """All times that may be the median: where the interval of the share holds 1/2 (Brookmeyer, Crowley).

        The upper end is inf where the seeds are too few, or too few of them solved it, to have one. With no
        solved seed nothing is known of the lower end but that it is positive.
        """
        return (self._first(self.low) if len(self.times) else 0.0), self._first(self.high)

    def _first(self, edge: Float64[np.ndarray, " times"]) -> float:
        # Floating point: 1 - 1/6 - 1/6 - 1/6 as a product of factors is not quite 1/2.
        below = np.flatnonzero(edge <= 0.5 + 1e-12)
        return float(self.times[below[0]]) if len(below) else math.inf


def kaplan_meier(times: Float64[np.ndarray, " seeds"], solved: Bool[np.ndarray, " seeds"]) -> Survival:
    """The survival curve of seeds that solved a task at these times, or were watched in vain until then."""
    at = np.unique(times[solved])
    events = np.array([np.sum(solved & (times == time)) for time in at], np.float64)
    watched = np.array([np.sum(times >= time) for time in at], np.float64)
    share = np.cumprod(1 - events / watched)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.cumsum(events / (watched * (watched - events)))
        wide = Z * np.sqrt(variance) / np.abs(np.log(share))
        low, high = share ** np.exp(wide), share ** np.exp(-wide)
    # When nobody is left, Greenwood's variance has no value: the share may be anything from 0 on.
    nobody = share <= 0
    return Survival(at, share, np.where(nobody, 0.0, low), np.where(nobody, np.nan, high))


def restricted_mean(
    times: Float64[np.ndarray, " seeds"],
    solved: Bool[np.ndarray, " seeds"],
    horizon: float,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> tuple[float, Interval | None]:
    """The mean time to the solution if nobody is watched beyond the horizon, with its bootstrap interval.

    The area under the survival curve up to the horizon: an unsolved seed counts as the horizon, one whose
    watch ended earlier as those went on that were watched longer.
    """
    size = len(times)
    value = float(_areas(times, solved, horizon, np.ones((1, size)))[0])
    if size < 2:
        return value, None
    weights = _shares(np.random.default_rng(seed), size, resamples) * size
    return value, _middle(_areas(times, solved, horizon, weights))


def _areas(
    times: Float64[np.ndarray, " seeds"],
    solved: Bool[np.ndarray, " seeds"],
    horizon: float,
    weights: Float64[np.ndarray, "resamples seeds"],
) -> Float64[np.ndarray, " resamples"]:
    """Areas under survival curves in which each seed counts so often, 0 times or more."""
    # At equal times, who solved comes before whose watch ended: the latter was still at risk.
    order = np.lexsort((~solved, times))
    times, solved, weights = times[order], solved[order], weights[:, order]
    watched = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    lost = np.divide(weights * solved, watched, out=np.zeros_like(weights), where=watched > 0)
    share = np.cumprod(1 - lost, axis=1)
    share = np.concatenate([np.ones((len(weights), 1)), share], axis=1)
    edges = np.clip(np.concatenate([[0.0], times, [np.inf]]), 0.0, horizon)
    return share @ np.diff(edges)


# Curves


def area_under_curve(
    frames: Float64[np.ndarray, " points"], values: Float64[np.ndarray, " points"], horizon: float
) -> float:
    """The mean of a curve over the frames from 0 to the horizon: its area by trapezoids, per frame.

    Before its first point and after its last the curve is level.
    """
    at = np.concatenate([[0.0], frames[(frames > 0) & (frames < horizon)], [horizon]])
    return float(np.trapezoid(np.interp(at, frames, values), at) / horizon)


def first_reached(
    frames: Float64[np.ndarray, " points"],
    values: Float64[np.ndarray, " points"],
    threshold: float,
    horizon: float,
) -> tuple[float, bool]:
    """When a curve was first seen at the threshold or above it, and True; or the horizon, and False."""
    reached = np.flatnonzero((values >= threshold) & (frames <= horizon))
    return (float(frames[reached[0]]), True) if len(reached) else (horizon, False)
