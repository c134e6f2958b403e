"""Whatever the agent does, wherever it stands, the world keeps to its laws."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gobi.envs.minigrid import cells, make
from gobi.envs.minigrid.rules import DONE, DROP, FORWARD, HEADINGS, LEFT, PICKUP, RIGHT, TOGGLE

TASKS = (
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-KeyCorridorS4R3-v0",
    "MiniGrid-ObstructedMaze-1Dlhb-v0",
    "MiniGrid-MultiRoom-N2-S4-v0",
)
STEPS = 48
EXAMPLES = 50
HANDS = ["empty", "key to a door", "box with a key", "ball"]
ALWAYS = {"picked up", "dropped", "box opened", "door toggled", "success"}
EVENTS = dict.fromkeys(TASKS, ALWAYS | {"door unlocked"}) | {"MiniGrid-MultiRoom-N2-S4-v0": ALWAYS}
"""What must happen sooner or later: MultiRoom has no locks."""
HANDY = [DONE, LEFT, RIGHT, *[FORWARD] * 3, *[PICKUP] * 2, *[DROP] * 2, *[TOGGLE] * 3]
"""Actions, the ones that change things more often than the others; the dullest first, to shrink to."""


class Course(NamedTuple):
    """An episode on the host: what was before and after each action, and what the step gave."""

    actions: Any
    before: Any
    after: Any
    timestep: Any


@functools.cache
def unrolled(task: str):
    env = make(task)

    def update(state, action):
        after, timestep = env.step(state, action)
        return after, (state, after, timestep)

    return jax.jit(lambda state, actions: jax.lax.scan(update, state, actions)[1])


def places(level) -> list[tuple[int, int, int]]:
    """Where the agent could get to in a level and how it could look; first where it faces something."""
    kind = objects(level.grid)
    reached, frontier = set(), [tuple(map(int, level.position))]
    while frontier:
        x, y = frontier.pop()
        if (x, y) not in reached and kind[x, y] != cells.WALL:
            reached.add((x, y))
            frontier += [(x + dx, y + dy) for dx, dy in HEADINGS.tolist()]
    free = [(x, y, heading) for x, y in sorted(reached) if kind[x, y] == cells.EMPTY for heading in range(4)]

    def faces_nothing(place):
        x, y, heading = place
        dx, dy = HEADINGS[heading]
        return kind[x + dx, y + dy] in (cells.EMPTY, cells.WALL)

    return sorted(free, key=faces_nothing)


class Plan(NamedTuple):
    """Any level, any place in it, anything in the hands, any time of the episode, any actions."""

    level: int
    place: int
    hands: str
    steps_left: int
    actions: list[int]


plans = st.builds(
    Plan,
    level=st.integers(0, 199),
    place=st.integers(0, 29) | st.integers(0, 400),
    hands=st.sampled_from(HANDS),
    steps_left=st.sampled_from([1000, 1000, STEPS // 2, 1]),
    actions=st.lists(st.sampled_from(HANDY), min_size=STEPS, max_size=STEPS),
)


def carried_out(task: str, levels, plan: Plan) -> Course:
    level = jax.tree.map(lambda array: array[plan.level], levels)
    spots = places(level)
    x, y, heading = spots[plan.place % len(spots)]
    doors = level.grid[objects(level.grid) == cells.DOOR]
    # The greatest is a locked one, if there is any.
    door = int(doors.max() if plan.place % 3 else doors.min())
    colour = door >> cells.COLOUR_SHIFT & cells.COLOUR_MASK
    key = cells.pack(cells.KEY, colour)
    hands = {
        "empty": 0,
        "key to a door": key,
        "box with a key": cells.pack(cells.BOX, cells.GREY, 0, key),
        "ball": cells.pack(cells.BALL, cells.PURPLE),
    }
    clock = max(0, make(task).spec.max_steps - plan.steps_left)
    start = eqx.tree_at(
        lambda state: (state.position, state.direction, state.carrying, state.step_count),
        jax.tree.map(jnp.asarray, level),
        (jnp.array([x, y], jnp.int32), jnp.int32(heading), jnp.uint16(hands[plan.hands]), jnp.int32(clock)),
    )
    actions = np.array(plan.actions, np.int32)
    return Course(actions, *jax.tree.map(np.asarray, unrolled(task)(start, jnp.asarray(actions))))


def tally(states, *kinds: int):
    """How many of each kind and colour there are at each step: lying about, carried, or in boxes."""
    count = len(states.grid)
    everything = np.concatenate([states.grid.reshape(count, -1), states.carrying[:, None]], axis=1)
    inside = everything >> cells.CONTENTS_SHIFT
    both = np.concatenate([everything & cells.KIND_MASK, inside & cells.KIND_MASK], axis=1)
    wanted = [cells.pack(kind, colour) for kind in kinds for colour in range(6)]
    return np.stack([(both == kind).sum(axis=1) for kind in wanted], axis=1)


def ahead(states):
    """Where the cell in front of the agent is: an index into the grids."""
    return np.arange(len(states.grid)), *(states.position + HEADINGS[states.direction]).T


def here(states):
    return np.arange(len(states.grid)), *states.position.T


def objects(grid):
    return grid & cells.OBJECT_MASK


def door_states(grid):
    return grid >> cells.STATE_SHIFT & cells.STATE_MASK


def the_agent_is_where_it_may_be(course: Course):
    x, y = course.after.position.T
    width, height = course.after.grid.shape[1:]
    assert ((x > 0) & (x < width - 1) & (y > 0) & (y < height - 1)).all()
    under = course.after.grid[here(course.after)]
    kind = objects(under)
    open_door = (kind == cells.DOOR) & (door_states(under) == cells.OPEN)
    assert ((kind == cells.EMPTY) | (kind == cells.GOAL) | open_door).all()


def the_agent_moves_as_it_is_told(course: Course):
    step = course.after.position - course.before.position
    forward = step == HEADINGS[course.before.direction]
    assert (forward.all(axis=1) | (step == 0).all(axis=1)).all()
    assert (step[course.actions != FORWARD] == 0).all()
    turn = (course.after.direction - course.before.direction) % 4
    np.testing.assert_array_equal(
        turn, np.select([course.actions == LEFT, course.actions == RIGHT], [3, 1], 0)
    )


def keys_and_balls_are_never_lost_nor_made(course: Course):
    for states in (course.before, course.after):
        found = tally(states, cells.KEY, cells.BALL)
        assert (found == found[0]).all()


def boxes_go_only_by_being_opened(course: Course):
    lost = tally(course.before, cells.BOX).sum(axis=1) - tally(course.after, cells.BOX).sum(axis=1)
    opened = (course.actions == TOGGLE) & (objects(course.before.grid[ahead(course.before)]) == cells.BOX)
    np.testing.assert_array_equal(lost, opened)


def walls_goals_and_doors_stay_where_they_are(course: Course):
    before, after = course.before.grid, course.after.grid
    fixed = np.isin(objects(before), (cells.WALL, cells.GOAL))
    assert (before[fixed] == after[fixed]).all()
    assert (np.isin(objects(after), (cells.WALL, cells.GOAL)) == fixed).all()
    doors = objects(before) == cells.DOOR
    assert (doors == (objects(after) == cells.DOOR)).all()
    assert (before[doors] & cells.KIND_MASK == after[doors] & cells.KIND_MASK).all()
    edges = [np.s_[:, 0], np.s_[:, -1], np.s_[:, :, 0], np.s_[:, :, -1]]
    assert all((before[edge] == after[edge]).all() for edge in edges)


def doors_open_only_when_toggled_and_locks_only_to_their_key(course: Course):
    before, after = course.before.grid, course.after.grid
    changed = (objects(before) == cells.DOOR) & (before != after)
    assert (changed.sum(axis=(1, 2)) <= (course.actions == TOGGLE)).all()
    assert not (changed & (door_states(after) == cells.LOCKED)).any()
    unlocked = changed & (door_states(before) == cells.LOCKED)
    steps, x, y = np.nonzero(unlocked)
    colour = before[steps, x, y] >> cells.COLOUR_SHIFT & cells.COLOUR_MASK
    assert (course.before.carrying[steps] == cells.KEY | colour << cells.COLOUR_SHIFT).all()
    assert (door_states(after)[unlocked] == cells.OPEN).all()


def nothing_changes_but_what_the_agent_faces(course: Course):
    changed = course.before.grid != course.after.grid
    changed[ahead(course.before)] = False
    assert not changed.any()
    idle = np.isin(course.actions, (LEFT, RIGHT, FORWARD, DONE))
    assert (course.before.grid[idle] == course.after.grid[idle]).all()
    assert (course.before.carrying[idle] == course.after.carrying[idle]).all()


def episodes_end_as_they_should(course: Course, limit: int):
    steps = course.after.step_count
    np.testing.assert_array_equal(steps, course.before.step_count + 1)
    np.testing.assert_array_equal(course.before.step_count[1:], steps[:-1])
    np.testing.assert_array_equal(course.timestep.truncated, steps >= limit)
    moved = (course.after.position != course.before.position).any(axis=1)
    at_goal = moved & (objects(course.after.grid[here(course.after)]) == cells.GOAL)
    target = course.after.target
    held = (course.after.carrying & cells.KIND_MASK == target) & (target != 0)
    success = at_goal | held & (course.actions == PICKUP)
    np.testing.assert_array_equal(course.timestep.terminated, success)
    # After the last step of an episode that nobody ended, the reward stays at its least.
    worth = (1 - 0.9 * (np.minimum(steps, limit) / limit)).astype(np.float32)
    np.testing.assert_array_equal(course.timestep.reward, np.where(success, worth, np.float32(0)))


def observations_are_legal(course: Course):
    seen = course.timestep.observation
    assert (seen.dtype, seen.shape) == (np.uint8, (STEPS, 7, 7, 3))
    kind, colour, state = np.moveaxis(seen, -1, 0)
    assert (kind < cells.AGENT).all()
    assert (colour <= cells.GREY).all()
    assert (state <= cells.LOCKED).all()
    assert not state[kind != cells.DOOR].any()
    assert not colour[kind <= cells.EMPTY].any()
    in_hands = np.where(course.after.carrying == 0, cells.EMPTY, course.after.carrying & cells.KIND_MASK)
    np.testing.assert_array_equal(kind[:, 3, 6] | colour[:, 3, 6] << cells.COLOUR_SHIFT, in_hands)


def events(course: Course) -> set[str]:
    """What happened at all, to be sure that the laws were put to the test."""
    faced = course.before.grid[ahead(course.before)]
    changed = faced != course.after.grid[ahead(course.before)]
    kind = objects(faced)
    masks = {
        "picked up": changed & (course.actions == PICKUP),
        "dropped": changed & (course.actions == DROP),
        "box opened": changed & (course.actions == TOGGLE) & (kind == cells.BOX),
        "door toggled": changed & (kind == cells.DOOR),
        "door unlocked": changed & (kind == cells.DOOR) & (door_states(faced) == cells.LOCKED),
        "success": course.timestep.terminated,
    }
    return {name for name, mask in masks.items() if mask.any()}


def check_the_laws(course: Course, limit: int):
    the_agent_is_where_it_may_be(course)
    the_agent_moves_as_it_is_told(course)
    keys_and_balls_are_never_lost_nor_made(course)
    boxes_go_only_by_being_opened(course)
    walls_goals_and_doors_stay_where_they_are(course)
    doors_open_only_when_toggled_and_locks_only_to_their_key(course)
    nothing_changes_but_what_the_agent_faces(course)
    episodes_end_as_they_should(course, limit)
    observations_are_legal(course)


@pytest.mark.parametrize("task", TASKS)
def test_any_actions_keep_the_laws_of_the_world(task, first_levels):
    levels, limit = first_levels(task), make(task).spec.max_steps

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(plans)
    def check(plan: Plan):
        check_the_laws(carried_out(task, levels, plan), limit)

    check()


@pytest.mark.parametrize("task", TASKS)
def test_busy_agents_keep_the_laws_of_the_world_too(task, first_levels):
    levels, limit, rng = first_levels(task), make(task).spec.max_steps, np.random.default_rng(0)
    happened = set()
    for number in range(3 * EXAMPLES):
        actions = rng.choice(HANDY, STEPS).tolist()
        plan = Plan(number, int(rng.integers(30)), HANDS[number % 4], 2 * STEPS, actions)
        course = carried_out(task, levels, plan)
        check_the_laws(course, limit)
        happened |= events(course)
    assert happened >= EVENTS[task]
