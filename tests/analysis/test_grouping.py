"""How methods are called where several settings tell them apart."""

from __future__ import annotations

import dataclasses

from compared_runs import S3, make_run

from gobi.analysis.grouping import group
from gobi.training.control import recipes


def labels(folder) -> list[str]:
    return list(dict.fromkeys(one.method.label for one in group([folder], "return")))


def test_of_several_settings_only_those_that_are_not_the_recipes_are_named(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", settings={"steps": 2})
    make_run(tmp_path / "c", settings={"precision": "bfloat16"})
    make_run(tmp_path / "d", settings={"steps": 2, "precision": "bfloat16"})
    make_run(tmp_path / "e", task=S3)
    assert labels(tmp_path) == [
        "gobi",
        "gobi steps=2",
        "gobi precision=bfloat16",
        "gobi steps=2 precision=bfloat16",
    ]


def test_so_it_is_on_control_tasks_which_have_another_recipe_from_the_state(tmp_path):
    pendulum, seen = (
        "dmc/pendulum_swingup",
        {"observations": "state", "reward_options": "bits=16", "steps": 3},
    )
    for name, changes in {
        "a": {},
        "b": {"paid": "made"},
        "c": {"steps": 0},
        "d": {"reward_options": "bits=16,credit=departure"},
    }.items():
        usual = dataclasses.asdict(recipes.recipe(pendulum, reward="gobi", **seen))
        given = {name: usual[name] for name in usual if name not in ("task", "recipe", "frames", "reward")}
        make_run(tmp_path / name, task=pendulum, settings={**given, **changes})
    assert labels(tmp_path) == [
        "gobi",
        "gobi paid=made",
        "gobi steps=0",
        "gobi reward_options=bits=16,credit=departure",
    ]


def test_what_a_recipe_has_otherwise_on_every_task_is_always_named(tmp_path):
    make_run(tmp_path / "a", settings={"decay": 6e-7})
    make_run(tmp_path / "b", settings={"decay": 5e-7, "steps": 2})
    assert labels(tmp_path) == ["gobi decay=6e-07", "gobi decay=5e-07 steps=2"]


def test_a_reward_of_ones_own_is_called_likewise(tmp_path):
    make_run(tmp_path / "a", reward="mine.py:Mine", settings={"steps": 1})
    make_run(tmp_path / "b", reward="mine.py:Mine", settings={"steps": 2, "clip": 2.0})
    assert labels(tmp_path) == ["mine.py:Mine", "mine.py:Mine clip=2.0 steps=2"]


def test_a_run_without_a_world_is_not_called_as_if_it_had_no_bonus(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", world="none", settings={"steps": 0})
    assert labels(tmp_path) == ["gobi copying", "gobi world=none"]


def test_options_that_were_not_given_go_without_saying(tmp_path):
    make_run(tmp_path / "a", reward="ec", settings={"reward_options": ""})
    make_run(tmp_path / "b", reward="ec", settings={"reward_options": "alike=drawn"})
    assert labels(tmp_path) == ["ec", "ec reward_options=alike=drawn"]
