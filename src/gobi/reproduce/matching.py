"""Which arm of a study a run is: told by its recipe, with what is otherwise in it."""

from __future__ import annotations

import dataclasses
from typing import Any

from gobi.analysis.comparison import millions
from gobi.analysis.grouping import NEVER_A_METHOD
from gobi.analysis.runs import Run
from gobi.envs.dmc import is_control
from gobi.reproduce.study import Arm, Study
from gobi.training import recipes
from gobi.training.control import recipes as control

FRAMES = " frames"
"""How the word for another length ends."""
COMPACT = "compact networks"
"""What a study on grids is trained with where there is no accelerator."""
STATE = "state observations"
"""What one can train on control tasks where there is none."""

Setting = tuple[str, ...]
"""In what a run is not as its study asks for, in words; empty if it is."""
Asked = list[tuple[Setting, dict[str, Any]]]
"""The recipes that an arm may have, and what to say of each."""


def may_be(run: Run, arm: Arm, varied: set[str]) -> bool:
    """Whether a look at a run's task and at what the study is about does not rule the arm out."""
    settings = run.settings
    if settings is None or run.card["task"] != arm.task or settings["reward"] != arm.reward:
        return False
    own = all(settings[name] == value for name, value in arm.changes.items() if name in varied)
    return own and run.card["recipe"] in (control.NAMES if is_control(arm.task) else recipes.NAMES)


def setting(run: Run, asked: Asked, varied: set[str]) -> Setting | None:
    """In what a run differs from an arm; None if it is not that arm.

    What the arms of a study differ in must be the arm's own. All else may be otherwise: that is the setting.
    """
    settings, found = run.settings or {}, []
    for words, recipe in asked:
        others = [name for name in recipe if name not in NEVER_A_METHOD and settings[name] != recipe[name]]
        if not set(others) & varied:
            found.append((*words, *(_said(name, settings[name]) for name in others)))
    return min(found, key=len, default=None)


def asked(arm: Arm, recipe: str) -> Asked:
    """The arm's recipe, and how it is on a machine without an accelerator."""
    on_control = is_control(arm.task)
    words: Setting = (f"recipe {recipe}",) if recipe != arm.recipe else ()
    whole = (control if on_control else recipes).recipe(arm.task, recipe, **arm.settings)
    found: Asked = [(words, dataclasses.asdict(whole))]
    if on_control:
        seen = control.recipe(
            arm.task, recipe, **{"reward": arm.reward, **arm.changes, "observations": "state"}
        )
        found.append(((*words, STATE), dataclasses.asdict(seen)))
    elif recipe == "gobi":
        small = recipes.compact(recipes.recipe(arm.task, recipe), **arm.settings)
        found.append(((*words, COMPACT), dataclasses.asdict(small)))
    return found


def kept_as_asked(run: Run, arm: Arm) -> bool:
    """Whether a run has what an arm asks for that makes no other method of it, such as its snapshots."""
    asked = {name: value for name, value in arm.changes.items() if name in NEVER_A_METHOD}
    return all((run.settings or {}).get(name) == value for name, value in asked.items())


def varied(study: Study) -> set[str]:
    """The fields of a recipe that a study is about: never how runs are measured, as by how many snapshots."""
    names = {name for arm in study.arms for name in arm.changes}.difference(NEVER_A_METHOD)
    return {name for name in names if len({repr(arm.changes.get(name)) for arm in study.arms}) > 1}


def _said(name: str, value: Any) -> str:
    return f"{millions(value)}{FRAMES}" if name == "frames" else f"{name}={value}"
