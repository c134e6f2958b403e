"""The scores of one method on one task: of each of its seeds, and what they come to, up to its own end."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64

from gobi.analysis import statistics
from gobi.analysis.grouping import Group, Method
from gobi.analysis.meanings import STATISTICS
from gobi.analysis.statistics import Interval
from gobi.envs.dmc import is_control

Seeds = Float64[np.ndarray, " seeds"]
Fates = Bool[np.ndarray, " times"]

POINTS = 101
"""Points at which curves are drawn; the statistics use the rows of the runs themselves."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One number of a comparison.

    task, method:  which; the task may be "all tasks".
    other:         the method that it is compared with; empty otherwise.
    statistic:     see `meanings.STATISTICS`.
    value:         inf for a time that never came, or with `at_least` did not by `frames`.
    low, high:     its 95 % interval; None where there is none.
    seeds:         how many it comes from; of both methods together in a comparison.
    frames:        over how many, or after how many; None where tasks differ in them.
    at_least:      whether the truth can only be larger, as some seeds were not watched to their end.
    """

    task: str
    method: str
    other: str
    statistic: str
    value: float
    low: float | None
    high: float | None
    seeds: int
    frames: float | None = None
    at_least: bool = False


@dataclasses.dataclass(frozen=True)
class Line:
    """A method's learning curve on a task, or over all of them.

    frames:      where; over all tasks the share of each task's common frames, 0 to 1.
    middle:      the mean over seeds, or the interquartile mean over seeds and tasks.
    low, high:   its bootstrap interval; None where there is none.
    seeds:       the curve of each seed; empty over all tasks.
    """

    task: str
    method: Method
    frames: Float64[np.ndarray, " points"]
    middle: Float64[np.ndarray, " points"]
    low: Float64[np.ndarray, " points"] | None
    high: Float64[np.ndarray, " points"] | None
    seeds: Float64[np.ndarray, "seeds points"]


@dataclasses.dataclass(frozen=True)
class Task:
    """What the runs of a task are measured with.

    horizon:    the frames that all methods have: only over these do their areas compare.
    threshold:  of the metric; None if there is none.
    best:       the best return known.
    """

    name: str
    horizon: float
    threshold: float | None
    best: float | None


class Scored:
    """A group with the scores of its seeds.

    limit:    the frames that it was asked for; inf if it was not.
    end:      the frames that all of its seeds have, or the limit.
    final:    of each seed, at the end.
    area:     of each seed, over the task's common frames.
    watched:  how far each seed was watched: to its own last frame, or to the limit if that is earlier.
    times:    when each seed reached the threshold, or until when it was watched in vain; `solved` says which.
              May be empty.
    stayed:   whether it is there where its watch ends, too: a noisy mean may touch the threshold and fall.
    curves:   of each seed, up to the end.
    """

    def __init__(self, group: Group, task: Task, seed: int, limit: float = math.inf):
        self.group, self.task, self.seed, self.limit = group, task, seed, limit
        self.end = group.end if math.isinf(limit) else limit
        self.final, self.area = self.after(self.end), self.area_over(task.horizon)
        self.watched = np.array([min(limit, one.end) for one in group.curves])
        self.times, self.solved, self.stayed = self._reached()
        self.curves = self.curves_over(self.end)

    @functools.cached_property
    def rows(self) -> list[Row]:
        """What the scores come to."""
        return [*self._means(), *self._times(), *self._success(), *self._clock()]

    def until(self, end: float) -> Scored:
        """The same runs as if they had been stopped there."""
        return self if end == self.limit else Scored(self.group, self.task, self.seed, end)

    def to_the_last(self) -> Scored:
        """The same runs to the end of the longest seed; one that ends before stays where it was then."""
        return self.until(max(one.end for one in self.group.curves))

    def after(self, frames: float | int) -> Seeds:
        """The metric of each seed after so many frames."""
        return np.array([np.interp(frames, one.frames, one.values) for one in self.group.curves])

    def area_over(self, frames: float) -> Seeds:
        """The mean of each seed's metric over the first so many frames."""
        curves = self.group.curves
        return np.array([statistics.area_under_curve(one.frames, one.values, frames) for one in curves])

    def curves_over(self, frames: float) -> Float64[np.ndarray, "seeds points"]:
        """The curve of each seed at points from the first to the last of so many frames."""
        points = np.linspace(0.0, frames, POINTS)
        return np.array([np.interp(points, one.frames, one.values) for one in self.group.curves])

    def line(self) -> Line:
        """The learning curve: the mean over seeds."""
        band = statistics.bootstrap_band([self.curves], statistics.mean, self.seed) or (None, None)
        middle, points = statistics.mean(self.curves.T), np.linspace(0.0, self.end, POINTS)
        return Line(self.task.name, self.group.method, points, middle, *band, self.curves)

    def _row(
        self,
        statistic: str,
        value: float,
        interval: Interval | None = None,
        frames: float | None = None,
        at_least: bool = False,
    ) -> Row:
        low, high = interval or (None, None)
        label, seeds = self.group.method.label, len(self.final)
        if frames is None:
            frames = self.task.horizon if statistic == "area" else self.end
        return Row(self.task.name, label, "", statistic, value, low, high, seeds, frames, at_least)

    def _means(self) -> list[Row]:
        plain, robust = statistics.mean, statistics.interquartile_mean
        wanted = ("final", self.final, plain), ("final_iqm", self.final, robust), ("area", self.area, plain)
        return [
            self._row(name, float(kind(scores)), statistics.bootstrap([scores], kind, self.seed))
            for name, scores, kind in wanted
        ]

    def _reached(self) -> tuple[Float64[np.ndarray, " times"], Fates, Fates]:
        threshold = self.task.threshold
        if threshold is None:
            return np.empty(0), np.empty(0, bool), np.empty(0, bool)
        times, solved = zip(*(one.reached(threshold, self.limit) for one in self.group.curves), strict=True)
        # Beyond the last frame of a seed its curve is level.
        return np.array(times), np.array(solved), np.array(solved) & (self.after(self.limit) >= threshold)

    def _never(self) -> bool:
        """Whether most seeds had all their frames in vain: the others may end as they will."""
        ended = [bool(run.card.get("finished")) for run in self.group.runs for _ in run.seeds]
        whole = np.array([one.end <= self.limit for one in self.group.curves])
        return float((np.array(ended) & whole & ~self.solved).mean()) > 0.5

    def _times(self) -> list[Row]:
        """How soon the threshold was reached, each seed watched to its own end; nothing without one."""
        times, solved = self.times, self.solved
        if not len(times):
            return []
        end = float(self.watched.max())
        survival = statistics.kaplan_meier(times, solved)
        share = float(solved.mean())
        mean, around = statistics.restricted_mean(times, solved, end, self.seed)
        # Of seeds that all failed the resamples know no other end: that is no certainty.
        known = bool(solved.any()) and len(times) > 1
        within = survival.median_interval if known else None
        undecided = math.isinf(survival.median) and not self._never()
        # Up to the lower median of all times it is seen that more than half of the seeds were not there.
        sure = float(np.sort(times)[(len(times) - 1) // 2])
        return [
            self._row("solved", share, _wilson(share, len(times)), end),
            self._row("solved_at_end", float(self.stayed.mean()), None, end),
            self._row("frames_mean", mean, around if known else None, end, at_least=share < 1),
            self._row("frames_median", survival.median, within, sure if undecided else end, undecided),
        ]

    def _success(self) -> list[Row]:
        """The rate of success at the end, whatever the metric is; not where nothing is solved."""
        last = []
        if is_control(self.task.name):
            return []
        for run in self.group.runs:
            # Gymnasium's tasks need not tell whether they were solved.
            if not np.isfinite(run.columns.get("success", np.array(np.nan))).any():
                return []
            for seed in run.seeds:
                mine = (run.columns["seed"] == seed) & np.isfinite(run.columns["success"])
                frames, values = run.across(run.columns["frames"][mine]), run.columns["success"][mine]
                last.append(np.interp(self.end, frames, values, left=0.0) if mine.any() else 0.0)
        share = min(1.0, float(np.mean(last)))
        return [self._row("success", share, _wilson(share, len(last)))]

    def _clock(self) -> list[Row]:
        """Wall-clock of training; a run's seeds share it."""
        seconds, steps = 0.0, 0.0
        for run in self.group.runs:
            if "seconds" not in run.columns or not np.isfinite(run.columns["seconds"]).all():
                return []
            one = run.columns["seed"] == run.seeds[0]
            frames = run.steps(self.end)
            seconds += float(np.interp(frames, run.columns["frames"][one], run.columns["seconds"][one]))
            steps += frames * len(run.seeds)
        if not seconds:
            return []
        return [self._row("seconds", seconds), self._row("steps_per_second", steps / seconds)]


def summed_up(name: str, method: Method, chosen: Sequence[Scored], normalised: bool) -> list[Row]:
    """The rows of one method over several tasks, all over the frames that all methods of a task have.

    They rank methods: one that went on for longer is not better for it.

    name:        of all these tasks together.
    normalised:  scores are shares of the best return known of their task.
    """
    chosen = [one.until(one.task.horizon) for one in chosen]
    seeds, rows = sum(len(one.final) for one in chosen), []

    def add(statistic: str, value: float, interval: Interval | None = None) -> None:
        rows.append(Row(name, method.label, "", statistic, value, *(interval or (None, None)), seeds))

    robust = statistics.interquartile_mean
    for score in ("final", "area"):
        scores = [getattr(one, score) / scale(one, normalised) for one in chosen]
        interval = statistics.bootstrap(scores, robust, chosen[0].seed)
        add(f"{score}_iqm", float(robust(np.concatenate(scores))), interval)
    parts = {key: [row for one in chosen for row in one.rows if row.statistic == key] for key in STATISTICS}
    for key in ("solved", "solved_at_end", "success"):
        if len(parts[key]) == len(chosen):
            share = min(1.0, sum(row.value * row.seeds for row in parts[key]) / seeds)
            add(key, share, _wilson(share, seeds) if key != "solved_at_end" else None)
    if len(parts["seconds"]) == len(chosen):
        add("seconds", sum(row.value for row in parts["seconds"]))
    return rows


def summed_line(name: str, method: Method, chosen: Sequence[Scored], normalised: bool) -> Line:
    """The learning curve of one method over several tasks: the interquartile mean over seeds and tasks.

    It ends where the shortest method of each task does, so that all methods have the same axis.
    """
    robust = statistics.interquartile_mean
    curves = [one.curves_over(one.task.horizon) / scale(one, normalised) for one in chosen]
    band = statistics.bootstrap_band(curves, robust, chosen[0].seed) or (None, None)
    middle = robust(np.concatenate(curves).T)
    return Line(name, method, np.linspace(0.0, 1.0, POINTS), middle, *band, np.empty((0, POINTS)))


def scale(one: Scored, normalised: bool) -> float:
    """What scores of a task are divided by before they meet those of other tasks."""
    return (one.task.best or 1.0) if normalised else 1.0


def _wilson(share: float, seeds: int) -> Interval | None:
    return statistics.wilson(share, seeds) if seeds > 1 else None
