"""One method against another: on the tasks that both have, over the frames that both have there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from gobi.analysis import chance, statistics
from gobi.analysis.chance import Direction
from gobi.analysis.grouping import Method
from gobi.analysis.scores import Row, Scored
from gobi.analysis.statistics import Seeds

SHARED = "tasks of both"
"""Those that a pair of methods has, if several."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """What two methods come to beside each other, and what that allows to say of the first.

    task:     the task that both have, or `SHARED`.
    ends:     the frames that both have, on each of the tasks.
    rows:     the numbers.
    verdict:  by the areas, over all tasks.
    on:       the same on each task alone.
    losses:   tasks on which seeds of the first have the larger area less often than not.
    wins:     and more often than not.
    """

    mine: Method
    other: Method
    task: str
    ends: list[float]
    rows: list[Row]
    verdict: Direction
    on: list[Direction]
    losses: int
    wins: int

    @property
    def disagree(self) -> bool:
        """Whether each is better on some task: then there is no winner, whatever the mean over tasks is."""
        return "better" in self.on and "worse" in self.on

    @property
    def decided(self) -> bool:
        """Whether one of the two is better."""
        return self.verdict in ("better", "worse") and not self.disagree


def against(
    mine: Method, other: Method, scored: Mapping[tuple[str, Method], Scored], seed: int
) -> Pair | None:
    """One method against another; None if they have no task in common."""
    both = [
        (one, scored[task, other])
        for (task, method), one in scored.items()
        if method == mine and (task, other) in scored
    ]
    if not both:
        return None
    name = SHARED if len(both) > 1 else both[0][0].task.name
    ends = [min(a.end, b.end) for a, b in both]
    seeds, frames = sum(len(a.final) + len(b.final) for a, b in both), ends[0] if len(ends) == 1 else None

    def row(statistic: str, value: float, edges: statistics.Interval | None = None) -> Row:
        low, high = edges or (None, None)
        return Row(name, mine.label, other.label, statistic, value, low, high, seeds, frames)

    def scores(seen: Callable[[Scored, float], Seeds]) -> tuple[list[Seeds], list[Seeds]]:
        ours = [seen(a, end) for (a, _), end in zip(both, ends, strict=True)]
        return ours, [seen(b, end) for (_, b), end in zip(both, ends, strict=True)]

    areas, finals = scores(Scored.area_over), scores(Scored.after)
    rows = [
        row("improvement_area", *statistics.probability_of_improvement(*areas, seed)),
        row("improvement_final", *statistics.probability_of_improvement(*finals, seed)),
        row("permutation_area", chance.permutation_p(*areas, seed)),
    ]
    each = [([x], [y]) for x, y in zip(*areas, strict=True)]
    on: list[Direction] = [chance.compared(x, y, seed) for x, y in each]
    shares = [statistics.probability_of_improvement(x, y, resamples=1)[0] for x, y in each]
    losses, wins = sum(share < 0.5 for share in shares), sum(share > 0.5 for share in shares)
    return Pair(mine, other, name, ends, rows, chance.compared(*areas, seed), on, losses, wins)
