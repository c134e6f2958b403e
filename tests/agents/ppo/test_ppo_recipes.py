"""Recipes with PPO: what cannot be is refused in one line, and the rest becomes the learner."""

from __future__ import annotations

import dataclasses

import pytest

from gobi.agents import registry
from gobi.agents.ppo import PPO
from gobi.errors import GobiError
from gobi.training import assembly
from gobi.training.recipe import read_settings
from gobi.training.recipes import SCHEDULES, compact, recipe

TASK = "MiniGrid-KeyCorridorS3R3-v0"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"learner": "ppo", "num_envs": 16, "minibatches": 3}, "num_envs=16 .* minibatches=3"),
        ({"learner": "ppo", "num_envs": 2, "minibatches": 4}, "num_envs=2 .* minibatches=4"),
        ({"learner": "ppo", "epochs": 0}, "epochs"),
        ({"learner": "ppo", "minibatches": 0}, "minibatches"),
        ({"learner": "ppo", "gae_lambda": 1.5}, "gae_lambda"),
        ({"learner": "ppo", "bonus_discount": 1.01}, "bonus_discount"),
        ({"learner": "ppo", "clip_ratio": -0.1}, "clip_ratio"),
        ({"learner": "poo"}, "learner .*poo"),
        ({"learner": "impala", "epochs": 2}, "epochs .* impala"),
        ({"learner": "impala", "core": "mingru"}, "core .* impala"),
        ({"learner": "impala", "scale_bonus": True}, "scale_bonus .* impala"),
    ],
)
def test_what_a_learner_cannot_do_is_refused_in_one_line(changes, says):
    with pytest.raises(GobiError, match=says) as refusal:
        compact(recipe(TASK), **changes)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("word", ["core=gru", "values=three", "epochs=many"])
def test_a_setting_that_is_none_of_its_choices_is_refused_in_one_line(word):
    with pytest.raises(GobiError, match=word.partition("=")[0]) as refusal:
        read_settings([word])
    assert "\n" not in str(refusal.value)


def test_a_mistaken_learner_is_told_the_right_name():
    with pytest.raises(GobiError, match="ppo"):
        recipe(TASK, learner="pppo")


def test_a_recipe_becomes_a_learner_and_its_numbers():
    whole = compact(recipe(TASK), learner="ppo", epochs=3, clip_ratio=0.3, timeouts="bootstrap")
    learner, hyper = registry.build(whole), registry.hyper(whole)
    assert isinstance(learner, PPO)
    assert (learner.epochs, learner.core, learner.timeouts) == (3, "mingru", "bootstrap")
    assert (learner.network, learner.values, learner.scale_bonus) == ("compact", "two", True)
    assert float(hyper.clip_ratio) == pytest.approx(0.3)
    assert float(hyper.entropy_cost) == pytest.approx(whole.entropy_cost)
    assert hash(learner) == hash(registry.build(whole))


def test_with_ppo_the_bonus_has_the_same_weight_whatever_the_reward():
    recipes = [compact(recipe(TASK), learner="ppo", reward=reward) for reward in ("gobi", "count", "rnd")]
    assert {(one.coefficient, one.decay, one.extrinsic) for one in recipes} == {(1.0, 0.0, 5.0)}


def test_ours_learns_with_ppo_and_the_papers_with_impala():
    assert recipe(TASK).learner == compact(recipe(TASK)).learner == "ppo"
    assert {recipe(TASK, name).learner for name in ("as_written", "as_coded")} == {"impala"}


def test_another_learner_brings_all_of_its_own_numbers_whenever_it_is_asked_for():
    at_once = recipe(TASK, learner="impala", reward="rnd")
    assert compact(recipe(TASK), learner="impala", reward="rnd") == compact(at_once)
    assert (at_once.coefficient, at_once.num_envs, at_once.unroll) == (0.1, 32, 100)
    assert compact(recipe(TASK, learner="impala"), learner="ppo") == compact(recipe(TASK))


def test_without_a_bonus_its_value_does_not_reach_the_policy():
    assert compact(recipe(TASK), reward="none").coefficient == recipe(TASK, reward="none").coefficient == 0
    assert recipe(TASK, reward="none", coefficient=1.0).coefficient == 1


def test_where_the_learning_rate_stays_so_does_the_weight_of_the_entropy():
    assert recipe(TASK).entropy_decay == "linear"
    assert recipe(TASK, learning_rate_decay="none").entropy_decay == "none"
    assert compact(recipe(TASK), learning_rate_decay="none").entropy_decay == "none"


@pytest.mark.parametrize(("envs", "minibatches"), [(16, 4), (6, 2), (3, 1), (8, 4)])
def test_other_numbers_of_environments_are_split_as_they_can_be(envs, minibatches):
    assert recipe(TASK, num_envs=envs).minibatches == minibatches
    assert compact(recipe(TASK), num_envs=envs).minibatches == minibatches


def test_one_set_of_numbers_serves_all_twelve_tasks():
    own = {"task", "frames"}
    settings = [dataclasses.asdict(recipe(task)) for task in SCHEDULES]
    alike = [{name: value for name, value in one.items() if name not in own} for one in settings]
    assert all(one == alike[0] for one in alike)


def test_its_world_model_copies_what_is_hashed_and_those_of_kept_runs_copy_what_is_seen():
    maze = "MiniGrid-ObstructedMaze-2Dlh-v0"
    for task in (TASK, maze):
        assert assembly.model_settings(recipe(task)).erase == "lying"
        assert assembly.model_settings(compact(recipe(task))).erase == "lying"
    kept = recipe(maze, learner="impala")
    assert kept.erased is True
    assert assembly.model_settings(kept).erase is False
