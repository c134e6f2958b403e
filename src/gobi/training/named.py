"""A whole recipe by its name, of whatever kind the task takes."""

from __future__ import annotations

from typing import Any

from gobi.envs import dmc, host
from gobi.training import recipes
from gobi.training.control import recipes as control_recipes
from gobi.training.control.recipe import ControlRecipe
from gobi.training.host import recipes as host_recipes
from gobi.training.host.recipe import HostRecipe
from gobi.training.recipe import Recipe

AnyTask = Recipe | ControlRecipe | HostRecipe


def recipe(task: str, name: str = "gobi", **changes: Any) -> AnyTask:
    """The recipe of that name, some fields changed.

    >>> recipe("KeyCorridorS3R3").frames, recipe("dmc/hopper_hop").frames
    (700000, 500000)
    """
    kinds = {Recipe: recipes, ControlRecipe: control_recipes, HostRecipe: host_recipes}
    return kinds[kind(task)].recipe(task, name, **changes)


def kind(task: str) -> type[AnyTask]:
    """The kind of recipe that a task takes; its name need not be the whole id."""
    if host.is_host(task):
        return HostRecipe
    return ControlRecipe if dmc.is_control(task) else Recipe
