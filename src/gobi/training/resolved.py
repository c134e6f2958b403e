"""The options of a run's rewards as they come out, those of the code's defaults among them.

A recipe names only the options that were given. What the others were is written down when a run begins, so
that it does not go on as another method once a default has changed.
"""

from __future__ import annotations

from typing import Any

from gobi.rewards import registry as rewards
from gobi.rewards.control import registry as control_rewards
from gobi.rewards.control.reachability import PICTURE_OPTIONS
from gobi.training import assembly
from gobi.training.any_recipe import AnyRecipe
from gobi.training.control.recipe import ControlRecipe
from gobi.training.recipe import Recipe

Options = dict[str, dict[str, Any]]
"""Of each reward by its id: its options and their values."""


def options(recipe: Any) -> Options:
    """All options of the rewards that a recipe pays. A reward of one's own is pinned by its file instead."""
    if isinstance(recipe, ControlRecipe):
        return _of_control(recipe)
    if isinstance(recipe, Recipe):
        return _on_grids(recipe)
    if rewards.find(recipe.reward).make is None:
        return {}
    chosen = rewards.options(recipe.reward, recipe.reward_options)
    return {recipe.reward: {**rewards.defaults(recipe.reward), **chosen}}


def changed(kept: Options | None, recipe: AnyRecipe) -> list[str]:
    """The options that come out otherwise now than when a run began, each with both values.

    kept:  what was written down then; None, of runs from before that was done, tells nothing.
    """
    if kept is None:
        return []
    before, after = _flat(kept), _flat(options(recipe))
    return [
        f"{name}: {before.get(name, 'not there')} -> {after.get(name, 'not there')}"
        for name in dict.fromkeys([*before, *after])
        if (name in before) != (name in after) or before.get(name) != after.get(name)
    ]


def _on_grids(recipe: Recipe) -> Options:
    alone = rewards.find(recipe.reward).make is not None
    if not alone and recipe.reward not in ("gobi", "r2", "r3"):
        return {}
    named = (recipe.reward, recipe.reward_options) if alone else (recipe.lifelong, recipe.lifelong_options)
    # Built as it is for training: counts take some of theirs from fields of the recipe.
    made = assembly.single(recipe, *named, coding=None)
    return {named[0]: {option: getattr(made, option) for option in rewards.defaults(named[0])}}


def _of_control(recipe: ControlRecipe) -> Options:
    pairs = {recipe.reward: recipe.reward_options}
    if recipe.reward == "gobi":
        pairs |= {recipe.lifelong: recipe.lifelong_options}
    whole = {
        name: {**control_rewards.defaults(name), **control_rewards.options(name, text)}
        for name, text in pairs.items()
    }
    if recipe.observations == "state":
        # Of states there is one way to make codes, and nothing to choose.
        whole = {
            name: {option: value for option, value in chosen.items() if option not in PICTURE_OPTIONS}
            for name, chosen in whole.items()
        }
    return {name: chosen for name, chosen in whole.items() if chosen}


def _flat(tree: Options) -> dict[str, Any]:
    return {f"{reward} {name}": value for reward, chosen in tree.items() for name, value in chosen.items()}
