"""The rules of MiniGrid, one by one, in corridors five cells long."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.minigrid import DoorKey, cells, make, rules
from gobi.envs.minigrid.rules import DONE, DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE

RED_KEY, GREEN_KEY = cells.pack(cells.KEY, cells.RED), cells.pack(cells.KEY, cells.GREEN)
RED_BALL, BLUE_BALL = cells.pack(cells.BALL, cells.RED), cells.pack(cells.BALL, cells.BLUE)
EMPTY_BOX = cells.pack(cells.BOX, cells.GREY)
KEY_BOX = cells.pack(cells.BOX, cells.GREY, 0, RED_KEY)
OPEN_DOOR, CLOSED_DOOR, LOCKED_DOOR = (
    cells.pack(cells.DOOR, cells.RED, state) for state in (cells.OPEN, cells.CLOSED, cells.LOCKED)
)
FLOOR, WALL, EMPTY = cells.pack(cells.FLOOR, cells.BLUE), int(cells.WALL_CELL), int(cells.EMPTY_CELL)
GOAL, LAVA = int(cells.GOAL_CELL), cells.pack(cells.LAVA, cells.RED)

env = make(DoorKey(5))
step = jax.jit(env.step)
LIMIT = env.spec.max_steps


def played(state, *actions):
    """The state after the actions and the timestep of the last one."""
    timestep = None
    for action in actions:
        state, timestep = step(state, jnp.int32(action))
    return state, timestep


def ahead(state) -> int:
    """What lies in the corridor's second cell, before which the agent stands at first."""
    return int(state.grid[2, 1])


def same_but_for_the_clock(before, after) -> bool:
    clocked = jax.tree.map(np.asarray, (before.grid, before.position, before.direction, before.carrying))
    now = jax.tree.map(np.asarray, (after.grid, after.position, after.direction, after.carrying))
    equal = all(np.array_equal(a, b) for a, b in zip(clocked, now, strict=True))
    return equal and int(after.step_count) == int(before.step_count) + 1


@pytest.fixture(scope="session")
def corridor(sketch):
    """The agent at the left end of a corridor, looking at a thing."""
    return lambda thing, **options: sketch("#####", "#>X.#", "#####", X=thing, **options)


def test_turning_left_and_right_goes_round_the_four_headings(corridor):
    state = corridor(EMPTY)
    assert [int(played(state, *[RIGHT] * turns)[0].direction) for turns in range(1, 5)] == [1, 2, 3, 0]
    assert [int(played(state, *[LEFT] * turns)[0].direction) for turns in range(1, 5)] == [3, 2, 1, 0]


@pytest.mark.parametrize("turn", [LEFT, RIGHT])
def test_turning_moves_and_touches_nothing(corridor, turn):
    state = corridor(RED_KEY, carrying=BLUE_BALL)
    turned, _ = played(state, turn, turn, turn, turn)
    np.testing.assert_array_equal(turned.grid, state.grid)
    np.testing.assert_array_equal(turned.position, state.position)
    assert int(turned.carrying) == BLUE_BALL


@pytest.mark.parametrize("direction", range(4))
def test_forward_is_one_cell_along_the_heading(sketch, direction):
    letter = ">v<^"[direction]
    state = sketch("#####", "#...#", f"#.{letter}.#", "#...#", "#####")
    moved, _ = rules.move(state, jnp.int32(FORWARD))
    expected = {0: (3, 2), 1: (2, 3), 2: (1, 2), 3: (2, 1)}[direction]
    assert tuple(np.asarray(moved.position)) == expected
    assert tuple(np.asarray(rules.front(state))) == expected


@pytest.mark.parametrize("thing", [EMPTY, FLOOR, OPEN_DOOR, GOAL, LAVA])
def test_the_agent_walks_onto_what_can_be_stood_on(corridor, thing):
    moved, _ = played(corridor(thing), FORWARD)
    assert tuple(np.asarray(moved.position)) == (2, 1)
    assert ahead(moved) == thing


@pytest.mark.parametrize("thing", [WALL, CLOSED_DOOR, LOCKED_DOOR, RED_KEY, BLUE_BALL, EMPTY_BOX, KEY_BOX])
def test_the_agent_stops_before_what_is_in_the_way(corridor, thing):
    state = corridor(thing)
    assert same_but_for_the_clock(state, played(state, FORWARD)[0])


@pytest.mark.parametrize("thing", [RED_KEY, BLUE_BALL, EMPTY_BOX, KEY_BOX])
def test_keys_balls_and_boxes_are_picked_up_and_leave_an_empty_cell(corridor, thing):
    state, timestep = played(corridor(thing), PICKUP)
    assert int(state.carrying) == thing
    assert ahead(state) == EMPTY
    assert not timestep.terminated
    assert timestep.reward == 0


