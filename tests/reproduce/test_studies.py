"""Studies: all their runs can be made, and parts of them can be chosen."""

from __future__ import annotations

import pytest

from gobi.errors import GobiError
from gobi.reproduce import STUDIES
from gobi.rewards.registry import REWARDS
from gobi.training import recipes

PAPER = {"minigrid", "ablation", "dynamics", "accuracy", "steps", "actions", "decay", "pretraining"}


def test_the_papers_comparisons_are_there():
    assert set(STUDIES) >= PAPER
    assert len(STUDIES["minigrid"].arms) == 12 * 5
    assert len(STUDIES["minigrid"].tasks) == 12


@pytest.mark.parametrize("name", STUDIES)
def test_every_run_has_a_recipe_and_a_folder_of_its_own(name):
    arms = STUDIES[name].arms
    assert len({arm.folder for arm in arms}) == len(arms)
    for arm in arms:
        whole = recipes.recipe(arm.task, arm.recipe, **arm.changes)
        small = recipes.compact(recipes.recipe(arm.task, arm.recipe), **arm.changes)
        for field, value in arm.changes.items():
            assert getattr(whole, field) == getattr(small, field) == value


@pytest.mark.parametrize("name", STUDIES)
def test_runs_on_one_task_differ(name):
    digests = [recipes.recipe(arm.task, arm.recipe, **arm.changes).digest for arm in STUDIES[name].arms]
    assert len(set(digests)) == len(digests)


def test_maps_are_drawn_of_runs_that_there_are_while_they_last():
    for study in STUDIES.values():
        arms = {arm.folder: arm for arm in study.arms}
        for folder, frames in study.maps.items():
            whole = recipes.recipe(arms[folder].task, **arms[folder].changes)
            each = whole.frames / whole.snapshots
            assert all(one <= whole.frames and one % each == 0 for one in frames)


def test_every_reward_watches_the_television():
    study = STUDIES["noisy"]
    noisy, plain = study.tasks
    assert {arm.name for arm in study.arms if arm.task == noisy} == set(REWARDS)
    assert noisy.removeprefix("gobi/").replace("-noisy", "") == plain.removeprefix("MiniGrid-")


def test_the_fair_study_shows_looks_both_ways():
    study = STUDIES["fair"]
    assert study.peeks == "both"
    looks = {arm.name: recipes.recipe(arm.task, **arm.changes).world_reads for arm in study.arms}
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
