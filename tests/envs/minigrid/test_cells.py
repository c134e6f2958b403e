"""A packed cell says the same of an object as Farama's object says of itself."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from minigrid.core import constants
from minigrid.core.world_object import Ball, Box, Door, Floor, Goal, Key, Lava, Wall

from gobi.envs.minigrid import cells

DOOR_STATES = {cells.OPEN: (True, False), cells.CLOSED: (False, False), cells.LOCKED: (False, True)}


def every_object():
    """Each of Farama's objects in each of its colours and states, with its packed cell."""
    for colour, name in enumerate(cells.COLOUR_NAMES):
        yield Wall(name), cells.pack(cells.WALL, colour)
        yield Floor(name), cells.pack(cells.FLOOR, colour)
        yield Key(name), cells.pack(cells.KEY, colour)
        yield Ball(name), cells.pack(cells.BALL, colour)
        yield Box(name), cells.pack(cells.BOX, colour)
        yield Box(name, Key(name)), cells.pack(cells.BOX, colour, 0, cells.pack(cells.KEY, colour))
        yield Goal(name), cells.pack(cells.GOAL, colour)
        for state, (is_open, is_locked) in DOOR_STATES.items():
            yield Door(name, is_open, is_locked), cells.pack(cells.DOOR, colour, state)
    yield Lava(), cells.pack(cells.LAVA, cells.RED)


THINGS, PACKED = zip(*every_object(), strict=True)
CELLS = jnp.asarray(np.array(PACKED, np.uint16))


def test_objects_colours_and_states_are_numbered_as_farama_numbers_them():
    assert {name: number for number, name in enumerate(cells.OBJECT_NAMES)} == constants.OBJECT_TO_IDX
    assert {name: number for number, name in enumerate(cells.COLOUR_NAMES)} == constants.COLOR_TO_IDX
    states = {"open": cells.OPEN, "closed": cells.CLOSED, "locked": cells.LOCKED}
    assert states == constants.STATE_TO_IDX


def test_encoding_gives_faramas_three_channels():
    expected = np.array([thing.encode() for thing in THINGS], np.uint8)
    encoded = cells.encode(CELLS)
    assert encoded.dtype == jnp.uint8
    np.testing.assert_array_equal(encoded, expected)


@pytest.mark.parametrize(
    ("ours", "faramas"),
    [
        (cells.can_pick_up, "can_pickup"),
        (cells.can_enter, "can_overlap"),
        (cells.can_see_past, "see_behind"),
    ],
)
def test_what_can_be_done_with_an_object_is_what_farama_says(ours, faramas):
    np.testing.assert_array_equal(ours(CELLS), [getattr(thing, faramas)() for thing in THINGS])


def test_an_empty_cell_can_be_entered_and_seen_past_but_not_picked_up():
    empty = jnp.asarray(cells.EMPTY_CELL)
    assert cells.can_enter(empty)
    assert cells.can_see_past(empty)
    assert not cells.can_pick_up(empty)
    np.testing.assert_array_equal(cells.encode(empty), [cells.EMPTY, 0, 0])


def test_the_usual_cells_look_like_faramas_usual_objects():
    for ours, faramas in ((cells.WALL_CELL, Wall()), (cells.GOAL_CELL, Goal())):
        np.testing.assert_array_equal(cells.encode(jnp.asarray(ours)), faramas.encode())


def test_every_part_of_a_cell_comes_back_out_as_it_went_in():
    kinds = [cells.pack(kind, colour) for kind in (cells.KEY, cells.BALL) for colour in range(6)]
    parts = list(itertools.product(range(11), range(6), range(3), [0, *kinds]))
    packed = [cells.pack(*part) for part in parts]
    assert len(set(packed)) == len(parts)
    assert max(packed) < 2**16
    array = jnp.asarray(np.array(packed, np.uint16))
    readers = (cells.object_of, cells.colour_of, cells.state_of, cells.contents_of)
    found = np.stack([reader(array) for reader in readers], axis=1)
    assert all(reader(array).dtype == jnp.uint16 for reader in readers)
    np.testing.assert_array_equal(found, parts)


def test_the_kind_of_a_cell_is_object_and_colour_alone():
    key = cells.pack(cells.KEY, cells.YELLOW)
    assert cells.pack(cells.BOX, cells.GREY, 0, key) & cells.KIND_MASK == cells.pack(cells.BOX, cells.GREY)
    assert cells.pack(cells.DOOR, cells.RED, cells.LOCKED) & cells.KIND_MASK == cells.pack(
        cells.DOOR, cells.RED
    )
    assert key & cells.KIND_MASK == key


def test_empty_hands_are_no_cell_at_all():
    assert cells.NOTHING != cells.EMPTY_CELL
    assert cells.contents_of(jnp.uint16(cells.pack(cells.BOX, cells.RED))) == cells.NOTHING
