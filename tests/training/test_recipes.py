"""The named recipes: complete for every task, with the paper's numbers, as different as they should be."""

from __future__ import annotations

import pathlib
import re

import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.minigrid import PAPER_TASKS, TASKS
from gobi.errors import GobiError
from gobi.training.recipe import from_json
from gobi.training.recipes import NAMES, compact, quick, recipe, schedule

RHO = {
    "MultiRoom-N6": 8e-7,
    "MultiRoom-N7-S8": 6e-7,
    "MultiRoom-N12-S10": 8e-7,
    "KeyCorridorS3R3": 1.5e-6,
    "KeyCorridorS4R3": 5e-7,
    "KeyCorridorS5R3": 5e-7,
    "KeyCorridorS6R3": 3e-7,
    "ObstructedMaze-2Dlh": 3e-7,
    "ObstructedMaze-2Dlhb": 2e-7,
    "ObstructedMaze-1Q": 2e-7,
    "ObstructedMaze-2Q": 2e-7,
    "ObstructedMaze-Full": 5e-8,
}
"""The decay of the paper's table."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", PAPER_TASKS)
def test_the_twelve_have_the_papers_coefficient_and_decay(task, name):
    found = recipe(task, name, learner="impala")
    assert (found.task, found.recipe, found.coefficient) == (task, name, 0.01)
    rho = RHO[task.removeprefix("MiniGrid-").removesuffix("-v0")]
    # Ours may decay more slowly.
    assert found.decay == rho if name != "gobi" else 0 < found.decay <= rho
    assert from_json(found.to_json()) == found


def test_the_authors_command_is_kept():
    assert recipe("MiniGrid-MultiRoom-N7-S8-v0", "as_coded").frames == 8_000_000


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_every_recipe(task, name):
    assert recipe(task, name).task == task


@pytest.mark.parametrize("maze", ["2Dlhb", "1Q", "2Q", "Full"])
def test_repaired_mazes_take_the_schedule_of_the_papers(maze):
    assert schedule(f"MiniGrid-ObstructedMaze-{maze}-v1") == schedule(f"MiniGrid-ObstructedMaze-{maze}-v0")


def test_the_papers_own_2q_takes_the_schedule_of_2q():
    assert schedule("gobi/ObstructedMaze-2Q-middle-v0") == schedule("MiniGrid-ObstructedMaze-2Q-v0")


def test_a_noisy_task_takes_the_schedule_of_the_one_without_noise():
    noisy, plain = (recipe(f"MultiRoom-N7-S8{noise}") for noise in ("-noisy", ""))
    assert noisy == plain.changed(task="gobi/MultiRoom-N7-S8-noisy-v0")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", PAPER_TASKS)
def test_the_decay_is_exact_to_the_end_in_single_precision(task, name):
    """(1 - rho) ** frames in float32 is off by a third on the long schedules."""
    found = recipe(task, name, learner="impala")
    frames = found.updates * found.frames_per_update
    exact = np.exp(frames * np.log1p(-np.float64(found.decay)))
    single = jnp.exp(jnp.float32(frames) * jnp.log1p(-jnp.float32(found.decay)))
    np.testing.assert_allclose(single, exact, rtol=3e-6)


def test_the_naive_decay_would_not_be():
    found = recipe("MiniGrid-ObstructedMaze-Full-v0", learner="impala")
    naive = (1 - np.float32(found.decay)) ** np.float32(found.frames)
    assert abs(naive / np.exp(found.frames * np.log1p(-found.decay)) - 1) > 0.1


def test_movable_things_are_erased_in_mazes_only_and_with_ppo_where_they_lie():
    for task in TASKS:
        paper = recipe(task, learner="impala"), recipe(task, "as_coded")
        assert {one.erase_movable for one in paper} == {"ObstructedMaze" in task}
        assert not recipe(task, "as_written").erase_movable
        assert (recipe(task).erased, recipe(task).counts) == ("lying", "shared")
        assert {one.erased for one in paper} == {"ObstructedMaze" in task}


def test_short_names_find_their_task_and_unknown_names_the_nearest():
    assert recipe("KeyCorridorS3R3").task == "MiniGrid-KeyCorridorS3R3-v0"
    with pytest.raises(GobiError, match="unknown recipe 'as_code'; did you mean as_coded"):
        recipe("KeyCorridorS3R3", "as_code")
    with pytest.raises(GobiError, match="unknown task"):
        recipe("KeyCoridorS3R3")


def test_fields_can_be_changed_at_once():
    assert recipe("KeyCorridorS3R3", frames=5).frames == 5
    with pytest.raises(GobiError, match="frames must be at least 1"):
        recipe("KeyCorridorS3R3", frames=0)


def test_a_laptops_recipe_is_small_and_takes_changes():
    small = compact(recipe("KeyCorridorS3R3", "as_coded"), pretrain_epochs=1)
    assert (small.network, small.model_size, small.pretrain_epochs) == ("compact", "compact", 1)
    assert small.skip_executed
    assert (quick().network, quick(frames=7).frames) == ("compact", 7)


def test_the_page_on_differences_says_what_the_recipes_do():
    """Rows of its tables that begin with a field: | `field` | ... | as_written | as_coded | gobi |."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "differences.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert len(rows) >= 10
    told = {field: values for field, *values in rows}
    maze = {name: recipe("MiniGrid-ObstructedMaze-2Dlh-v0", name, learner="impala") for name in NAMES}
    for field, values in told.items():
        for name, value in zip(("as_written", "as_coded", "gobi"), values, strict=True):
            assert value.split()[0].strip("`") == str(getattr(maze[name], field)).lower(), (field, name)
    different = {field for field in vars(maze["gobi"]) if len({getattr(r, field) for r in maze.values()}) > 1}
    assert different - {"recipe", "frames"} <= set(told)


def test_another_reward_brings_its_coefficient_and_does_not_decay_unless_told():
    noveld = recipe("KeyCorridorS4R3", reward="noveld", learner="impala")
    assert (noveld.coefficient, noveld.decay) == (0.05, 0.0)
    told = recipe("KeyCorridorS4R3", reward="noveld", coefficient=0.2, decay=1e-7, learner="impala")
    assert (told.coefficient, told.decay) == (0.2, 1e-7)
    r1, ours = (recipe("KeyCorridorS4R3", reward=name, learner="impala") for name in ("r1", "gobi"))
    assert r1.decay == ours.decay


def test_without_an_accelerator_the_rewards_networks_are_small_too():
    whole = recipe("KeyCorridorS3R3", learner="impala")
    small = compact(whole, reward="ride")
    assert (small.coefficient, small.decay, small.reward_options) == (0.1, 0.0, "network=small")
    assert compact(whole, reward="ride", reward_options="").reward_options == ""
    assert compact(whole, reward="ec", reward_options="beta=1").reward_options == "size=small,beta=1"
    given = "rate=0.1, network=ride"
    assert compact(whole, reward="noveld", reward_options=given).reward_options == f"features=view,{given}"
    assert compact(whole, reward="count", reward_options="shared=true").reward_options == "shared=true"