@pytest.mark.parametrize("thing", [EMPTY, WALL, FLOOR, OPEN_DOOR, CLOSED_DOOR, LOCKED_DOOR, GOAL, LAVA])
def test_nothing_else_can_be_picked_up(corridor, thing):
    state = corridor(thing)
    assert same_but_for_the_clock(state, played(state, PICKUP)[0])


def test_picking_up_with_full_hands_does_nothing(corridor):
    state = corridor(RED_KEY, carrying=BLUE_BALL)
    assert same_but_for_the_clock(state, played(state, PICKUP)[0])


@pytest.mark.parametrize("thing", [RED_KEY, BLUE_BALL, EMPTY_BOX, KEY_BOX])
def test_what_is_carried_can_be_dropped_onto_an_empty_cell(corridor, thing):
    state, _ = played(corridor(EMPTY, carrying=thing), DROP)
    assert ahead(state) == thing
    assert int(state.carrying) == cells.NOTHING


@pytest.mark.parametrize(
    "place",
    [WALL, FLOOR, OPEN_DOOR, CLOSED_DOOR, LOCKED_DOOR, GOAL, LAVA, GREEN_KEY, BLUE_BALL, EMPTY_BOX, KEY_BOX],
)
def test_dropping_needs_an_empty_cell(corridor, place):
    state = corridor(place, carrying=RED_KEY)
    assert same_but_for_the_clock(state, played(state, DROP)[0])


def test_dropping_with_empty_hands_does_nothing(corridor):
    state = corridor(EMPTY)
    assert same_but_for_the_clock(state, played(state, DROP)[0])


def test_toggling_opens_a_closed_door_and_closes_an_open_one(corridor):
    assert ahead(played(corridor(CLOSED_DOOR), TOGGLE)[0]) == OPEN_DOOR
    assert ahead(played(corridor(OPEN_DOOR), TOGGLE)[0]) == CLOSED_DOOR
    assert ahead(played(corridor(CLOSED_DOOR), TOGGLE, TOGGLE)[0]) == CLOSED_DOOR


@pytest.mark.parametrize("hands", [0, GREEN_KEY, RED_BALL, EMPTY_BOX, KEY_BOX])
def test_a_locked_door_stays_locked_without_a_key_of_its_colour(corridor, hands):
    state = corridor(LOCKED_DOOR, carrying=hands)
    assert same_but_for_the_clock(state, played(state, TOGGLE)[0])


def test_a_key_of_its_colour_opens_a_locked_door_and_stays_in_the_hands(corridor):
    state, _ = played(corridor(LOCKED_DOOR, carrying=RED_KEY), TOGGLE)
    assert ahead(state) == OPEN_DOOR
    assert int(state.carrying) == RED_KEY


def test_a_door_once_unlocked_is_never_locked_again(corridor):
    state, _ = played(corridor(LOCKED_DOOR, carrying=RED_KEY), TOGGLE, TOGGLE)
    assert ahead(state) == CLOSED_DOOR
    empty_handed = corridor(ahead(state))
    assert ahead(played(empty_handed, TOGGLE)[0]) == OPEN_DOOR


@pytest.mark.parametrize("colour", range(6))
def test_each_colour_of_key_opens_its_own_doors_only(corridor, colour):
    key = cells.pack(cells.KEY, colour)
    opened = [
        ahead(played(corridor(cells.pack(cells.DOOR, other, cells.LOCKED), carrying=key), TOGGLE)[0])
        == cells.pack(cells.DOOR, other, cells.OPEN)
        for other in range(6)
    ]
    assert opened == [other == colour for other in range(6)]


def test_toggling_a_box_leaves_what_is_in_it(corridor):
    assert ahead(played(corridor(KEY_BOX), TOGGLE)[0]) == RED_KEY
    assert ahead(played(corridor(EMPTY_BOX), TOGGLE)[0]) == EMPTY


def test_toggling_a_box_does_not_ask_for_empty_hands(corridor):
    state, _ = played(corridor(KEY_BOX, carrying=BLUE_BALL), TOGGLE)
    assert ahead(state) == RED_KEY
    assert int(state.carrying) == BLUE_BALL


@pytest.mark.parametrize("thing", [EMPTY, WALL, FLOOR, RED_KEY, BLUE_BALL, GOAL, LAVA])
def test_toggling_anything_else_does_nothing(corridor, thing):
    state = corridor(thing, carrying=RED_KEY)
    assert same_but_for_the_clock(state, played(state, TOGGLE)[0])


def test_a_box_travels_with_what_is_in_it(corridor):
    carried, _ = played(corridor(KEY_BOX), PICKUP)
    assert int(carried.carrying) == KEY_BOX
    dropped, _ = played(carried, FORWARD, DROP, TOGGLE, PICKUP)
    assert int(dropped.carrying) == RED_KEY
    assert int(dropped.grid[3, 1]) == EMPTY


