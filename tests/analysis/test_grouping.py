"""How methods are called where several settings tell them apart."""

from __future__ import annotations

from compared_runs import S3, make_run

from gobi.analysis.grouping import group


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
