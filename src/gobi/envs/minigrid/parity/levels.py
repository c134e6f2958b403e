"""Whether our levels have the same distribution as Farama's: all features tested, Holm over all of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import jax
import numpy as np
from jaxtyping import Int64, Shaped

from gobi.envs.minigrid import oracle
from gobi.envs.minigrid.bank import numbered_levels
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.multiroom import MultiRoom
from gobi.envs.minigrid.parity import statistics
from gobi.envs.minigrid.parity.features import features
from gobi.envs.minigrid.solver import solvable
from gobi.envs.minigrid.state import State, nth
from gobi.errors import GobiError

ALPHA = 0.01
"""A task fails if an adjusted p-value is below this, twice."""
RERUN_FACTOR = 10
MANY_ROOMS = 8
"""Farama starts a MultiRoom level over until all rooms fit; with more than these, that takes long."""

ROW_COLUMNS = ("feature", "test", "statistic", "p", "adjusted p")
SUMMARY_COLUMNS = (
    "task", "levels", "features", "smallest adjusted p", "of",
    "unsolvable, ours", "unsolvable, Farama's", "verdict",
)  # fmt: skip

Sample = dict[str, Shaped[np.ndarray, " _"]]
"""Each feature of a number of levels; the two samples of a comparison may differ in number."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One feature's test.

    p:           as if it were the only test.
    adjusted_p:  Holm's, over all features of the task.
    """

    feature: str
    test: str
    statistic: float
    p: float
    adjusted_p: float


@dataclasses.dataclass(frozen=True)
class LevelReport:
    """How the levels of a task compare with Farama's.

    levels:             how many of either source.
    seed:               of both sources.
    tests:              one row a feature, the most different first.
    unsolvable:         the share of our levels that no sequence of actions solves.
    unsolvable_farama:  the same of Farama's.
    first:              the comparison that failed, if this is the one with more levels that followed.
    """

    task: str
    levels: int
    seed: int
    tests: tuple[Row, ...]
    unsolvable: float
    unsolvable_farama: float
    first: LevelReport | None = None

    @property
    def smallest(self) -> float:
        """The smallest adjusted p-value; 1 where every level is the same in both sources."""
        return min((row.adjusted_p for row in self.tests), default=1.0)

    @property
    def passed(self) -> bool:
        """Whether no adjusted p-value is below ALPHA in this comparison; `first` does not count."""
        return self.smallest >= ALPHA

    def rows(self) -> list[tuple[str, ...]]:
        """The tests as text, under ROW_COLUMNS."""
        return [
            (row.feature, row.test, f"{row.statistic:.4g}", f"{row.p:.3g}", f"{row.adjusted_p:.3g}")
            for row in self.tests
        ]

    def summary(self) -> tuple[str, ...]:
        """The whole comparison as one line of text, under SUMMARY_COLUMNS."""
        verdict = "same" if self.passed else "DIFFERENT"
        if self.first is not None:
            failed = self.first.tests[0]
            verdict += (
                f" (rerun: with {self.first.levels} levels '{failed.feature}' had {failed.adjusted_p:.2g})"
            )
        return (
            self.task,
            f"{self.levels:,}",
            f"{len(self.tests)}",
            f"{self.smallest:.3g}",
            self.tests[0].feature if self.tests else "",
            f"{self.unsolvable:.2%}",
            f"{self.unsolvable_farama:.2%}",
            verdict,
        )


def affordable(env: MiniGrid, levels: int) -> int:
    """How many levels to compare where `levels` are asked for: a tenth, if Farama is slow to make them."""
    generator = env.generator
    is_slow = isinstance(generator, MultiRoom) and generator.rooms > MANY_ROOMS
    return max(1, levels // 10) if is_slow else levels


def compare_levels(
    env: MiniGrid, levels: int, seed: int = 0, progress: Callable[[str], None] = lambda message: None
) -> LevelReport:
    """Compares levels of both sources; if a feature differs, once more, and then the second result counts.

    The second time has ten times the levels, so that a real difference shows clearly, and another seed, so
    that a chance one does not come back.

    `progress` is told in a few words what is being done.
    """
    report = compare_once(env, levels, seed, progress)
    if report.passed:
        return report
    progress(f"'{report.tests[0].feature}' differs: once more, with {RERUN_FACTOR} times the levels")
    again = compare_once(env, levels * RERUN_FACTOR, seed + 1, progress)
    return dataclasses.replace(again, first=report)


def compare_once(
    env: MiniGrid, levels: int, seed: int = 0, progress: Callable[[str], None] = lambda message: None
) -> LevelReport:
    """Compares the first levels of a seed with as many that Farama makes from the same seed. No rerun."""
    if levels < 1 or seed < 0:
        raise GobiError(f"a comparison needs levels >= 1 and seed >= 0, got {levels} and {seed}")
    samples: list[Sample] = []
    for name, source in (("ours", _our_levels), ("Farama's", oracle.farama_levels)):
        progress(f"{env.spec.id}: {levels:,} levels, {name}")
        samples.append(_described(env, source(env, seed, levels)))
    ours, theirs = samples
    return LevelReport(
        task=env.spec.id,
        levels=levels,
        seed=seed,
        tests=tested(ours, theirs),
        unsolvable=1 - float(np.mean(ours["solvable"])),
        unsolvable_farama=1 - float(np.mean(theirs["solvable"])),
    )


def tested(ours: Sample, theirs: Sample) -> tuple[Row, ...]:
    """Tests every feature and adjusts for their number, the most different first.

    Integers are tested by chi-square, floating-point numbers by Kolmogorov-Smirnov. Two kinds of features say
    nothing new and do not count in Holm's family: those with one and the same value in all levels of both
    sources, and those that are another one under other names (a ball's cell, where the ball is the target).
    """
    rows = []
    for name, one, other in _informative(ours, theirs):
        if _is_quantity(one):
            test, outcome = "Kolmogorov-Smirnov", statistics.kolmogorov_smirnov(one, other)
        else:
            test, outcome = "chi-square", statistics.chi_square(one, other)
        rows.append(Row(name, test, outcome.statistic, outcome.p, adjusted_p=outcome.p))
    adjusted = statistics.holm(np.array([row.p for row in rows], np.float64))
    rows = [
        dataclasses.replace(row, adjusted_p=float(value)) for row, value in zip(rows, adjusted, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: row.p))


def markdown(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table for the documentation."""
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _informative(ours: Sample, theirs: Sample) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The features that can tell something, each with both samples."""
    seen: set[bytes] = set()
    for name, one in ours.items():
        other = theirs[name]
        if np.all(one == one[0]) and np.all(other == one[0]):
            continue
        code = _renamed(np.concatenate([one, other])).tobytes()
        if code not in seen:
            seen.add(code)
            yield name, one, other


def _renamed(values: Shaped[np.ndarray, " levels"]) -> Int64[np.ndarray, " levels"]:
    """The values under new names: categories by where they turn up first, quantities by their order."""
    _, first, renamed = np.unique(values, return_index=True, return_inverse=True)
    if _is_quantity(values):
        return -1 - renamed
    return np.argsort(np.argsort(first))[renamed]


def _is_quantity(values: Shaped[np.ndarray, " levels"]) -> bool:
    return np.issubdtype(values.dtype, np.floating)


def _described(env: MiniGrid, levels: State) -> Sample:
    """All features of the levels, and whether each can be solved."""
    levels = jax.tree.map(np.asarray, levels)
    can_be_solved = [solvable(nth(levels, number)) for number in range(len(levels.direction))]
    return features(env.generator, levels) | {"solvable": np.array(can_be_solved, np.int64)}


def _our_levels(env: MiniGrid, seed: int, count: int) -> State:
    return numbered_levels(env, seed, 0, count)
