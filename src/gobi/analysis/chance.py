"""What chance alone would do: how often seeds of two equal methods would look as different as these do.

The bootstrap of few seeds is too narrow, and where no seed ever lost it has no width. Counting all ways in
which the seeds might have been dealt out to the two methods needs no such faith.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64

from gobi.analysis.statistics import Interval, Seeds, probability_of_improvement

RARE = 0.05
"""What equal methods show less often than this is evidence that they are not equal."""
LARGEST = 1_000_000
"""Values that the statistic may have and still be counted one by one."""
DRAWS = 20_000
"""Of the labels, where they are too many to be counted."""

Direction = Literal["better", "worse", "alike", "too few seeds"]


def separation(sizes: Sequence[tuple[int, int]]) -> float:
    """How likely every seed of one method beats every seed of the other if the methods are the same.

    sizes:  for each task, the seeds of either. Of all orders in which they may come in, one does it.
    """
    return math.prod(1 / math.comb(ours + theirs, ours) for ours, theirs in sizes)


def too_few(sizes: Sequence[tuple[int, int]]) -> bool:
    """Whether even the clearest outcome is no evidence: equal methods show it, either way, too often."""
    return 2 * separation(sizes) >= RARE


def permutation_p(ours: Sequence[Seeds], theirs: Sequence[Seeds], seed: int = 0) -> float:
    """How often equal methods would differ at least so much, either way: an exact permutation test.

    What is tested is the probability of improvement, ties counted half, in the mean over tasks. Which method
    a seed belongs to is permuted inside each task. With one task and no ties it is Mann and Whitney's test.

    ours, theirs:  for each task, the scores of the seeds.
    seed:          of the draws, where tasks of unlike sizes make too many values to be counted.
    """
    pairs = [len(x) * len(y) for x, y in zip(ours, theirs, strict=True)]
    # The wins of a task, ties half, are whole numbers when doubled; so is their mean with this denominator.
    common = math.lcm(*pairs)
    ranks = [_doubled_ranks(x, y) for x, y in zip(ours, theirs, strict=True)]
    sizes = [len(x) for x in ours]
    seen = sum(
        (int(doubled[:size].sum()) - _least(size)) * (common // count)
        for doubled, size, count in zip(ranks, sizes, pairs, strict=True)
    )
    if 2 * common * len(pairs) < LARGEST:
        ways = np.ones(1)
        for doubled, size, count in zip(ranks, sizes, pairs, strict=True):
            ways = np.convolve(ways, _spread(_ways(doubled, size)[_least(size) :], common // count))
        below, above = ways[: seen + 1].sum() / ways.sum(), ways[seen:].sum() / ways.sum()
    else:
        random, drawn = np.random.default_rng(seed), np.zeros(DRAWS)
        for doubled, size, count in zip(ranks, sizes, pairs, strict=True):
            dealt = random.permuted(np.tile(doubled, (DRAWS, 1)), axis=1)[:, :size]
            drawn += (dealt.sum(axis=1) - _least(size)) * (common // count)
        # What was seen is one of the ways too: no p is 0.
        below, above = ((1 + np.sum(sign * drawn <= sign * seen)) / (1 + DRAWS) for sign in (1, -1))
    return min(1.0, 2 * float(min(below, above)))


def _doubled_ranks(x: Seeds, y: Seeds) -> Int64[np.ndarray, " runs"]:
    """Twice the ranks of all seeds of a task, ours first: whole numbers, also where seeds are tied."""
    scores = np.concatenate([x, y])
    each = scores[:, None]
    return 2 * (each > scores).sum(axis=1) + (each == scores).sum(axis=1) + 1


def _least(size: int) -> int:
    """The least sum of so many doubled ranks; what is above it is twice the number of wins."""
    return size * (size + 1)


def _ways(doubled: Int64[np.ndarray, " runs"], size: int) -> Float64[np.ndarray, " sums"]:
    """For each sum of doubled ranks, in how many ways so many seeds can be chosen that have it."""
    most = int(np.sort(doubled)[-size:].sum())
    ways = np.zeros((size + 1, most + 1))
    ways[0, 0] = 1
    for rank in doubled.tolist():
        # From the most chosen to the fewest: a seed is chosen once.
        for chosen in range(size, 0, -1):
            ways[chosen, rank:] += ways[chosen - 1, : most + 1 - rank]
    return ways[size]


def _spread(ways: Float64[np.ndarray, " sums"], by: int) -> Float64[np.ndarray, " wider"]:
    """The same counts, so many places apart."""
    wide = np.zeros((len(ways) - 1) * by + 1)
    wide[::by] = ways
    return wide


def direction(improvement: Interval | None, p: float, sizes: Sequence[tuple[int, int]]) -> Direction:
    """What seeds allow to say of the first method: both the interval and the permutation test must agree.

    improvement:  the interval of the probability of improvement.
    p:            see `permutation_p`.
    sizes:        for each task, the seeds of either.
    """
    if improvement is None or too_few(sizes):
        return "too few seeds"
    low, high = improvement
    if p >= RARE or low <= 0.5 <= high:
        return "alike"
    return "better" if low > 0.5 else "worse"


def compared(ours: Sequence[Seeds], theirs: Sequence[Seeds], seed: int = 0) -> Direction:
    """The same from the scores of the seeds of each task."""
    _, interval = probability_of_improvement(ours, theirs, seed)
    sizes = [(len(x), len(y)) for x, y in zip(ours, theirs, strict=True)]
    return direction(interval, permutation_p(ours, theirs, seed), sizes)
