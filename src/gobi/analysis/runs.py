"""Runs as they lie on the disk: their metrics, card and recipe, and the curves of their seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from gobi.analysis import curves, statistics
from gobi.envs.dmc import TASKS as SPARSE
from gobi.envs.dmc import is_control
from gobi.envs.host import is_host
from gobi.errors import GobiError
from gobi.training.episodes import KEPT, MEASURES
from gobi.training.files import parse_json
from gobi.training.recipe import kind_of

NOTHING_YET = ("return", "success")
"""Metrics that are 0 while nothing was learned, as a rule: before an episode ended, and in pre-training."""

Base = tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run, and what says how it was made.

    name:      as much of its path as tells it from the others.
    columns:   its metrics.
    card:      its card.
    settings:  its recipe, with today's defaults for fields that it has not; None if it left none behind.
    folder:    where it lies.
    counted:   whether its peeks count as frames; see `per_frame`.
    """

    name: str
    columns: dict[str, np.ndarray]
    card: dict[str, Any]
    settings: dict[str, Any] | None
    folder: Path
    counted: bool = False

    @property
    def base(self) -> Base:
        """Reward, recipe and world: what a method is, to begin with."""
        return self.card["reward"], self.card["recipe"], self.card["world"]

    @property
    def seeds(self) -> list[int]:
        """The seeds that have rows."""
        return np.unique(self.columns["seed"]).tolist()

    @property
    def peeks(self) -> float:
        """Looks without a step, for each step: 3 where a panorama was read, 0 where none was."""
        steps, looks = self.card.get("frames") or 0, self.card.get("peeks") or 0
        if "panorama" in self.card.get("privileged", ()) and not (steps and looks):
            raise GobiError(f"{self.name} looked around, and its card does not tell how often")
        return looks / steps if steps else 0.0

    @property
    def per_frame(self) -> float:
        """What one of its steps counts: 1, or with its peeks counted as many as it looks."""
        return 1.0 + self.peeks if self.counted else 1.0

    @property
    def end(self) -> float:
        """Its last frame, of the seed that has the most."""
        return float(self.across(self.columns["frames"]).max())

    @property
    def planned(self) -> float | None:
        """Where its recipe ends it, on the axis of frames; None if that is not known."""
        frames = (self.settings or {}).get("frames")
        return None if frames is None else self.pretraining + frames * self.per_frame

    @property
    def pretraining(self) -> float:
        """Frames that were spent before the first of the metrics. Random play looks around as well."""
        return self.card.get("pretraining_frames", 0) * self.per_frame

    def across(self, steps: np.ndarray) -> Float64[np.ndarray, " points"]:
        """Where steps of training lie on the axis of frames."""
        return self.pretraining + steps.astype(np.float64) * self.per_frame

    def steps(self, frames: float) -> float:
        """The steps of training that were done at a point of the axis of frames."""
        return (frames - self.pretraining) / self.per_frame


@dataclasses.dataclass(frozen=True)
class Curve:
    """One seed's metric, pre-training included: level at 0 during it if the metric is one of NOTHING_YET.

    settled:  which points may count as having reached a threshold, see `_settled`.
    """

    seed: int
    frames: Float64[np.ndarray, " points"]
    values: Float64[np.ndarray, " points"]
    settled: Bool[np.ndarray, " points"]

    @property
    def end(self) -> float:
        """Its last frame."""
        return float(self.frames[-1])

    def reached(self, threshold: float, horizon: float) -> tuple[float, bool]:
        """When it was first at the threshold, and True; or where it was watched in vain until, and False.

        It is watched to the horizon, and no further than it goes itself.
        """
        frames, values = self.frames[self.settled], self.values[self.settled]
        return statistics.first_reached(frames, values, threshold, min(horizon, self.end))


def find(paths: Sequence[Path]) -> list[Run]:
    """The runs at these paths, see `curves.metrics_files`."""
    files = curves.metrics_files(paths)
    return [_read(file, name) for file, name in zip(files, _names(files), strict=True)]


