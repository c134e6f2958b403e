"""Learner settings: the checks that recipes with an on-policy learner share."""

from __future__ import annotations

import dataclasses
from typing import Any

from gobi.agents import registry
from gobi.errors import GobiError


def refuse_what_the_learner_cannot(recipe: Any) -> None:
    """Refuses numbers out of range, sizes that do not divide, and settings that the learner does not read."""
    mine = registry.settings(recipe.learner)
    others = {name for other in registry.LEARNERS for name in registry.settings(other)}
    for field in dataclasses.fields(recipe):
        unread = field.name in others and field.name not in mine
        if unread and getattr(recipe, field.name) != field.default:
            raise GobiError(f"{field.name} is not a setting of the learner {recipe.learner}")
    if recipe.decay >= 1:
        raise GobiError(f"decay must be below 1, got {recipe.decay}")
    if recipe.discount > 1:
        raise GobiError(f"discount must be at most 1, got {recipe.discount}")
    recipe.refuse_below(1, "epochs", "minibatches")
    recipe.refuse_below(0, "gae_lambda", "clip_ratio", "bonus_discount", "imitation_rows", "imitation_cost")
    if 0 < recipe.imitation_rows < recipe.num_envs:
        raise GobiError(
            f"imitation_rows={recipe.imitation_rows} has no room for a rollout of "
            f"num_envs={recipe.num_envs}; 0 is no self-imitation"
        )
    if recipe.imitation_rows and recipe.values == "one":
        raise GobiError(
            "self-imitation compares returns with the task's own value: imitation_rows needs values=two"
        )
    if max(recipe.gae_lambda, recipe.bonus_discount) > 1:
        raise GobiError(
            "gae_lambda and bonus_discount must be at most 1, "
            f"got {recipe.gae_lambda} and {recipe.bonus_discount}"
        )
    if recipe.num_envs % recipe.minibatches:
        raise GobiError(
            f"a minibatch has whole environments: num_envs={recipe.num_envs} cannot be split into "
            f"minibatches={recipe.minibatches}"
        )
    if recipe.entropy_decay == "linear" and recipe.learning_rate_decay == "none":
        raise GobiError(
            "entropy_decay=linear falls with the learning rate: not with learning_rate_decay=none"
        )
