"""Two-sample tests in plain NumPy: chi-square, Kolmogorov-Smirnov, and Holm's correction for many of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64, Shaped

LEAST_EXPECTED = 5.0
"""Below this expected count the chi-square distribution is no good approximation."""


class Outcome(NamedTuple):
    """What a test found: its statistic, and how likely one as large is if the two samples are alike."""

    statistic: float
    p: float


def chi_square(first: Shaped[np.ndarray, " m"], second: Shaped[np.ndarray, " n"]) -> Outcome:
    """Whether two samples of a categorical feature come from the same distribution.

    Categories too rare to be expected five times in the smaller sample are put together, see `_pooled`.
    With a single category left there is nothing to tell apart, and p is 1.
    """
    names, category = np.unique(np.concatenate([first, second]), return_inverse=True)
    counts = np.stack(
        [np.bincount(part, minlength=len(names)) for part in np.split(category, [len(first)])]
    ).astype(np.int64)
    counts = _pooled(counts)
    if counts.shape[1] < 2:
        return Outcome(0.0, 1.0)
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return Outcome(statistic, upper_gamma((counts.shape[1] - 1) / 2, statistic / 2))


def kolmogorov_smirnov(first: Float[np.ndarray, " m"], second: Float[np.ndarray, " n"]) -> Outcome:
    """Whether two samples of a quantity come from the same distribution.

    The asymptotic p with Stephens' correction for small samples. Where values are tied, as whole numbers
    are, the true p is smaller than the one given: the test errs on the side of calling samples alike.
    """
    values = np.unique(np.concatenate([first, second]))
    below = [np.searchsorted(np.sort(part), values, side="right") / len(part) for part in (first, second)]
    statistic = float(np.max(np.abs(below[0] - below[1])))
    size = math.sqrt(len(first) * len(second) / (len(first) + len(second)))
    return Outcome(statistic, kolmogorov((size + 0.12 + 0.11 / size) * statistic))


def holm(p: Float64[np.ndarray, " tests"]) -> Float64[np.ndarray, " tests"]:
    """Holm's adjusted p-values: call those below alpha different, and the chance that any of these verdicts
    is wrong is at most alpha.
    """
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return adjusted


def upper_gamma(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function Q(a, x).

    The tail of a chi-square distribution is Q(degrees of freedom / 2, statistic / 2).
    """
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        return max(0.0, 1.0 - scale * _lower_series(a, x))
    return scale * _upper_fraction(a, x)


def kolmogorov(x: float) -> float:
    """The tail of the Kolmogorov distribution, by whichever of its two series converges at once."""
    if x < 0.05:
        # 1 - 1e-200; the first series would divide by zero.
        return 1.0
    if x < 1:
        powers = [math.exp(-((2 * k - 1) ** 2) * math.pi**2 / (8 * x * x)) for k in range(1, 6)]
        return 1.0 - math.sqrt(2 * math.pi) / x * sum(powers)
    return 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 8))


def _pooled(counts: Int64[np.ndarray, "2 categories"]) -> Int64[np.ndarray, "2 groups"]:
    """Puts rare categories together until each group is expected five times in either sample.

    Rare neighbours in the order of the categories go together, not all rare ones: cells side by side stay
    a place, and the test keeps its power. What goes together depends on the sum of both samples alone, so
    a test of samples that are alike stays honest.
    """
    total = counts.sum(0)
    least = LEAST_EXPECTED * counts.sum() / counts.sum(1).min()
    common = total >= least
    groups = [counts[:, common]]
    gathered, rare = np.zeros((2, 1), np.int64), counts[:, ~common]
    for column in range(rare.shape[1]):
        gathered = gathered + rare[:, column : column + 1]
        if gathered.sum() >= least:
            groups.append(gathered)
            gathered = np.zeros((2, 1), np.int64)
    pooled = np.concatenate(groups, axis=1)
    if gathered.sum() == 0:
        return pooled
    if pooled.shape[1] == 0:
        return gathered
    # The remainder joins the last group of rare ones, or else the rarest of the common categories.
    home = -1 if len(groups) > 1 else int(np.argmin(pooled.sum(0)))
    pooled[:, home] += gathered[:, 0]
    return pooled


def _lower_series(a: float, x: float) -> float:
    """The sum of x**n / (a (a + 1) ... (a + n))."""
    term = total = 1 / a
    denominator = a
    while abs(term) > abs(total) * 1e-16:
        denominator += 1
        term *= x / denominator
        total += term
    return total


def _upper_fraction(a: float, x: float) -> float:
    """Legendre's continued fraction for the upper tail, evaluated from the front by Lentz's method."""
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    value = d
    for n in range(1, 100_000):
        numerator = -n * (n - a)
        b += 2
        d = 1 / (numerator * d + b or tiny)
        c = b + numerator / c or tiny
        step = c * d
        value *= step
        if abs(step - 1) < 1e-15:
            break
    return value
