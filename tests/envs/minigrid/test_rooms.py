"""Rooms on a grid are where Farama's RoomGrid has them, and things are put where it would put them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minigrid.core.mission import MissionSpace
from minigrid.core.roomgrid import RoomGrid as FaramasRoomGrid

from gobi.envs.minigrid import cells, rooms
from gobi.envs.minigrid.draws import Draws
from gobi.envs.minigrid.rules import HEADINGS

LAYOUTS = [rooms.RoomGrid(3, 3, 3), rooms.RoomGrid(2, 1, 6), rooms.RoomGrid(3, 2, 4), rooms.RoomGrid(1, 1, 5)]
KEYS = jax.random.split(jax.random.key(0), 1500)
BALL = cells.pack(cells.BALL, cells.BLUE)


def faramas(layout: rooms.RoomGrid, seed: int = 0) -> FaramasRoomGrid:
    farama = FaramasRoomGrid(
        room_size=layout.room_size,
        num_rows=layout.rows,
        num_cols=layout.columns,
        mission_space=MissionSpace(mission_func=lambda: "stay"),
    )
    farama.reset(seed=seed)
    return farama


def over_keys(function):
    """The results of a function of fresh draws, one for each of the keys."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(lambda key: function(Draws(key, 40))))(KEYS))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_walls_and_size_are_faramas(layout):
    farama = faramas(layout)
    assert layout.size == (farama.width, farama.height)
    np.testing.assert_array_equal(cells.encode(layout.walls()), farama.grid.encode())


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_middle_is_where_farama_supposes_the_agent(layout):
    assert layout.middle == tuple(map(int, faramas(layout).agent_pos))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_room_has_the_cells_of_faramas_room(layout):
    farama = faramas(layout)
    for column, row in np.ndindex(layout.columns, layout.rows):
        inside = farama.get_room(column, row).pos_inside
        expected = [[inside(x, y) for y in range(layout.size[1])] for x in range(layout.size[0])]
        np.testing.assert_array_equal(layout.room(column, row), expected)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_doors_may_be_anywhere_in_a_wall_but_in_its_corners(layout):
    right, down = over_keys(lambda draws: (layout.doors_right(draws), layout.doors_down(draws)))
    assert right.shape[1:] == (layout.columns - 1, layout.rows, 2)
    assert down.shape[1:] == (layout.columns, layout.rows - 1, 2)
    step = layout.room_size - 1
    between = range(1, step)
    for column, row in np.ndindex(right.shape[1:3]):
        expected = {(column * step + step, row * step + along) for along in between}
        assert set(map(tuple, right[:, column, row])) == expected
    for column, row in np.ndindex(down.shape[1:3]):
        expected = {(column * step + along, row * step + step) for along in between}
        assert set(map(tuple, down[:, column, row])) == expected


def test_doors_of_different_walls_are_drawn_apart():
    layout = rooms.RoomGrid(3, 1, 6)
    first, second = over_keys(lambda draws: layout.doors_right(draws)[:, 0, 1]).T
    assert len(set(zip(first, second, strict=True))) == 16


def test_a_thing_is_placed_in_any_free_cell_of_its_room_but_not_next_to_the_middle():
    layout = rooms.RoomGrid(3, 3, 6)
    taken = (7, 9)
    before = np.array(layout.walls())
    before[taken] = BALL
    grids = over_keys(lambda draws: layout.place(draws, jnp.asarray(before), 1, 1, cells.KEY))
    added = np.argwhere(grids != before)
    np.testing.assert_array_equal(added[:, 0], np.arange(len(KEYS)))
    assert (grids[grids != before] == cells.KEY).all()
    x, y = layout.middle
    interior = {(a, b) for a in range(6, 10) for b in range(6, 10)}
    near = {(a, b) for a, b in interior if abs(a - x) + abs(b - y) < 2}
    assert len(near) == 5
    assert set(map(tuple, added[:, 1:])) == interior - near - {taken}


def test_an_agent_is_placed_on_any_free_cell_facing_floor_or_wall_and_no_object():
    layout = rooms.RoomGrid(2, 1, 6)
    grid = np.array(layout.walls())
    grid[2, 2] = BALL
    grid[5, 3] = cells.pack(cells.DOOR, cells.RED, cells.LOCKED)
    position, direction = over_keys(lambda draws: layout.place_agent(draws, jnp.asarray(grid), 0, 0))
    bare = (int(cells.EMPTY_CELL), int(cells.WALL_CELL))
    allowed = {
        (x, y, heading)
        for x in range(1, 5)
        for y in range(1, 5)
        for heading, (dx, dy) in enumerate(HEADINGS)
        if grid[x, y] == cells.EMPTY_CELL and grid[x + dx, y + dy] in bare
    }
    assert len(allowed) == 15 * 4 - 5
    found = zip(*position.T, direction, strict=True)
    assert set(found) == allowed


def test_an_agent_is_as_likely_to_start_one_way_as_another():
    layout = rooms.RoomGrid(1, 1, 4)
    _, direction = over_keys(lambda draws: layout.place_agent(draws, layout.walls(), 0, 0))
    counts = np.bincount(direction)
    assert len(counts) == 4
    assert np.abs(counts - len(KEYS) / 4).max() < 5 * np.sqrt(len(KEYS) / 4)


def test_a_rectangle_covers_its_extent_from_its_corner():
    expected = np.zeros((6, 5), bool)
    expected[1:4, 2:4] = True
    np.testing.assert_array_equal(rooms.rectangle((6, 5), (1, 2), (3, 2)), expected)


def test_a_bordered_grid_is_walls_around_nothing():
    expected = np.full((6, 4), cells.WALL_CELL)
    expected[1:5, 1:3] = cells.EMPTY_CELL
    np.testing.assert_array_equal(rooms.bordered((6, 4)), expected)


def test_putting_a_thing_changes_one_cell_and_only_if_it_is_present():
    grid = rooms.bordered((6, 4))
    expected = np.array(grid)
    expected[4, 2] = BALL
    np.testing.assert_array_equal(rooms.put_at(grid, jnp.array([4, 2], jnp.int32), BALL), expected)
    np.testing.assert_array_equal(rooms.put(grid, 4 * 4 + 2, BALL), expected)
    np.testing.assert_array_equal(rooms.put_at(grid, jnp.array([4, 2], jnp.int32), BALL, False), grid)
    assert tuple(np.asarray(rooms.position((6, 4), jnp.int32(4 * 4 + 2)))) == (4, 2)
