"""Every option of a recipe reaches the compiled loop, and rows say what went on."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import gobi
from gobi.errors import GobiError
from gobi.rewards import registry
from gobi.training import assembly, recipes, trainer
from gobi.training.recipe import Recipe
from gobi.training.trainer import Trainer
from gobi.worlds import from_settings

TASK = "MiniGrid-DoorKey-5x5-v0"
TINY = {
    "network": "compact",
    "model_size": "compact",
    "num_envs": 4,
    "unroll": 5,
    "bank": 512,
    "count_room": 64,
}

SINGLE = [name for name, entry in registry.REWARDS.items() if entry.make is not None]
OPTIONS = {
    "real, three steps": {"world": "real", "steps": 3},
    "learned, two steps": {"steps": 2},
    "sampled actions": {"sampled_actions": 10},
    "generative": {"model": "generative", "model_samples": 2},
    "online": {"world_mode": "online"},
    "fine-tuned": {"world_mode": "finetuned"},
    "SimHash": {"hash": "simhash"},
    "shared counts": {"counts": "shared"},
    "bootstrap": {"timeouts": "bootstrap"},
    "bfloat16": {"precision": "bfloat16"},
    "R1": {"reward": "r1"},
    "R2": {"reward": "r2"},
    "R3": {"reward": "r3"},
    "none": {"reward": "none"},
    "no imagination": {"steps": 0},
    **{name: {"reward": name, "reward_options": registry.find(name).small} for name in SINGLE},
    "another lifelong factor": {"lifelong": "rnd", "lifelong_options": "network=small"},
    "no task": {"extrinsic": 0.0},
}


def made(recipe: Recipe) -> Trainer:
    network = None
    if recipe.imagines and recipe.world == "learned":
        network = from_settings(assembly.model_settings(recipe), jax.random.key(0))
    return Trainer(recipe, network)


def traced(recipe: Recipe):
    """The shapes of one interval: everything is followed through, nothing is computed."""
    own = made(recipe)
    before = own.shapes((0,), ())
    after, row = jax.eval_shape(own._many_updates, own.reward, own.knobs, before.bank, before.state)
    return before.state, after, row


@pytest.mark.parametrize("changes", OPTIONS.values(), ids=OPTIONS.keys())
def test_every_option_reaches_the_loop_and_leaves_the_state_in_shape(changes):
    before, after, row = traced(recipes.recipe(TASK, **{**TINY, **changes}))
    same = jax.tree.map(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype), before, after)
    assert all(jax.tree.leaves(same))
    assert {"return", "policy_loss", "bonus"} <= set(row)
    assert set(made(recipes.recipe(TASK, **{**TINY, **changes})).reward.logs) <= set(row)


@pytest.mark.parametrize("name", ["as_written", "as_coded"])
def test_the_paper_s_recipes_run(name):
    own = made(recipes.recipe(TASK, name, **TINY))
    progress, row = own.advance(own.start((5,)))
    trainer.check_finite(row, (5,), 20)
    assert int(progress.state.updates[0]) == own.recipe.updates_per_row


def test_a_privileged_input_is_told():
    def told(**changes):
        return assembly.privileges(made(recipes.recipe(TASK, **{**TINY, **changes})).reward)

    assert told() == ("panorama",)
    assert told(world="real") == ("simulator",)
    assert told(reward="count") == ()
    assert told(reward="noveld") == ("full grid",)
    assert told(reward="noveld", reward_options="counted=observation") == ()


@pytest.mark.parametrize("name", ["policy_loss", "bonus"])
def test_the_quantity_that_is_not_a_number_is_named_with_its_seed(name):
    row = {name: np.array([0.0, np.nan]), "reward_is_finite": np.ones(2)}
    with pytest.raises(
        GobiError, match=f"seed 8: the {name.replace('_', ' ')} became nan before frame 3,200"
    ):
        trainer.check_finite(row, (7, 8), 3200)


def test_a_bonus_that_is_not_a_number_is_told_before_the_losses_that_it_spoils():
    spoiled = np.array([np.nan])
    row = {name: spoiled for name in ("loss", "grad_norm", "bonus")} | {"reward_is_finite": np.zeros(1)}
    with pytest.raises(GobiError, match="seed 7: the bonus became nan"):
        trainer.check_finite(row, (7,), 3200)


def test_a_reward_that_is_not_finite_is_named():
    row = {"reward_is_finite": np.array([1.0, 0.99])}
    with pytest.raises(GobiError, match="seed 8: the total reward became nan"):
        trainer.check_finite(row, (7, 8), 3200)


def test_the_task_of_a_trainer_is_that_of_its_recipe():
    assert made(recipes.recipe(TASK, reward="none", **TINY)).env == gobi.make(TASK)
