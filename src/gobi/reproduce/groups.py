"""The runs of arms put together: each seed once, and which arms have frames in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from gobi.analysis.grouping import PEEKS_COUNTED, Group, Method
from gobi.analysis.runs import Run, curves_of
from gobi.errors import GobiError

METRIC = "return"
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


def of_arm(name: str, runs: Sequence[Run]) -> Group:
    """The runs of an arm together, each seed once."""
    chosen = _each_seed_once(runs)
    method = Method(*chosen[0].base, (), arm_name(name))
    return Group(chosen[0].card["task"], method, tuple(chosen), curves_of(chosen, METRIC))


def of_arms(runs: Mapping[str, Sequence[Run]], counted: bool) -> tuple[dict[str, Group], dict[str, str]]:
    """The runs of each arm together, and why there are none of it where they cannot be.

    counted:  whether arms that take looks without a step come again, with each of these a frame.
    """
    groups, apart = {}, {}
    for name, found in runs.items():
        try:
            groups[name] = of_arm(name, found)
        except GobiError as error:
            apart[name] = str(error)
            continue
        if counted:
            again = f"{name} {'='.join(PEEKS_COUNTED)}"
            try:
                if any(run.peeks for run in groups[name].runs):
                    groups[again] = of_arm(again, [dataclasses.replace(run, counted=True) for run in found])
            except GobiError as error:
                apart[again] = str(error)
    return groups, apart


def _each_seed_once(runs: Sequence[Run]) -> list[Run]:
    """Runs that have no seed in common: finished ones first, then those of more seeds, then longer ones."""

    def preference(run: Run) -> tuple[bool, int, float]:
        return not run.card.get("finished"), -len(run.seeds), -float(run.columns["frames"].max())

    kept: list[Run] = []
    for run in sorted(runs, key=preference):
        if not any(set(run.seeds) & set(other.seeds) for other in kept):
            kept.append(run)
    return kept


def arm_name(arm: str) -> str:
    """The name of an arm without its study's."""
    return arm.rpartition("/")[2]


def listed(words: Iterable[str]) -> str:
    """Words as a sentence has them."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _named(words: Iterable[str]) -> str:
    """The first few of them, and how many more there are."""
    names = list(words)
    more = len(names) - NAMED
    return listed([*names[:NAMED], *[f"{more} more"] * (more > 0)] or ["any other"])
