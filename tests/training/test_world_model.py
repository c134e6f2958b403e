"""The world of a run: what it was trained on before, and what the run says about that."""

from __future__ import annotations

import equinox as eqx
import jax
import pytest

import gobi
from gobi.training import assembly, recipes, world_model
from gobi.worlds import from_settings

TASK = "MiniGrid-MultiRoom-N2-S4-v0"


def pretrained(epochs: int):
    recipe = recipes.compact(recipes.recipe(TASK), pretrain_frames=300, pretrain_epochs=epochs)
    made = world_model.pretrain(recipe, gobi.make(TASK), lambda *_: None)
    init, *_ = jax.random.split(jax.random.key(world_model.SEED), 4)
    return made, from_settings(assembly.model_settings(recipe), init)


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_world_is_what_it_was_initially_only_if_it_is_never_trained(epochs):
    made, initial = pretrained(epochs)
    same = [
        bool((mine == before).all())
        for mine, before in zip(*map(leaves, (made.network, initial)), strict=True)
    ]
    assert all(same) == (epochs == 0)
    assert (made.frames > 0) == (epochs > 0)
    assert made.report is not None


def leaves(network):
    return jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))