def test_standing_on_a_thing_and_walking_off_leaves_it_there(corridor):
    state, _ = played(corridor(OPEN_DOOR), FORWARD, FORWARD)
    assert tuple(np.asarray(state.position)) == (3, 1)
    assert ahead(state) == OPEN_DOOR


@pytest.mark.parametrize("action", [DONE, 7, 100, -1])
@pytest.mark.parametrize("thing", [CLOSED_DOOR, RED_KEY, KEY_BOX, EMPTY])
def test_done_and_unknown_actions_do_nothing(corridor, action, thing):
    state = corridor(thing)
    after, timestep = played(state, action)
    assert same_but_for_the_clock(state, after)
    assert not timestep.done
    assert timestep.reward == 0


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.uint8, jnp.int32, jnp.uint32])
def test_actions_may_be_integers_of_any_width(corridor, dtype):
    state = corridor(RED_KEY)
    for action in range(7):
        narrow, wide = rules.move(state, dtype(action)), rules.move(state, jnp.int32(action))
        assert all(map(np.array_equal, jax.tree.leaves(narrow), jax.tree.leaves(wide)))


def test_a_step_keeps_every_shape_and_type(corridor):
    state = corridor(KEY_BOX)
    shapes = jax.tree.map(lambda array: (array.shape, array.dtype), state)
    after, _ = played(state, PICKUP)
    assert jax.tree.map(lambda array: (array.shape, array.dtype), after) == shapes


@pytest.mark.parametrize("steps", [0, 1, 99, LIMIT - 2])
def test_reaching_the_goal_ends_the_episode_and_pays_less_the_later(corridor, steps):
    _, timestep = played(corridor(GOAL, step_count=steps), FORWARD)
    assert timestep.terminated
    assert not timestep.truncated
    assert timestep.reward == np.float32(1 - 0.9 * ((steps + 1) / LIMIT))


@pytest.mark.parametrize("action", [LEFT, RIGHT, PICKUP, DROP, TOGGLE, DONE])
def test_only_walking_onto_the_goal_counts(corridor, action):
    _, timestep = played(corridor(GOAL, carrying=RED_KEY), action)
    assert not timestep.terminated
    assert timestep.reward == 0


def test_turning_on_the_goal_does_not_pay_again(sketch):
    state = sketch("#####", "#>..#", "#####", under=GOAL)
    _, timestep = played(state, RIGHT)
    assert not timestep.terminated
    assert timestep.reward == 0


def test_lava_ends_the_episode_without_reward(corridor):
    _, timestep = played(corridor(LAVA), FORWARD)
    assert timestep.terminated
    assert timestep.reward == 0


def test_picking_up_the_target_ends_the_episode_with_a_reward(corridor):
    state, timestep = played(corridor(BLUE_BALL, target=BLUE_BALL, step_count=9), PICKUP)
    assert timestep.terminated
    assert timestep.reward == np.float32(1 - 0.9 * (10 / LIMIT))
    assert int(state.carrying) == BLUE_BALL


@pytest.mark.parametrize("other", [RED_BALL, RED_KEY, cells.pack(cells.KEY, cells.BLUE), KEY_BOX])
def test_picking_up_something_else_does_not_end_the_episode(corridor, other):
    _, timestep = played(corridor(other, target=BLUE_BALL), PICKUP)
    assert not timestep.terminated
    assert timestep.reward == 0


def test_a_target_that_cannot_be_taken_with_full_hands_does_not_count(corridor):
    _, timestep = played(corridor(BLUE_BALL, target=BLUE_BALL, carrying=RED_KEY), PICKUP)
    assert not timestep.terminated


def test_with_the_target_in_the_hands_any_pickup_ends_the_episode_as_in_farama(corridor):
    state = corridor(EMPTY, target=BLUE_BALL, carrying=BLUE_BALL)
    assert played(state, PICKUP)[1].terminated
    assert not any(played(state, action)[1].terminated for action in (LEFT, FORWARD, DROP, TOGGLE, DONE))


@pytest.mark.parametrize(("steps", "over"), [(LIMIT - 2, False), (LIMIT - 1, True), (LIMIT, True)])
def test_an_episode_is_truncated_at_its_last_step_and_not_before(corridor, steps, over):
    state, timestep = played(corridor(EMPTY, step_count=steps), LEFT)
    assert int(state.step_count) == steps + 1
    assert bool(timestep.truncated) == over
    assert not timestep.terminated
    assert bool(timestep.done) == over


def test_success_at_the_last_step_is_terminated_and_truncated_and_still_pays(corridor):
    _, timestep = played(corridor(GOAL, step_count=LIMIT - 1), FORWARD)
    assert timestep.terminated
    assert timestep.truncated
    assert timestep.reward == np.float32(1 - 0.9)
