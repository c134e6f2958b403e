"""A study: runs that differ in one thing, so that one can see what it does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from gobi.analysis.grouping import Peeks
from gobi.envs.dmc import tasks as control
from gobi.envs.minigrid import registry
from gobi.errors import GobiError, unknown


@dataclasses.dataclass(frozen=True)
class Cell:
    """Where an arm stands among those of a search over two settings.

    method:       whose settings they are: a table of its own.
    row, column:  what they are set to, as the table's headings have it.
    """

    method: str
    row: str
    column: str


@dataclasses.dataclass(frozen=True)
class Arm:
    """Runs that differ in their seeds only.

    name:     what it is called in folders, tables and legends.
    task:     the task's id.
    changes:  fields of the recipe that differ from our own for the task.
    recipe:   or from another one.
    cell:     where it stands in a search over two settings; None where there is none.
    """

    name: str
    task: str
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    recipe: str = "gobi"
    cell: Cell | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The changes, and the learner of the paper's figures, IMPALA, where no other is asked for."""
        paper = {} if control.is_control(self.task) else {"learner": "impala"}
        return {**paper, **self.changes}

    @property
    def reward(self) -> str:
        """The reward that it is trained with."""
        return self.changes.get("reward", "gobi")

    @property
    def folder(self) -> str:
        """Where its runs lie within the study's folder."""
        return f"{short(self.task)}/{self.name}"


@dataclasses.dataclass(frozen=True)
class Study:
    """A figure of the paper, or one that it should have had.

    title:   what is compared.
    source:  where the paper shows it; empty where it does not.
    arms:    what is trained.
    seeds:   as many as in the paper.
    maps:    frames at which to draw where the agents go, by the folder of the arm.
    peeks:   whether `gobi compare` counts looks without a step as frames.
    axes:    what the rows and the columns of a search over two settings stand for; empty where there is none.
    """

    title: str
    source: str
    arms: tuple[Arm, ...]
    seeds: int = 4
    maps: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    peeks: Peeks = "free"
    axes: tuple[str, ...] = ()

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, each once."""
        return tuple(dict.fromkeys(arm.task for arm in self.arms))

    def only(self, tasks: Sequence[str], arms: Sequence[str], rewards: Sequence[str] = ()) -> Study:
        """The part of it on some tasks, with some of its arms or rewards; all where none are named."""
        asked = [self._find(task) for task in tasks]
        names = list(dict.fromkeys(arm.name for arm in self.arms))
        for name in arms:
            if name not in names:
                raise unknown("arm", name, names)
        has = list(dict.fromkeys(arm.reward for arm in self.arms))
        for name in rewards:
            if name not in has:
                raise GobiError(f"this study has no runs with the reward '{name}': it has {', '.join(has)}")
        kept = tuple(
            arm
            for arm in self.arms
            if (not asked or arm.task in asked)
            and (not arms or arm.name in arms)
            and (not rewards or arm.reward in rewards)
        )
        if not kept:
            raise GobiError("none of the study's runs is of all that: these tasks, these arms, these rewards")
        return dataclasses.replace(self, arms=kept)

    def _find(self, name: str) -> str:
        """The full id of one of its tasks."""
        try:
            task = find(name)
        except GobiError:
            raise unknown("task of this study", name, map(short, self.tasks)) from None
        if task not in self.tasks:
            raise GobiError(f"this study has no runs on {task}: it has {', '.join(self.tasks)}")
        return task


def find(task: str) -> str:
    """The full id of a task, on a grid or of control."""
    return control.find(task).id if control.is_control(task) else registry.find(task)


def short(task: str) -> str:
    """A task's id without what goes without saying, for folders and sentences."""
    return control.short(task) if control.is_control(task) else registry.short(task)


def crossed(tasks: Sequence[str], arms: Mapping[str, Mapping[str, Any]]) -> tuple[Arm, ...]:
    """Every arm on every task."""
    return tuple(Arm(name, task, changes) for task in tasks for name, changes in arms.items())
