"""Which arms can be set beside each other: those that have frames in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gobi.analysis.grouping import Group

NAMED = 3
"""Arms that are named where one would do."""


def together(groups: Mapping[str, Group]) -> tuple[dict[str, Group], dict[str, str]]:
    """As many arms of a task as have frames in common, and of each other one why it is not among them.

    An arm that ends before another's pre-training does, as short runs do, cannot be set beside it.
    """
    begins = {name: max(run.pretraining for run in one.runs) for name, one in groups.items()}

    def beside(latest: float) -> list[str]:
        return [name for name, one in groups.items() if begins[name] <= latest < one.end]

    latest = max(begins.values(), key=lambda at: (len(beside(at)), at), default=0.0)
    kept = beside(latest)
    apart = {}
    for name in (name for name in groups if name not in kept):
        rivals = [one for one in kept if groups[one].end <= begins[name] or groups[name].end <= begins[one]]
        apart[name] = f"no frames in common with {_named(groups[one].method.label for one in rivals)}"
    return {name: groups[name] for name in kept}, apart


def listed(words: Iterable[str]) -> str:
    """Words as a sentence has them."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _named(words: Iterable[str]) -> str:
    """The first few of them, and how many more there are."""
    names = list(words)
    more = len(names) - NAMED
    return listed([*names[:NAMED], *[f"{more} more"] * (more > 0)] or ["any other"])
