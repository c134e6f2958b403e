"""Tasks go by Farama's names and are what Farama registers under them."""

from __future__ import annotations

import doctest

import gymnasium
import minigrid
import pytest
from gymnasium.envs.registration import load_env_creator

import gobi
from gobi.envs.minigrid import (
    FARAMA_TASKS,
    PAPER_TASKS,
    TASKS,
    KeyCorridor,
    MultiRoom,
    make,
    oracle,
    registry,
)
from gobi.errors import GobiError

PAPER = {
    *(f"MiniGrid-MultiRoom-{name}-v0" for name in ("N6", "N7-S8", "N12-S10")),
    *(f"MiniGrid-KeyCorridor{name}-v0" for name in ("S3R3", "S4R3", "S5R3", "S6R3")),
    *(f"MiniGrid-ObstructedMaze-{name}-v0" for name in ("2Dlh", "2Dlhb", "1Q", "2Q", "Full")),
}
REPAIRED = {f"MiniGrid-ObstructedMaze-{name}-v1" for name in ("2Dlhb", "1Q", "2Q", "Full")}
SMALL = {
    *(f"MiniGrid-Empty-{side}x{side}-v0" for side in (5, 8, 16)),
    *(f"MiniGrid-DoorKey-{side}x{side}-v0" for side in (5, 6, 8)),
    *("MiniGrid-MultiRoom-N2-S4-v0", "MiniGrid-MultiRoom-N4-S5-v1"),
    *("MiniGrid-KeyCorridorS3R1-v0", "MiniGrid-KeyCorridorS3R2-v0"),
    *(f"MiniGrid-ObstructedMaze-{name}-v0" for name in ("1Dl", "1Dlh", "1Dlhb", "2Dl")),
}
MIDDLE = "gobi/ObstructedMaze-2Q-middle-v0"
NOISY = {f"gobi/MultiRoom-{name}-noisy-v0" for name in ("N2-S4", "N4-S5", "N7-S8")}
NOT_FARAMAS = {"MiniGrid-MultiRoom-N7-S8-v0", "MiniGrid-MultiRoom-N12-S10-v0", MIDDLE, *NOISY}


def settings(farama) -> dict:
    """Everything plain that the constructor of a Farama environment was told or worked out."""
    plain = (int, bool, float, str, tuple)
    found = {name: value for name, value in vars(farama).items() if isinstance(value, plain)}
    found.pop("mission")
    return found


def test_these_are_the_tasks():
    assert set(TASKS) == PAPER | REPAIRED | SMALL | NOISY | {MIDDLE}
    assert set(FARAMA_TASKS) == set(TASKS) - NOISY
    assert set(PAPER_TASKS) == PAPER
    assert len(PAPER_TASKS) == 12


def test_all_but_three_and_the_noisy_ones_are_registered_by_farama_too():
    assert minigrid.__version__
    # Our own registration may have put the others there too, under the names that they have here.
    registered = gymnasium.registry.items()
    faramas = {name for name, one in registered if str(one.entry_point).startswith("minigrid")}
    assert set(TASKS) - faramas == NOT_FARAMAS


@pytest.mark.parametrize("name", [name for name in TASKS if name not in NOT_FARAMAS])
def test_a_name_means_the_same_class_with_the_same_arguments_as_in_farama(name):
    registered = gymnasium.registry[name]
    assert registered.max_episode_steps is None
    faramas = load_env_creator(registered.entry_point)(**registered.kwargs)
    env = make(name)
    ours = oracle.new_farama(env)
    assert type(ours) is type(faramas)
    assert settings(ours) == settings(faramas)
    assert env.spec.max_steps == faramas.max_steps
    assert env.generator.size == (faramas.width, faramas.height)
    assert env.generator.see_through_walls == faramas.see_through_walls
    assert env.spec.num_actions == faramas.action_space.n
    assert env.spec.observation_shape == faramas.observation_space["image"].shape


def test_the_three_of_our_own_are_faramas_classes_with_the_papers_arguments():
    sizes = {name: settings(oracle.new_farama(make(name))) for name in NOT_FARAMAS}
    seven, twelve = sizes["MiniGrid-MultiRoom-N7-S8-v0"], sizes["MiniGrid-MultiRoom-N12-S10-v0"]
    assert (seven["minNumRooms"], seven["maxNumRooms"], seven["maxRoomSize"]) == (7, 7, 8)
    assert (twelve["minNumRooms"], twelve["maxNumRooms"], twelve["maxRoomSize"]) == (12, 12, 10)
    registered = settings(oracle.new_farama(make("MiniGrid-ObstructedMaze-2Q-v0")))
    assert sizes[MIDDLE] == registered | {"agent_room": (1, 1)}


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("KeyCorridorS3R3", "MiniGrid-KeyCorridorS3R3-v0"),
        ("KeyCorridorS3R3-v0", "MiniGrid-KeyCorridorS3R3-v0"),
        ("MiniGrid-KeyCorridorS3R3", "MiniGrid-KeyCorridorS3R3-v0"),
        ("MultiRoom-N4-S5", "MiniGrid-MultiRoom-N4-S5-v1"),
        ("ObstructedMaze-1Q-v1", "MiniGrid-ObstructedMaze-1Q-v1"),
        ("ObstructedMaze-2Q-middle", MIDDLE),
        ("ObstructedMaze-2Dl", "MiniGrid-ObstructedMaze-2Dl-v0"),
    ],
)
def test_a_name_may_leave_out_what_is_clear_without(short, full):
    assert gobi.make(short).spec.id == full
    assert gobi.make(short) == gobi.make(full)


@pytest.mark.parametrize("name", TASKS)
def test_a_full_name_finds_itself(name):
    assert make(name).spec.id == name


def test_a_name_that_could_be_two_tasks_is_refused_naming_both():
    with pytest.raises(GobiError, match=r"ObstructedMaze-1Q-v0.*ObstructedMaze-1Q-v1"):
        make("ObstructedMaze-1Q")


def test_faramas_mislabelled_task_is_not_taken_for_its_repaired_version():
    with pytest.raises(GobiError, match="MiniGrid-MultiRoom-N4-S5-v1"):
        make("MiniGrid-MultiRoom-N4-S5-v0")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("MiniGrid-KeyCorridorS3R4-v0", "MiniGrid-KeyCorridorS3R3-v0"),
        ("KeyCoridorS3R3", "MiniGrid-KeyCorridorS3R3-v0"),
        ("MiniGrid-Empty-9x9-v0", "MiniGrid-Empty-8x8-v0"),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones_in_one_line(wrong, near):
    with pytest.raises(GobiError, match=near) as error:
        make(wrong)
    assert wrong in str(error.value)
    assert "\n" not in str(error.value)


def test_a_name_unlike_any_other_is_answered_with_some_that_exist():
    with pytest.raises(GobiError, match=r"'\?!'.*MiniGrid-MultiRoom-N6-v0"):
        make("?!")


def test_families_make_tasks_of_any_size():
    assert make(MultiRoom(rooms=7, max_size=4)).spec.max_steps == 140
    assert make(KeyCorridor(room_size=7, rows=4)).generator.size == (19, 25)
    names = {make(family).spec.id for family in (MultiRoom(7, 4), MultiRoom(7, 5), MultiRoom(7, 4, 30))}
    assert len(names) == 3


def test_the_examples_in_the_documentation_are_true():
    assert doctest.testmod(registry).failed == 0
