"""A study: runs that differ in one thing, so that one can see what it does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from gobi.envs.minigrid import registry
from gobi.errors import GobiError, unknown


@dataclasses.dataclass(frozen=True)
class Arm:
    """Runs that differ in their seeds only.

    name:     what it is called in folders, tables and legends.
    task:     the task's id.
    changes:  fields of the recipe that differ from our own for the task.
    recipe:   or from another one.
    """

    name: str
    task: str
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    recipe: str = "gobi"

    @property
    def folder(self) -> str:
        """Where its runs lie within the study's folder."""
        return f"{registry.short(self.task)}/{self.name}"


@dataclasses.dataclass(frozen=True)
class Study:
    """A figure of the paper, or one that it should have had.

    title:   what is compared.
    source:  where the paper shows it; empty where it does not.
    arms:    what is trained.
    seeds:   as many as in the paper.
    maps:    frames at which to draw where the agents go, by the folder of the arm.
    """

    title: str
    source: str
    arms: tuple[Arm, ...]
    seeds: int = 4
    maps: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, each once."""
        return tuple(dict.fromkeys(arm.task for arm in self.arms))

    def only(self, tasks: Sequence[str], arms: Sequence[str]) -> Study:
        """The part of it on some tasks, and with some of its arms; all where none are named."""
        asked = [registry.find(task) for task in tasks]
        for task in asked:
            if task not in self.tasks:
                raise GobiError(f"this study has no runs on {task}: it has {', '.join(self.tasks)}")
        names = list(dict.fromkeys(arm.name for arm in self.arms))
        for name in arms:
            if name not in names:
                raise unknown("arm", name, names)
        kept = tuple(
            arm for arm in self.arms if (not asked or arm.task in asked) and (not arms or arm.name in arms)
        )
        if not kept:
            raise GobiError("none of the study's runs is both on these tasks and of these arms")
        return dataclasses.replace(self, arms=kept)


def crossed(tasks: Sequence[str], arms: Mapping[str, Mapping[str, Any]]) -> tuple[Arm, ...]:
    """Every arm on every task."""
    return tuple(Arm(name, task, changes) for task in tasks for name, changes in arms.items())
