"""Runs as evidence: which arm of which study a run is, told by its recipe and not by its folder.

A run may differ from what the study asks for: fewer frames, small networks, another precision. Arms are set
against each other only if they differ from it in the same way, their *setting*, and the setting is named.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gobi.analysis import curves
from gobi.analysis.comparison import task_of
from gobi.analysis.grouping import Group
from gobi.analysis.overlaps import overlapping
from gobi.analysis.runs import Run, find
from gobi.analysis.scores import Scored, Task
from gobi.errors import GobiError
from gobi.reproduce import matching
from gobi.reproduce.groups import METRIC, arm_name, listed, of_arm, of_arms, together
from gobi.reproduce.matching import COMPACT, FRAMES, Setting
from gobi.reproduce.studies import STUDIES
from gobi.reproduce.study import Study, short

Key = tuple[str, str, str]
"""Study, task and arm."""


class NotRun(Exception):
    """There are no such runs; the message says what is missing.

    missing:  the arms, each with its task, if that is all there is to say.
    """

    def __init__(self, message: str = "", missing: Iterable[tuple[str, str]] = ()):
        self.missing = list(dict.fromkeys(missing))
        super().__init__(message or _told(self.missing))


@dataclasses.dataclass(frozen=True)
class Compared:
    """Arms on one task, all in the same setting, each scored up to its own end.

    task:         threshold and common frames.
    arms:         the scores by the arms' names, as they were asked for.
    setting:      the setting.
    overlapping:  folders of runs that may have shared their device, so that their clocks say little.
    """

    task: Task
    arms: dict[str, Scored]
    setting: Setting
    overlapping: frozenset[Path] = frozenset()

    def __getitem__(self, arm: str) -> Scored:
        return self.arms[arm]

    def common(self, arm: str) -> Scored:
        """An arm up to where the first of all arms ends: so much of it can be set against the others."""
        return self[arm].until(self.task.horizon)

    @property
    def longest(self) -> float:
        """Where the last of the arms ends."""
        return max(scored.end for scored in self.arms.values())

    def to_its_end(self, arm: str) -> bool:
        """Whether an arm was trained for as long as the study asks for, so that it has had its chance."""
        short = any(word.endswith(FRAMES) for word in self.setting)
        return not short and all(run.card.get("finished") for run in self[arm].group.runs)

    @property
    def where(self) -> str:
        """The task, and the setting if there is something to say about it."""
        told = f" with {', '.join(self.setting)}" if self.setting else ""
        return f"{short(self.task.name)}{told}"


class Evidence:
    """All runs that were found, by the arms of the studies."""

    def __init__(self, runs: Iterable[Run], studies: Mapping[str, Study] | None = None):
        self.runs, self.studies = tuple(runs), STUDIES if studies is None else studies
        self.known: dict[Key, dict[Setting, list[Run]]] = {}
        self.overlapping = overlapping(self.runs)
        for name, study in self.studies.items():
            varied = matching.varied(study)
            for arm in study.arms:
                asked = functools.cache(functools.partial(matching.asked, arm))
                for run in self.runs:
                    if not matching.may_be(run, arm, varied):
                        continue
                    setting = matching.setting(run, asked(str(run.card["recipe"])), varied)
                    if setting is not None:
                        found = self.known.setdefault((name, arm.task, arm.name), {})
                        found.setdefault(setting, []).append(run)

    @functools.cache  # noqa: B019 - lives as long as the command
    def compared(self, task: str, *arms: str) -> Compared:
        """The arms on a task, each named STUDY/ARM; raises `NotRun` unless all were run in one setting.

        The setting that the studies ask for comes first, then the one with the most seeds; on control tasks
        what sees the state comes last, for the paper's agents see pixels.
        """
        missing = [arm for arm in arms if not self._settings(arm, task)]
        if missing:
            raise NotRun(missing=[(arm, task) for arm in missing])
        shared = set.intersection(*(set(self._settings(arm, task)) for arm in arms))
        if not shared:
            raise NotRun(
                f"the runs of {listed(map(arm_name, arms))} on {short(task)} differ in more than the study"
            )

        def preference(setting: Setting) -> tuple[Any, ...]:
            seeds = sum(len(run.seeds) for arm in arms for run in self._settings(arm, task)[setting])
            return len(setting) > 0, matching.STATE in setting, -seeds, setting

        chosen = min(shared, key=preference)
        try:
            return self._scored({arm: of_arm(arm, self._settings(arm, task)[chosen]) for arm in arms}, chosen)
        except GobiError as error:
            raise NotRun(str(error)) from None

    def of(self, task: str, arm: str, setting: Setting = ()) -> list[Run]:
        """All runs of an arm on a task in a setting, the same seeds made twice included."""
        return self._settings(arm, task).get(setting, [])

    def whole(
        self, study: str, task: str, place: Path | None = None
    ) -> tuple[Compared | None, dict[str, str]]:
        """As many arms of a study on a task as were run in one setting and can be set beside each other.

        And why each other one that was run in it cannot. Where the study counts looks as well, an arm that
        has some comes twice. None if there is no arm.

        place:  a setting of runs in this folder comes before all others.
        """
        there = {
            f"{study}/{arm.name}": self._settings(f"{study}/{arm.name}", task)
            for arm in self.studies[study].arms
            if arm.task == task
        }
        settings = {setting for found in there.values() for setting in found}
        if not settings:
            return None, {}

        def preference(setting: Setting) -> tuple[Any, ...]:
            mine = [found[setting] for found in there.values() if setting in found]
            inside = place and any(run.folder.is_relative_to(place.resolve()) for one in mine for run in one)
            return not inside, matching.STATE in setting, -len(mine), len(setting) > 0, setting

        chosen = min(settings, key=preference)
        groups, apart = of_arms(
            {arm: found[chosen] for arm, found in there.items() if chosen in found},
            counted=self.studies[study].peeks == "both",
        )
        groups, others = together(groups)
        return self._scored(groups, chosen) if groups else None, {**apart, **others}

    def finished(self, study: str) -> list[int]:
        """With how many different seeds the arms of a study came to their end, as it asks for them.

        Of arms with none there is no number. Networks that are compact, and nothing else, are as it asks for
        without an accelerator. Runs with other snapshots than its maps take are not.
        """
        numbers = []
        for arm in self.studies[study].arms:
            settings = self._settings(f"{study}/{arm.name}", arm.task)
            own = [
                [run for run in settings.get(one, ()) if matching.kept_as_asked(run, arm)]
                for one in ((), (COMPACT,))
            ]
            numbers.append(max(len(_finished(runs)) for runs in own))
        return [seeds for seeds in numbers if seeds]

    def begun(self, study: str) -> bool:
        """Whether there is a run of any of its arms, in whatever setting."""
        return any(name == study for name, _, _ in self.known)

    def _scored(self, groups: Mapping[str, Group], setting: Setting) -> Compared:
        task = task_of(list(groups.values()), METRIC)
        scores = {name: Scored(one, task, seed=0) for name, one in groups.items()}
        return Compared(task, scores, setting, self.overlapping)

    def _settings(self, arm: str, task: str) -> dict[Setting, list[Run]]:
        study, _, name = arm.partition("/")
        return self.known.get((study, task, name), {})


def gather(folders: Sequence[Path], told: Callable[[str], None] = lambda _: None) -> list[Run]:
    """All runs inside these folders that can be judged; folders without any are no error.

    told:  gets a sentence about each run that cannot be read, and is left out.
    """
    found = []
    for folder in folders:
        if any(folder.rglob("metrics.csv")):
            found += curves.metrics_files([folder])
    files = [file for file in dict.fromkeys(found) if _readable(file)]
    try:
        runs = find(files) if files else []
    except GobiError:
        files = [file for file in files if _whole(file, told)]
        runs = find(files) if files else []
    for run in runs:
        if not _of_one_task(run):
            told(f"left out: {run.name}/recipe.json is not the recipe of its card")
    return list(filter(_of_one_task, runs))


def _finished(runs: Iterable[Run]) -> set[int]:
    """The seeds of those runs that came to their end."""
    return {seed for run in runs if run.card.get("finished") for seed in run.seeds}


def _readable(file: Path) -> bool:
    """Whether there are rows yet, and a card."""
    with file.open() as lines:
        return (
            sum(1 for _, _ in zip(lines, range(2), strict=False)) == 2
            and (file.parent / "card.json").is_file()
        )


def _whole(file: Path, told: Callable[[str], None]) -> bool:
    """Whether a run can be read by itself; why not is told."""
    try:
        find([file])
    except GobiError as error:
        told(f"left out: {error}")
        return False
    return True


def _of_one_task(run: Run) -> bool:
    """Whether card and recipe, if there is one, are of the same run."""
    settings = run.settings
    return settings is None or ("frames" in settings and settings.get("task") == run.card["task"])


def _told(missing: Sequence[tuple[str, str]]) -> str:
    """No runs of these arms, arms that miss the same tasks together."""
    tasks: dict[str, tuple[str, ...]] = {}
    for arm, task in missing:
        tasks[arm_name(arm)] = (*tasks.get(arm_name(arm), ()), short(task))
    alike: dict[tuple[str, ...], list[str]] = {}
    for arm, where in tasks.items():
        alike.setdefault(tuple(dict.fromkeys(where)), []).append(arm)
    parts = [f"{listed(arms)} on {listed(where)}" for where, arms in alike.items()]
    return f"no runs of {'; '.join(parts)}"
