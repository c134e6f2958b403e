"""Levels are legal, of whole numbers only, and made by Farama's rules."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest

from gobi.envs.minigrid import (
    DoorKey,
    Empty,
    KeyCorridor,
    MultiRoom,
    ObstructedMaze,
    ObstructedMaze1D,
    cells,
    make,
    oracle,
)
from gobi.envs.minigrid.rules import HEADINGS
from gobi.errors import GobiError

TASKS = (
    "MiniGrid-Empty-5x5-v0",
    "MiniGrid-DoorKey-6x6-v0",
    "MiniGrid-KeyCorridorS3R3-v0",
    "MiniGrid-ObstructedMaze-1Dl-v0",
    "MiniGrid-ObstructedMaze-1Dlhb-v0",
    "MiniGrid-ObstructedMaze-2Dlhb-v0",
    "MiniGrid-ObstructedMaze-Full-v1",
    "MiniGrid-MultiRoom-N2-S4-v0",
)
COUNTS = {
    # task: closed doors, locked doors, keys, boxes, balls, goals; None where it varies.
    "MiniGrid-Empty-5x5-v0": (0, 0, 0, 0, 0, 1),
    "MiniGrid-DoorKey-6x6-v0": (0, 1, 1, 0, 0, 1),
    "MiniGrid-KeyCorridorS3R3-v0": (None, 1, 1, 0, 1, 0),
    "MiniGrid-ObstructedMaze-1Dl-v0": (0, 1, 1, 0, 1, 0),
    "MiniGrid-ObstructedMaze-1Dlhb-v0": (0, 1, 0, 1, 2, 0),
    "MiniGrid-ObstructedMaze-2Dlhb-v0": (1, 2, 0, None, 3, 0),
    "MiniGrid-ObstructedMaze-Full-v1": (4, 8, 0, 8, 9, 0),
    "MiniGrid-MultiRoom-N2-S4-v0": (1, 0, 0, 0, 0, 1),
}
BLUE_BALL, GREEN_BALL = cells.pack(cells.BALL, cells.BLUE), cells.pack(cells.BALL, cells.GREEN)


@pytest.fixture(scope="module")
def levels_of(first_levels):
    """Levels of a task: our first ones, or twenty of Farama's, by which the tests themselves are tested."""

    def levels(task, source):
        return first_levels(task) if source == "ours" else oracle.farama_levels(make(task), 0, 20)

    return levels


def objects(grid):
    return grid & cells.OBJECT_MASK


def colours(grid):
    return grid >> cells.COLOUR_SHIFT & cells.COLOUR_MASK


def door_states(grid):
    return grid >> cells.STATE_SHIFT & cells.STATE_MASK


both_sources = pytest.mark.parametrize("source", ["ours", "faramas"])


@both_sources
@pytest.mark.parametrize("task", TASKS)
def test_a_level_is_a_fresh_state_with_the_agent_on_an_empty_cell(levels_of, task, source):
    levels, env = levels_of(task, source), make(task)
    number = np.arange(len(levels.grid))
    assert levels.grid.shape[1:] == env.generator.size
    assert (levels.grid[number, *levels.position.T] == cells.EMPTY_CELL).all()
    assert set(np.unique(levels.direction)) <= {0, 1, 2, 3}
    assert not levels.carrying.any()
    assert not levels.step_count.any()


@both_sources
@pytest.mark.parametrize("task", TASKS)
def test_a_level_has_all_its_things(levels_of, task, source):
    levels = levels_of(task, source)
    kind, state = objects(levels.grid), door_states(levels.grid)
    found = [
        (kind == cells.DOOR) & (state == cells.CLOSED),
        (kind == cells.DOOR) & (state == cells.LOCKED),
        *(kind == thing for thing in (cells.KEY, cells.BOX, cells.BALL, cells.GOAL)),
    ]
    for mask, expected in zip(found, COUNTS[task], strict=True):
        assert expected is None or (mask.sum(axis=(1, 2)) == expected).all()
    assert set(np.unique(kind)) <= {
        cells.EMPTY,
        cells.WALL,
        cells.DOOR,
        cells.GOAL,
        *range(cells.KEY, cells.BOX + 1),
    }


@both_sources
@pytest.mark.parametrize("task", TASKS)
def test_a_level_has_a_goal_to_reach_or_one_target_to_fetch_and_not_both(levels_of, task, source):
    levels = levels_of(task, source)
    goals = (objects(levels.grid) == cells.GOAL).sum(axis=(1, 2))
    targets = (levels.grid == levels.target[:, None, None]).sum(axis=(1, 2))
    np.testing.assert_array_equal(goals + np.where(levels.target != 0, targets, 0), 1)
    assert ((goals == 1) == (levels.target == 0)).all()


