"""Runs of studies, made without training: the recipe of an arm, and straight lines for curves."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from compared_runs import make_run

from gobi.reproduce import STUDIES, Arm
from gobi.training import recipes
from gobi.training.control import recipes as control

SLOW = (6e6, 6.5e6, 7e6, 7.5e6)
FAST = (2e6, 2.5e6, 3e6, 3.5e6)


def find_arm(study: str, name: str, task: str = "") -> Arm:
    return next(arm for arm in STUDIES[study].arms if arm.name == name and task in ("", arm.task))


def make_arm(
    folder: Path, study: str, name: str, *, task: str = "", compact: bool = False, **options: Any
) -> Path:
    """A run with the recipe of an arm.

    changes:  fields of the recipe that are to be others.
    """
    arm, changes = find_arm(study, name, task), options.pop("changes", {})
    if arm.task.startswith("dmc/"):
        recipe = control.recipe(arm.task, options.get("recipe", arm.recipe), **{**arm.changes, **changes})
    elif compact:
        recipe = recipes.compact(recipes.recipe(arm.task, arm.recipe), **{**arm.settings, **changes})
    else:
        recipe = recipes.recipe(arm.task, options.get("recipe", arm.recipe), **{**arm.settings, **changes})
    settings = dataclasses.asdict(recipe)
    own = {key: settings.pop(key) for key in ("task", "recipe", "frames", "reward")}
    return make_run(folder, settings=settings, **{**own, **options})
