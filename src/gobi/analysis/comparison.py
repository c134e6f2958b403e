"""A comparison of runs: every statistic of every method on every task, each to its own end, and curves."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gobi.analysis.grouping import Group, Method, Peeks, group
from gobi.analysis.overlaps import overlapping
from gobi.analysis.pairs import Pair, against
from gobi.analysis.runs import Run
from gobi.analysis.scores import Line, Row, Scored, Task, summed_line, summed_up
from gobi.envs.dmc import is_control
from gobi.envs.minigrid.registry import bare
from gobi.errors import GobiError

ALL = "all tasks"
"""Those over which methods are summed up."""
SHARE_OF_BEST = 0.9
"""The default threshold: of the best return known, or of all episodes."""
MOST_LISTED = 8
"""Names of runs in a note; of more, only how many there are."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """All of it.

    metric:      what is compared.
    seed:        of the bootstrap.
    peeks:       whether looks without a step count as frames, see `grouping.group`.
    groups:      the runs, by task and method.
    tasks:       by name, in the order found; so are the methods.
    common:      tasks that every method has.
    summed:      those of them over which methods are summed up, see `_to_sum_up`; none, or several.
    normalised:  whether summed-up scores are shares of the best return known.
    rows:        every number.
    lines:       every learning curve.
    pairs:       each two methods that have a task in common.
    """

    metric: str
    seed: int
    peeks: Peeks
    groups: list[Group]
    tasks: dict[str, Task]
    methods: list[Method]
    common: list[str]
    summed: list[str]
    normalised: bool
    rows: list[Row]
    lines: list[Line]
    pairs: list[Pair]

    def row(self, task: str, method: str, statistic: str, other: str = "") -> Row | None:
        """One number, if there is such."""
        for row in self.rows:
            if (row.task, row.method, row.other, row.statistic) == (task, method, other, statistic):
                return row
        return None

    def runs(self, task: str) -> list[Run]:
        """All runs on a task, each once."""
        found: dict[str, Run] = {}
        for one in self.groups:
            for run in one.runs if one.task == task else ():
                found.setdefault(run.name, run)
        return list(found.values())

    def to_csv(self) -> str:
        """All numbers, one a line."""
        headings = [field.name for field in dataclasses.fields(Row)]
        return _csv(["metric", *headings], ([self.metric, *dataclasses.astuple(row)] for row in self.rows))

    def curves_to_csv(self) -> str:
        """What is drawn: the line and the band of each method at each point."""
        points = (
            [line.task, line.method.label, *point]
            for line in self.lines
            for point in zip(line.frames, line.middle, *map(_edge, (line.low, line.high)), strict=False)
        )
        return _csv(["task", "method", "frames", self.metric, "low", "high"], points)


def compare(
    paths: Sequence[Path],
    metric: str = "return",
    threshold: float | None = None,
    seed: int = 0,
    peeks: Peeks = "free",
) -> Comparison:
    """Compares the runs at these paths.

    metric:     a column of metrics.csv of which more is better.
    threshold:  of the metric, on every task; by default 90 % of the best return known (or of all episodes).
    seed:       of the bootstrap.
    peeks:      whether looks without a step count as frames, see `grouping.group`.
    """
    groups = group(paths, metric, peeks)
    names = dict.fromkeys(one.task for one in groups)
    tasks = {name: task_of([one for one in groups if one.task == name], metric, threshold) for name in names}
    methods = list(dict.fromkeys(one.method for one in groups))
    common = [name for name in tasks if {g.method for g in groups if g.task == name} == set(methods)]
    summed, normalised = _to_sum_up([tasks[name] for name in common], metric)
    scored = {(one.task, one.method): Scored(one, tasks[one.task], seed) for one in groups}
    rows = [row for one in scored.values() for row in one.rows]
    lines = [one.line() for one in scored.values()]
    for method in methods if summed else ():
        chosen = [scored[name, method] for name in summed]
        rows += summed_up(ALL, method, chosen, normalised)
        lines.append(summed_line(ALL, method, chosen, normalised))
    each_two = itertools.combinations(methods, 2)
    pairs = [pair for mine, other in each_two if (pair := against(mine, other, scored, seed))]
    rows += [row for pair in pairs for row in pair.rows]
    return Comparison(
        metric, seed, peeks, groups, tasks, methods, common, summed, normalised, rows, lines, pairs
    )


def _to_sum_up(common: Sequence[Task], metric: str) -> tuple[list[str], bool]:
    """The tasks over which methods can be summed up, and whether as shares of the best return known.

    Returns of tasks with other ceilings are only of one kind as shares of what can be reached. Those of
    control tasks all have one ceiling: without others among them they stay as they are.
    """
    of_one_kind = all(is_control(task.name) for task in common)
    normalised = metric == "return" and (all(task.best for task in common) or not of_one_kind)
    chosen = [task.name for task in common if task.best or not normalised]
    return (chosen if len(chosen) > 1 else []), normalised


def notes(comparison: Comparison) -> list[str]:
    """What a reader must know before believing any of it, one sentence each."""
    found = []
    if len(comparison.methods) == 1:
        found.append("There is one method only, so there is nothing to compare: this page describes it.")
    if comparison.peeks != "free":
        found += _notes_on_peeks(comparison)
    for name, task in comparison.tasks.items():
        found += _notes_on(name, task, comparison)
    found += _notes_on_sums(comparison)
    devices = {str(run.card.get("device")) for one in comparison.groups for run in one.runs}
    if len(devices) > 1:
        found.append(f"Wall-clock is not comparable: the runs used {', '.join(sorted(devices))}.")
    return [*found, *_notes_on_clocks(comparison)]


def _notes_on_sums(comparison: Comparison) -> list[str]:
    """Which tasks are left out where methods are summed up over tasks."""
    tasks, common, summed = comparison.tasks, comparison.common, comparison.summed
    missing = [bare(name) for name in tasks if name not in common]
    unknown = [bare(name) for name in common if comparison.normalised and not tasks[name].best]
    used = f"over {len(summed)} of the {len(tasks)} tasks" if summed else "over none"
    found = []
    if len(tasks) > 1 and missing:
        found.append(
            f"Not every method has runs on {', '.join(missing)}: methods are summed up {used}; "
            "each pair of methods is compared on the tasks that both have."
        )
    if len(common) > 1 and unknown:
        found.append(
            f"The best return is not known on {', '.join(unknown)}, so returns there are on a scale of their "
            f"own: methods are summed up {used}."
        )
    return found


def _notes_on_clocks(comparison: Comparison) -> list[str]:
    """Whose wall-clock others may have lengthened."""
    runs = [run for name in comparison.tasks for run in comparison.runs(name)]
    busy = overlapping(runs)
    shared = [run.name for run in runs if run.card.get("beside")]
    beside = [run.name for run in runs if run.folder in busy and run.name not in shared]
    found = []
    if beside:
        found.append(
            "Wall-clock may be too long: runs that went on at the same time on a device of the same kind may "
            f"have shared it: {_listed(beside)}."
        )
    if shared:
        found.append(f"Wall-clock is a share of that of a pack, trained in one process: {_listed(shared)}.")
    return found


def _listed(names: Sequence[str]) -> str:
    """All of them, or of very many the first and how many more there are."""
    if len(names) <= MOST_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_LISTED])} and {len(names) - MOST_LISTED} more"


def _notes_on_peeks(comparison: Comparison) -> list[str]:
    """What each look costs, and whose help cannot be counted in looks."""
    each = [(f"'{one.method.label}'", run) for one in comparison.groups for run in one.runs]
    costs = {label: run.per_frame for label, run in each if run.counted}
    found = ["No run took a look without a step (a peek): there is nothing to count."]
    if costs:
        texts = [f"each step of {label} counts as {cost:g} frames" for label, cost in costs.items()]
        found = [f"Looks without a step (peeks) are counted: {', '.join(texts)}, in pre-training too."]
    beyond = {name: None for _, run in each for name in run.card.get("privileged", ()) if name != "panorama"}
    for name in beyond:
        readers = dict.fromkeys(label for label, run in each if name in run.card["privileged"])
        verb = "read" if len(readers) > 1 else "reads"
        found.append(f"Not to be counted in looks: {', '.join(readers)} {verb} the {name}.")
    return found


def _notes_on(name: str, task: Task, comparison: Comparison) -> list[str]:
    groups = [one for one in comparison.groups if one.task == name]
    found = []
    single = [f"'{one.method.label}'" for one in groups if len(one.curves) == 1]
    if single:
        found.append(f"{bare(name)}: one seed only of {', '.join(single)}, so no interval is possible.")
    if max(one.end for one in groups) > 1.05 * task.horizon:
        shortest = min(groups, key=lambda one: one.end)
        found.append(
            f"{bare(name)}: each method goes to its own end; areas are over the first "
            f"{millions(task.horizon)} frames, where '{shortest.method.label}' ends; each pair of methods is "
            "compared over the frames that both have."
        )
    settings = [run.settings for run in comparison.runs(name) if run.settings]
    planned = {mine["frames"] for mine in settings}
    # On control tasks the learning rate stays what it is.
    if len(planned) > 1 and not is_control(name):
        texts = ", ".join(millions(frames) for frames in sorted(planned))
        found.append(
            f"{bare(name)}: runs were planned for different lengths ({texts} frames), so at the same frame "
            "their learning rates may differ."
        )
    going = [f"{run.name} ({text})" for run in comparison.runs(name) if (text := unfinished([run]))]
    if going:
        found.append(f"{bare(name)}: not finished: {', '.join(going)}.")
    if comparison.metric == "return" and task.threshold is None:
        best = "nobody knows the best return" if is_control(name) else "its best return is not known"
        found.append(f"{bare(name)}: {best}, so frames to it need --threshold.")
    return found


def millions(frames: float | int) -> str:
    """A number of frames, for people."""
    if frames < 1e4:
        return f"{frames:,.0f}"
    return f"{frames / 1e3:.0f}k" if frames < 1e6 else f"{frames / 1e6:.2f}M"


def frames_of(group: Group) -> str:
    """The frames that all of its seeds have, and how far runs are that have not come to their end."""
    going = unfinished(group.runs)
    return f"{millions(group.end)}{f' (not finished: {going})' if going else ''}"


def unfinished(runs: Sequence[Run]) -> str:
    """How far the first of the runs is that has not come to its end, of how much; empty if all have."""
    going = [run for run in runs if not run.card.get("finished")]
    if not going:
        return ""
    first = min(going, key=lambda run: run.end)
    return f"{millions(first.end)}{f' of {millions(first.planned)}' if first.planned else ''}"


def task_of(groups: Sequence[Group], metric: str, threshold: float | None = None) -> Task:
    """What these runs on one task are measured with: frames that all have, and the threshold."""
    name = groups[0].task
    runs = [run for one in groups for run in one.runs]
    ends = {one.end: one.method.label for one in groups}
    begins = {float(run.pretraining): run.name for run in runs}
    horizon, latest = min(ends), max(begins)
    if horizon <= latest:
        raise GobiError(
            f"the runs on {name} have no frames in common: {ends[horizon]} ends at {horizon:,.0f}, where "
            f"{begins[latest]} was still in its {latest:,.0f} frames of pre-training"
        )
    best = next((run.card["best_return"] for run in runs if run.card.get("best_return")), None)
    if threshold is None:
        if metric == "return" and best:
            threshold = SHARE_OF_BEST * best
        elif metric == "success":
            threshold = SHARE_OF_BEST
    return Task(name, horizon, threshold, best)


def _edge(values: Any) -> Iterable[Any]:
    return itertools.repeat(None) if values is None else values


def _csv(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(["" if field is None else field for field in row] for row in rows)
    return file.getvalue()