def _read(file: Path, name: str) -> Run:
    (run,) = curves.find([file])
    missing = [field for field in ("task", "reward", "recipe", "world") if field not in run.card]
    if missing:
        raise GobiError(
            f"{name} has no card.json that tells its {missing[0]}: what it was trained on is not known"
        )
    return Run(name, run.columns, run.card, _settings(file.parent / "recipe.json"), file.parent)


def _settings(file: Path) -> dict[str, Any] | None:
    try:
        written = parse_json(file.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(written, dict):
        return None
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(kind_of(str(written.get("task", ""))))
        if field.default is not dataclasses.MISSING
    }
    return {**defaults, **written}


def _names(files: Sequence[Path]) -> list[str]:
    """The folders' paths from the first part in which they differ."""
    folders = [file.parent.parts for file in files]
    if len(folders) == 1:
        return [folders[0][-1]]
    shared = 0
    while len({parts[shared : shared + 1] for parts in folders}) == 1:
        shared += 1
    return ["/".join(parts[shared:]) or parts[-1] for parts in folders]


def curves_of(runs: Sequence[Run], metric: str) -> tuple[Curve, ...]:
    """The curves of all seeds of runs of one method on one task; a seed counts only once."""
    made: dict[int, tuple[Curve, Run]] = {}
    for run in runs:
        for seed in run.seeds:
            if seed in made:
                raise GobiError(
                    f"seed {seed} of {run.card['reward']} on {run.card['task']} is both in "
                    f"{made[seed][1].name} and in {run.name}: a seed counts only once"
                )
            made[seed] = _curve(run, seed, metric), run
    return tuple(curve for curve, _ in made.values())


def _curve(run: Run, seed: int, metric: str) -> Curve:
    mine = run.columns["seed"] == seed
    order = np.argsort(run.columns["frames"][mine], kind="stable")
    frames = run.across(run.columns["frames"][mine][order])
    values = run.columns[metric][mine][order]
    known = np.isfinite(values)
    settled = _settled(run, metric)[mine][order]
    if metric in NOTHING_YET and _begins_at_nothing(run):
        first = np.array([0.0, run.pretraining])[: 1 + (run.pretraining > 0)]
        values = np.concatenate([np.zeros(len(first)), values[known]])
        kept = np.concatenate([first, frames[known]])
        settled = np.concatenate([np.ones(len(first), bool), settled[known]])
        # Where no episode ends any more the last mean stands, to the end of the run.
        return _to_the_end(seed, kept, values, settled, frames[-1])
    if not known.any():
        raise GobiError(f"{run.name} has no value of {metric} for seed {seed}")
    return _to_the_end(seed, frames[known], values[known], settled[known], frames[-1])


def _to_the_end(
    seed: int, frames: np.ndarray, values: np.ndarray, settled: np.ndarray, end: np.float64
) -> Curve:
    """A curve that is level from its last point on."""
    return Curve(seed, np.append(frames, end), np.append(values, values[-1]), np.append(settled, settled[-1]))


def _settled(run: Run, metric: str) -> Bool[np.ndarray, " rows"]:
    """The rows whose mean is over as many episodes as it is said to be.

    Before, it is that of a few lucky ones: until a lane has been through a longest episode, only those end
    that solve the task. A row of a control task is an evaluation, whole from the first on.
    """
    episodes = run.columns.get("episodes")
    if episodes is None or metric not in MEASURES or is_control(run.card["task"]):
        return np.ones(len(run.columns["frames"]), bool)
    # Not a number, in runs that do not tell, is not below anything.
    return ~(episodes < KEPT)


def _begins_at_nothing(run: Run) -> bool:
    """Whether who has not learned earns nothing: on grids, and on the sparse ones of the control tasks.

    Elsewhere the first known value stands for what was before.
    """
    task = run.card["task"]
    return task in SPARSE or not (is_control(task) or is_host(task))
