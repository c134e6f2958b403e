"""Kinds of places in small levels drawn by hand."""

from __future__ import annotations

import numpy as np

from gobi.analysis import heatmap, places
from gobi.envs.minigrid import cells

DOOR = cells.pack(cells.DOOR, cells.RED)
KEY = cells.pack(cells.KEY, cells.RED)
ROWS = (
    "#############",
    "#...D...#...#",
    "#...#...D...#",
    "#...#.>.#.k.#",
    "#...#...#...#",
    "#####D#######",
    "#...........#",
    "#############",
)


def drawn(sketch):
    level = sketch(*ROWS, D=DOOR, k=KEY)
    return level, heatmap.reachable(level)


def test_an_empty_room_has_one_door_nothing_in_it_and_not_the_start(sketch):
    level, reachable = drawn(sketch)
    empty = places.empty_rooms(level, reachable)
    expected = np.zeros_like(empty)
    expected[1:4, 1:5] = True
    expected[1:12, 6] = True
    np.testing.assert_array_equal(empty, expected)


def test_a_passage_is_no_empty_room(sketch):
    rows = [*ROWS[:6], "#...........D", ROWS[7]]
    level = sketch(*rows, D=DOOR, k=KEY)
    assert not places.empty_rooms(level, heatmap.reachable(level))[1:12, 6].any()


def test_corners_have_walls_on_two_sides_and_borders_on_one(sketch):
    level, reachable = drawn(sketch)
    grid = np.asarray(level.grid)
    corners, borders = places.corners(grid, reachable), places.borders(grid, reachable)
    assert corners[1, 1]
    assert corners[1, 4]
    # Beside the door at (4, 1) there is a wall above, and none at the side.
    assert not corners[3, 1]
    assert borders[3, 1]
    assert not borders[2, 2]
    assert not borders[2, 3]
    assert not (corners & ~borders).any()


def test_shares_are_of_visits_and_of_cells(sketch):
    level, reachable = drawn(sketch)
    visits = np.zeros(reachable.shape, np.int64)
    visits[2, 2], visits[6, 3] = 1, 3
    found = places.shares(level, reachable, visits)
    assert found["visits_in_empty_rooms"] == 0.25
    assert found["visits_in_corners"] == 0
    assert found["cells_in_empty_rooms"] == round((12 + 11) / (12 * 3 + 11 + 3), 6)
