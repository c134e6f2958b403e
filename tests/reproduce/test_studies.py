"""Studies: all their runs can be made, and parts of them can be chosen."""

from __future__ import annotations

import pytest

from gobi.envs.minigrid import Noisy, registry
from gobi.errors import GobiError
from gobi.reproduce import STUDIES
from gobi.rewards.registry import REWARDS
from gobi.training import recipes
from gobi.training.control import recipes as control

CONTROL = ("dmc", "dmc-search")
GRIDS = [name for name in STUDIES if name not in CONTROL]
PAPER = {"minigrid", "ablation", "dynamics", "accuracy", "steps", "actions", "decay", "pretraining"}


def test_the_papers_comparisons_are_there():
    assert set(STUDIES) >= PAPER
    assert len(STUDIES["minigrid"].arms) == 12 * 5
    assert len(STUDIES["minigrid"].tasks) == 12


@pytest.mark.parametrize("name", GRIDS)
def test_every_run_has_a_recipe_and_a_folder_of_its_own(name):
    arms = STUDIES[name].arms
    assert len({arm.folder for arm in arms}) == len(arms)
    for arm in arms:
        whole = recipes.recipe(arm.task, arm.recipe, **arm.settings)
        small = recipes.compact(recipes.recipe(arm.task, arm.recipe), **arm.settings)
        for field, value in arm.changes.items():
            assert getattr(whole, field) == value
            # Options that make a reward small stay before those of the study.
            beside = "size=small," if field == "reward_options" and arm.changes.get("reward") == "ec" else ""
            assert getattr(small, field) == (f"{beside}{value}" if beside else value)


@pytest.mark.parametrize("name", STUDIES)
def test_runs_on_one_task_differ(name):
    kind = control if name in CONTROL else recipes
    digests = [kind.recipe(arm.task, arm.recipe, **arm.settings).digest for arm in STUDIES[name].arms]
    assert len(set(digests)) == len(digests)


def test_the_control_study_has_five_tasks_five_rewards_and_five_seeds():
    study = STUDIES["dmc"]
    tasks = ["pendulum_swingup", "hopper_hop"]
    tasks += ["walker_run_sparse", "cheetah_run_sparse", "cartpole_swingup_sparse"]
    rewards = ["gobi", "re3", "icm", "rnd", "none"]
    assert [arm.folder for arm in study.arms] == [f"{task}/{reward}" for task in tasks for reward in rewards]
    assert study.seeds == 5
    for arm in study.arms:
        recipe = control.recipe(arm.task, **arm.settings)
        assert (recipe.frames, recipe.observations, recipe.reward) == (500_000, "pixels", arm.name)


@pytest.mark.parametrize(("task", "chosen"), [("dmc/pendulum_swingup", 3), ("dmc/hopper_hop", 1)])
def test_the_searches_on_control_vary_n_or_k_and_leave_the_other_at_the_papers(task, chosen):
    arms = [arm for arm in STUDIES["dmc-search"].arms if arm.task == task]
    tried = {
        (recipe.imagined_actions, recipe.steps)
        for recipe in (control.recipe(task, **a.changes) for a in arms)
    }
    assert tried == {*((n, chosen) for n in (3, 5, 10, 20)), *((5, k) for k in (1, 2, 3, 5))}
    assert control.recipe(task).steps == chosen
    assert STUDIES["dmc-search"].tasks == ("dmc/pendulum_swingup", "dmc/hopper_hop")


def test_a_part_of_a_control_study_is_chosen_with_or_without_the_prefix():
    study = STUDIES["dmc"].only(["hopper_hop", "dmc/walker_run_sparse"], [], ["re3"])
    assert [arm.folder for arm in study.arms] == ["hopper_hop/re3", "walker_run_sparse/re3"]
    with pytest.raises(GobiError, match="no runs on dmc/hopper_hop: it has MiniGrid-MultiRoom-N7-S8-v0"):
        STUDIES["ablation"].only(["hopper_hop"], [])


def test_maps_are_drawn_of_runs_that_there_are_while_they_last():
    for study in STUDIES.values():
        arms = {arm.folder: arm for arm in study.arms}
        for folder, frames in study.maps.items():
            whole = recipes.recipe(arms[folder].task, **arms[folder].settings)
            each = whole.frames / whole.snapshots
            assert all(one <= whole.frames and one % each == 0 for one in frames)


def test_every_reward_watches_the_television():
    study = STUDIES["noisy"]
    noisy, plain = study.tasks
    assert {arm.name for arm in study.arms if arm.task == noisy} == set(REWARDS)
    assert noisy.removeprefix("gobi/").replace("-noisy", "") == plain.removeprefix("MiniGrid-")


def test_on_a_laptop_every_reward_does_so_beside_itself_without_one():
    study = STUDIES["noisy-laptop"]
    noisy, plain = (
        {arm.name: recipes.recipe(task, **arm.settings) for arm in study.arms if arm.task == task}
        for task in study.tasks
    )
    assert set(noisy) == set(REWARDS)
    with_it, without = (registry.TASKS[task].generator for task in study.tasks)
    assert with_it == Noisy(without)
    for name in REWARDS:
        assert noisy[name] == plain[name].changed(task=study.tasks[0])


def test_the_fair_study_shows_looks_both_ways():
    study = STUDIES["fair"]
    assert study.peeks == "both"
    looks = {arm.name: recipes.recipe(arm.task, **arm.settings).world_reads for arm in study.arms}
    assert looks == {"panorama": "panorama", "view": "view", "noveld": "panorama"}


def test_a_part_can_be_chosen():
    study = STUDIES["minigrid"].only(["KeyCorridorS3R3"], ["gobi", "rnd"])
    assert [arm.folder for arm in study.arms] == ["KeyCorridorS3R3/gobi", "KeyCorridorS3R3/rnd"]


@pytest.mark.parametrize(
    ("tasks", "arms", "told"),
    [
        (["DoorKey-5x5"], [], "no runs on MiniGrid-DoorKey-5x5-v0"),
        ([], ["gob"], "did you mean gobi"),
    ],
)
def test_what_it_does_not_have_is_refused(tasks, arms, told):
    with pytest.raises(GobiError, match=told):
        STUDIES["ablation"].only(tasks, arms)
