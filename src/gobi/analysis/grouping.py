"""Which runs belong together: the same method on the same task, told by their cards and recipes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64

from gobi.analysis import curves
from gobi.envs.dmc import TASKS as SPARSE
from gobi.envs.dmc import is_control
from gobi.envs.host import is_host
from gobi.errors import GobiError, unknown
from gobi.training.recipe import kind_of

NOTHING_YET = ("return", "success")
"""Metrics that are 0 while nothing was learned, as a rule: before an episode ended, and in pre-training."""

NEVER_A_METHOD = (
    "task", "recipe", "reward", "bank", "count_room", "snapshots", "evaluate_every", "evaluation_episodes",
)  # fmt: skip
"""Fields of a recipe that do not make another method: its task and name, room for it, how it is measured."""

DEFAULT_RECIPE = "gobi"
"""Goes without saying."""

PEEKS_COUNTED = ("peeks", "counted")
"""What tells a method whose peeks count as frames from the same one with its peeks free."""

Peeks = Literal["free", "counted", "both"]
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
class Method:
    """What is compared: `settings` are those in which it differs from others of the same base."""

    reward: str
    recipe: str
    world: str
    settings: tuple[tuple[str, str], ...]
    label: str


@dataclasses.dataclass(frozen=True)
class Curve:
    """One seed's metric, pre-training included: level at 0 during it if the metric is one of NOTHING_YET."""

    seed: int
    frames: Float64[np.ndarray, " points"]
    values: Float64[np.ndarray, " points"]


@dataclasses.dataclass(frozen=True)
class Group:
    """The runs of one method on one task, and the curves of all their seeds."""

    task: str
    method: Method
    runs: tuple[Run, ...]
    curves: tuple[Curve, ...]


def group(paths: Sequence[Path], metric: str, peeks: Peeks = "free") -> list[Group]:
    """The runs at these paths by task and method, in the order in which they were found.

    What cannot be compared is refused: no card, the same seed twice, methods without a task in common.

    peeks:  looks without a step cost nothing; or count as frames; or the runs that have some come twice, as
            two methods.
    """
    runs = find(paths)
    for run in runs:
        if metric not in run.columns or metric in ("seed", "frames"):
            raise unknown("metric", metric, [name for name in run.columns if name not in ("seed", "frames")])
    _refuse_two_versions(runs)
    methods = _methods(runs)
    found: dict[tuple[str, Method], list[Run]] = {}
    for run, method in _priced(runs, methods, peeks):
        found.setdefault((run.card["task"], method), []).append(run)
    groups = [
        Group(task, method, tuple(members), curves_of(members, metric))
        for (task, method), members in found.items()
    ]
    _refuse_strangers(groups)
    return groups


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
        written = json.loads(file.read_bytes())
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


def _methods(runs: Sequence[Run]) -> list[Method]:
    """The method of each run. Settings make a method only where runs of one base and task differ in them."""
    telling: dict[Base, list[str]] = {}
    for same in _by(runs, lambda run: (run.base, run.card["task"])).values():
        names = telling.setdefault(same[0].base, [])
        names += [name for name in _differing(same) if name not in names]
    kinds = [(run.base, _told_by(run, telling[run.base])) for run in runs]
    known = list(dict.fromkeys(kinds))
    return [Method(*base, settings, _label(base, settings, known)) for base, settings in kinds]


def _priced(runs: Sequence[Run], methods: Sequence[Method], peeks: Peeks) -> Iterator[tuple[Run, Method]]:
    """Each run with its method, once or twice: as peeks are free, or count where there are any."""
    for run, method in zip(runs, methods, strict=True):
        if peeks == "free" or not run.peeks:
            yield run, method
            continue
        if peeks == "both":
            yield run, method
        settings, label = (*method.settings, PEEKS_COUNTED), f"{method.label} {'='.join(PEEKS_COUNTED)}"
        counted = dataclasses.replace(method, settings=settings, label=label)
        yield dataclasses.replace(run, counted=True), counted


def _differing(runs: Sequence[Run]) -> list[str]:
    """The settings in which runs of one base on one task differ."""
    if len({run.card.get("recipe_digest") for run in runs}) == 1:
        return []
    for run in runs:
        if run.settings is None:
            raise GobiError(
                f"{run.name} differs in its settings from others that are called {run.card['reward']} on "
                f"{run.card['task']}, and has no readable recipe.json to say in which"
            )
    names = dict.fromkeys(name for run in runs for name in run.settings or {})
    # The learning rate falls to zero over the planned frames; without that, their number changes nothing.
    linear = any((run.settings or {}).get("learning_rate_decay") == "linear" for run in runs)
    ignored = NEVER_A_METHOD if linear else (*NEVER_A_METHOD, "frames")
    return [name for name in names if name not in ignored and len({_text(run, name) for run in runs}) > 1]


def _told_by(run: Run, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    if names and run.settings is None:
        raise GobiError(f"{run.name} has no readable recipe.json: its {names[0]} is not known")
    return tuple((name, _text(run, name)) for name in names)


def _text(run: Run, name: str) -> str:
    value = (run.settings or {}).get(name)
    return value if isinstance(value, str) else json.dumps(value)


def _label(base: Base, settings: tuple[tuple[str, str], ...], known: Iterable[tuple[Base, Any]]) -> str:
    """The reward's name, and as much more as tells the method from the others of that reward."""
    reward, recipe, world = base
    rivals = {other for other, _ in known if other[0] == reward}
    words = [reward]
    if len({other[1] for other in rivals}) > 1 and recipe != DEFAULT_RECIPE:
        words.append(recipe)
    if len({other[2] for other in rivals if other[1] == recipe}) > 1:
        words.append(world)
    return " ".join([*words, *(f"{name}={value}" for name, value in settings)])


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
    if metric in NOTHING_YET and _begins_at_nothing(run):
        first = np.array([0.0, run.pretraining])[: 1 + (run.pretraining > 0)]
        values = np.concatenate([np.zeros(len(first)), values[known]])
        kept = np.concatenate([first, frames[known]])
        # Where no episode ends any more the last mean stands, to the end of the run.
        return Curve(seed, np.append(kept, frames[-1]), np.append(values, values[-1]))
    if not known.any():
        raise GobiError(f"{run.name} has no value of {metric} for seed {seed}")
    return Curve(seed, np.append(frames[known], frames[-1]), np.append(values[known], values[known][-1]))


def _begins_at_nothing(run: Run) -> bool:
    """Whether who has not learned earns nothing: on grids, and on the sparse ones of the control tasks.

    Elsewhere the first known value stands for what was before.
    """
    task = run.card["task"]
    return task in SPARSE or not (is_control(task) or is_host(task))


def _refuse_two_versions(runs: Sequence[Run]) -> None:
    for task, same in _by(runs, lambda run: run.card["task"]).items():
        versions = {str(run.card.get("task_version", "")): run.name for run in same}
        if len(versions) > 1:
            (a, one), (b, other), *_ = versions.items()
            raise GobiError(f"{task} is not the same task in {one} ('{a}') and in {other} ('{b}')")


def _refuse_strangers(groups: Sequence[Group]) -> None:
    """Methods, but no two of them on one task."""
    tasks = _by(groups, lambda one: one.task)
    labels = {one.method.label: one.task for one in groups}
    if len(labels) > 1 and max(map(len, tasks.values())) == 1:
        (a, one), (b, other), *_ = labels.items()
        raise GobiError(
            f"nothing to compare: no task has two methods ({a} ran on {one}, {b} on {other}); "
            "compare them one by one, or add runs"
        )


def _by(items: Iterable[Any], key: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found
