"""Which runs belong together: the same method on the same task, told by their cards and recipes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from gobi.analysis.runs import Base, Curve, Run, curves_of, find
from gobi.errors import GobiError, unknown
from gobi.training import named

NEVER_A_METHOD = (
    "task", "recipe", "reward", "bank", "count_room", "snapshots", "evaluate_every", "evaluation_episodes",
)  # fmt: skip
"""Fields of a recipe that do not make another method: its task and name, room for it, how it is measured."""

BY_TASK = ("frames", "decay", "coefficient")
"""Fields of a recipe that it has otherwise on every task."""

DEFAULT_RECIPE = "gobi"
"""Goes without saying."""

PEEKS_COUNTED = ("peeks", "counted")
"""What tells a method whose peeks count as frames from the same one with its peeks free."""

Peeks = Literal["free", "counted", "both"]


@dataclasses.dataclass(frozen=True)
class Method:
    """What is compared: `settings` are those in which it differs from others of the same base."""

    reward: str
    recipe: str
    world: str
    settings: tuple[tuple[str, str], ...]
    label: str


@dataclasses.dataclass(frozen=True)
class Group:
    """The runs of one method on one task, and the curves of all their seeds."""

    task: str
    method: Method
    runs: tuple[Run, ...]
    curves: tuple[Curve, ...]

    @property
    def end(self) -> float:
        """The frames that all of its seeds have."""
        return min(float(curve.frames[-1]) for curve in self.curves)


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


def _methods(runs: Sequence[Run]) -> list[Method]:
    """The method of each run. Settings make a method only where runs of one base and task differ in them."""
    telling: dict[Base, list[str]] = {}
    for same in _by(runs, lambda run: (run.base, run.card["task"])).values():
        names = telling.setdefault(same[0].base, [])
        names += [name for name in _differing(same) if name not in names]
    kinds = [(run.base, _told_by(run, telling[run.base])) for run in runs]
    known = list(dict.fromkeys(kinds))
    return [
        Method(*base, settings, _label(base, _worth_saying(run, settings), known))
        for run, (base, settings) in zip(runs, kinds, strict=True)
    ]


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


def _worth_saying(run: Run, settings: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Where several settings tell methods apart, only those that are not as the recipe has them."""
    if len(settings) < 2:
        return settings
    try:
        # Control tasks have another recipe from the state than from pixels, and each learner has its own.
        others = "observations", "learner"
        seen = {name: value for name, value in (run.settings or {}).items() if name in others}
        usual = named.recipe(run.card["task"], run.card["recipe"], reward=run.card["reward"], **seen)
    except GobiError:
        return settings
    defaults = dataclasses.asdict(usual)
    return tuple(
        (name, text)
        for name, text in settings
        if name in BY_TASK or name not in defaults or text != _as_text(defaults[name])
    )


def _text(run: Run, name: str) -> str:
    return _as_text((run.settings or {}).get(name))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _label(base: Base, settings: tuple[tuple[str, str], ...], known: Iterable[tuple[Base, Any]]) -> str:
    """The reward's name, and as much more as tells the method from the others of that reward."""
    reward, recipe, world = base
    rivals = {other for other, _ in known if other[0] == reward}
    words = [reward]
    if len({other[1] for other in rivals}) > 1 and recipe != DEFAULT_RECIPE:
        words.append(recipe)
    if len({other[2] for other in rivals if other[1] == recipe}) > 1:
        words.append("world=none" if world == "none" else world)
    # Options that were not given go without saying.
    return " ".join([*words, *(f"{name}={value}" for name, value in settings if value)])


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
