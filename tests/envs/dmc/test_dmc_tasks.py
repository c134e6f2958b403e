"""Control tasks by name."""

from __future__ import annotations

import sys

import pytest

from gobi.envs.dmc import TASKS, ControlTask, find, is_control, tasks
from gobi.envs.dmc.tasks import short
from gobi.errors import GobiError, MissingExtra

FIVE = (
    "dmc/pendulum_swingup",
    "dmc/hopper_hop",
    "dmc/walker_run_sparse",
    "dmc/cheetah_run_sparse",
    "dmc/cartpole_swingup_sparse",
)


def test_five_tasks_have_a_name_and_the_prefix_may_be_left_out():
    assert tuple(TASKS) == FIVE
    for name in FIVE:
        assert find(name) == find(name.removeprefix("dmc/")) == TASKS[name]


def test_only_the_two_run_tasks_have_a_threshold_of_ours():
    thresholds = {name: task.threshold for name, task in TASKS.items() if task.threshold is not None}
    assert thresholds == {"dmc/walker_run_sparse": 0.25, "dmc/cheetah_run_sparse": 0.25}


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("dmc/walker_run", ControlTask("dmc/walker_run", "walker", "run")),
        ("cartpole_balance_sparse", ControlTask("dmc/cartpole_balance_sparse", "cartpole", "balance_sparse")),
        ("ball_in_cup_catch", ControlTask("dmc/ball_in_cup_catch", "ball_in_cup", "catch")),
        ("dmc/humanoid_CMU_run@0.3", ControlTask("dmc/humanoid_CMU_run@0.3", "humanoid_CMU", "run", 0.3)),
        ("quadruped_run", ControlTask("dmc/quadruped_run", "quadruped", "run", camera=2)),
    ],
)
def test_any_other_task_of_dm_control_has_its_name_and_perhaps_a_threshold(name, task):
    assert find(name) == task
    assert find(task.id) == task


@pytest.mark.parametrize("number", ["", "0", "1.5", "-0.2", "nan", "much", "1e-1"])
def test_a_threshold_is_a_number_above_0_and_at_most_1(number):
    with pytest.raises(GobiError, match=r"threshold above 0 and at most 1"):
        find(f"walker_run@{number}")


def test_an_unknown_task_is_answered_with_the_nearest_ones():
    with pytest.raises(GobiError, match=r"unknown control task 'dmc/hoper_hop'; did you mean dmc/hopper_hop"):
        find("hoper_hop")


def test_without_dm_control_the_five_are_found_and_others_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control.suite", None)
    assert [find(name).id for name in FIVE] == list(FIVE)
    with pytest.raises(GobiError, match=r"pip install 'gobi\[dmc\]'"):
        find("dmc/walker_run")


def test_a_dm_control_that_does_not_work_says_why(monkeypatch):
    def broken(module: str, extra: str) -> None:
        raise MissingExtra(f"{module} of {extra}: no display here")

    monkeypatch.setattr(tasks, "require", broken)
    with pytest.raises(GobiError, match=r"walker_run' is none of .*: no display here"):
        find("dmc/walker_run")


def test_control_tasks_are_told_from_others_by_name():
    assert all(is_control(name) for name in (*FIVE, "dmc/anything", "hopper_hop"))
    assert not any(is_control(name) for name in ("MiniGrid-Empty-5x5-v0", "KeyCorridorS3R3", "hopper"))
    assert short("dmc/hopper_hop") == "hopper_hop"