@both_sources
@pytest.mark.parametrize("task", TASKS)
def test_a_level_is_walled_in(levels_of, task, source):
    grid = levels_of(task, source).grid
    if "MultiRoom" in task:
        # Rooms lie anywhere on an empty grid, so it is the rooms that are walled in: nobody can leave.
        reached = [reachable(level) for level in grid]
        assert all(not (cell[[0, -1]].any() or cell[:, [0, -1]].any()) for cell in reached)
        return
    border = np.concatenate([grid[:, 0], grid[:, -1], grid[:, :, 0], grid[:, :, -1]], axis=1)
    assert (border == cells.WALL_CELL).all()


def reachable(grid):
    """The cells that can be walked to from the goal if doors were open and objects not in the way."""
    free = objects(grid) != cells.WALL
    seen = objects(grid) == cells.GOAL
    while True:
        wider = seen.copy()
        wider[1:] |= seen[:-1]
        wider[:-1] |= seen[1:]
        wider[:, 1:] |= seen[:, :-1]
        wider[:, :-1] |= seen[:, 1:]
        wider &= free
        if (wider == seen).all():
            return seen
        seen = wider


@both_sources
@pytest.mark.parametrize("task", [task for task in TASKS if "ObstructedMaze" in task])
def test_the_agent_of_a_maze_faces_floor_or_wall(levels_of, task, source):
    levels = levels_of(task, source)
    ahead = levels.position + HEADINGS[levels.direction]
    facing = objects(levels.grid[np.arange(len(ahead)), *ahead.T])
    assert set(np.unique(facing)) <= {cells.EMPTY, cells.WALL}


@both_sources
def test_the_agent_of_a_corridor_starts_in_its_middle_and_faces_no_object_and_no_lock(levels_of, source):
    levels = levels_of("MiniGrid-KeyCorridorS3R3-v0", source)
    assert (levels.position[:, 0] == 3).all()
    assert set(np.unique(levels.position[:, 1])) == {2, 3, 4}
    ahead = levels.position + HEADINGS[levels.direction]
    facing = levels.grid[np.arange(len(ahead)), *ahead.T]
    # Doors that join the rooms come after the agent, so it may look at one of those.
    assert set(np.unique(objects(facing))) <= {cells.EMPTY, cells.WALL, cells.DOOR}
    assert not (door_states(facing) == cells.LOCKED).any()


@both_sources
def test_a_corridors_key_fits_its_lock_and_its_ball_lies_behind_it(levels_of, source):
    levels = levels_of("MiniGrid-KeyCorridorS3R3-v0", source)
    for grid in levels.grid:
        ((lock_x, lock_y),) = np.argwhere(door_states(grid) == cells.LOCKED)
        ((key_x, key_y),) = np.argwhere(objects(grid) == cells.KEY)
        ((ball_x, ball_y),) = np.argwhere(objects(grid) == cells.BALL)
        assert colours(grid)[key_x, key_y] == colours(grid)[lock_x, lock_y]
        assert (lock_x, key_x, ball_x) == (4, 1, 5)
        assert lock_y == ball_y
    if source == "ours":
        balls = levels.target >> cells.COLOUR_SHIFT
        assert set(balls) == set(range(6))


@both_sources
def test_a_door_and_its_key_in_doorkey_are_where_farama_puts_them(levels_of, source):
    levels = levels_of("MiniGrid-DoorKey-6x6-v0", source)
    yellow_lock = cells.pack(cells.DOOR, cells.YELLOW, cells.LOCKED)
    for grid, position in zip(levels.grid, levels.position, strict=True):
        ((wall, door_y),) = np.argwhere(grid == yellow_lock)
        ((key_x, _),) = np.argwhere(grid == cells.pack(cells.KEY, cells.YELLOW))
        assert wall in (2, 3)
        assert door_y in (1, 2, 3)
        assert key_x < wall
        assert position[0] < wall
        assert grid[4, 4] == cells.GOAL_CELL
        assert (np.delete(grid[wall], door_y) == cells.WALL_CELL).all()


@both_sources
@pytest.mark.parametrize("task", ["MiniGrid-ObstructedMaze-1Dlhb-v0", "MiniGrid-ObstructedMaze-Full-v1"])
def test_a_mazes_boxes_hold_the_keys_to_its_locks_and_balls_bar_them(levels_of, task, source):
    for grid in levels_of(task, source).grid:
        locks = np.argwhere(door_states(grid) == cells.LOCKED)
        boxes = grid[objects(grid) == cells.BOX]
        held = boxes >> cells.CONTENTS_SHIFT
        assert (colours(boxes) == cells.GREY).all()
        assert (objects(held) == cells.KEY).all()
        assert sorted(colours(held)) == sorted(colours(grid)[*locks.T])
        for lock in locks:
            around = [grid[*(lock + step)] for step in HEADINGS]
            assert around.count(GREEN_BALL) == 1
        assert (grid == BLUE_BALL).sum() == 1
        assert (grid == GREEN_BALL).sum() == len(locks)


def test_the_first_mazes_lose_a_key_now_and_then_and_the_repaired_ones_never(first_levels):
    for task, ever in (("2Dlhb-v0", True), ("Full-v1", False)):
        grid = first_levels(f"MiniGrid-ObstructedMaze-{task}").grid
        locks = (door_states(grid) == cells.LOCKED).sum(axis=(1, 2))
        boxes = (objects(grid) == cells.BOX).sum(axis=(1, 2))
        assert (boxes < locks).any() == ever
        assert (locks - boxes <= 1).all()


def test_empty_is_always_the_one_level_that_farama_has(first_levels):
    task = "MiniGrid-Empty-5x5-v0"
    (farama,) = oracle.farama_levels(make(task), 5, 1).grid
    levels = first_levels(task)
    assert (levels.grid == farama).all()
    assert (levels.position == 1).all()
    assert (levels.direction == 0).all()


@pytest.mark.parametrize("task", [task for task in TASKS if "Empty" not in task])
def test_levels_differ_from_one_another(first_levels, task):
    levels = first_levels(task)
    different = {
        tuple(map(bytes, parts)) for parts in zip(levels.grid, levels.position, levels.direction, strict=True)
    }
    assert len(different) > 100


def test_the_same_key_makes_the_same_level_alone_in_a_batch_and_uncompiled():
    generator = DoorKey(6)
    keys = jax.random.split(jax.random.key(11), 3)
    batch = jax.jit(jax.vmap(generator.one))(keys)
    alone = generator.one(keys[1])
    for one, many in zip(jax.tree.leaves(alone), jax.tree.leaves(batch), strict=True):
        np.testing.assert_array_equal(one, many[1])


FAMILIES = [
    Empty(5),
    DoorKey(5),
    KeyCorridor(3, 2),
    ObstructedMaze1D(),
    ObstructedMaze(quarters=4, keys_after_balls=False),
    MultiRoom(6, 10),
]


@pytest.mark.parametrize("generator", FAMILIES, ids=lambda generator: type(generator).__name__)
def test_no_level_depends_on_a_fraction_and_chunks_have_the_promised_shapes(generator):
    jaxpr, (levels, count) = jax.make_jaxpr(generator.chunk, return_shape=True)(jax.random.key(0))
    # Integer arithmetic is the same on every device; that of fractions is not.
    types = set(re.findall(r":(\w+)\[", str(jaxpr)))
    assert "i32" in types
    assert not any(re.fullmatch(r"(f|bf|c)\d+", name) for name in types)
    width, height = generator.size
    n = generator.chunk_size
    parts = vars(levels).items()
    found = {name: None if part is None else (part.shape, str(part.dtype)) for name, part in parts}
    assert found == {
        "grid": ((n, width, height), "uint16"),
        "position": ((n, 2), "int32"),
        "direction": ((n,), "int32"),
        "carrying": ((n,), "uint16"),
        "target": ((n,), "uint16"),
        "step_count": ((n,), "int32"),
        "noise": None,
    }
    assert (count.shape, str(count.dtype)) == ((), "int32")


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        (Empty, {"side": 3}),
        (DoorKey, {"side": 4}),
        (KeyCorridor, {"room_size": 2}),
        (KeyCorridor, {"rows": 0}),
        (ObstructedMaze, {"quarters": 0}),
        (ObstructedMaze, {"quarters": 5}),
        (ObstructedMaze, {"agent_room": (3, 0)}),
        (ObstructedMaze, {"rooms_visited": 0}),
        (MultiRoom, {"rooms": 0}),
        (MultiRoom, {"max_size": 3}),
        (MultiRoom, {"max_size": 10, "side": 10}),
        (MultiRoom, {"rooms": 30, "side": 15}),
        (MultiRoom, {"max_size": 60, "side": 100}),
    ],
)
def test_sizes_that_cannot_be_are_refused_and_named(family, sizes):
    with pytest.raises(GobiError, match=re.escape(str(next(iter(sizes.values()))))):
        family(**sizes)
