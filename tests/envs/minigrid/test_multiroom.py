"""MultiRoom: chains of rooms are built by Farama's rules, and attempts that come through become levels."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import numpy as np
import pytest
from minigrid.envs import MultiRoomEnv

from gobi.envs.minigrid import MultiRoom, cells


@dataclasses.dataclass(frozen=True)
class FewAttempts(MultiRoom):
    """MultiRoom in chunks that are small enough to follow one by one."""

    @property
    def attempts(self) -> int:
        return 48

    @property
    def chunk_size(self) -> int:
        return 16


class FaramasRooms(MultiRoomEnv):
    """Farama's own placing of rooms, fed with our random words in place of its generator."""

    def placed(self, first_word: int, words) -> list:
        sizes = self.maxRoomSize - 3
        places = self.width - 2
        corner = first_word % places, first_word // places % places
        self.words = iter(words)
        self.extent = [first_word // places**2 % sizes, first_word // places**2 // sizes % sizes]
        self.calls = ["extent", "extent"]
        rooms = []
        self._placeRoom(self.maxNumRooms, rooms, 4, self.maxRoomSize, 2, corner)
        return rooms

    def _rand_elem(self, walls):
        word, sizes = int(next(self.words)), self.maxRoomSize - 3
        self.extent = [word // 3 % sizes, word // 3 // sizes % sizes]
        self.rest = word // 3 // sizes**2
        self.calls = ["along", "extent", "extent", "along"]
        return walls[word % 3]

    def _rand_int(self, low, high):
        if self.calls.pop(0) == "extent":
            return low + self.extent.pop(0)
        self.rest, drawn = divmod(self.rest, high - low)
        return low + drawn


@pytest.mark.parametrize("generator", [FewAttempts(6, 10), FewAttempts(5, 5, 14)], ids=str)
def test_rooms_are_placed_where_farama_places_them_with_the_same_luck(generator):
    count = 400
    key = jax.random.key(2)
    chains = jax.tree.map(np.asarray, jax.jit(generator._attempts, static_argnums=1)(key, count))
    first, later = jax.random.split(key)
    starts = np.asarray(jax.random.bits(first, (count,)))
    words = np.asarray(jax.random.bits(later, (8 * (generator.rooms - 1), count)))
    farama = FaramasRooms(**generator.farama()[1])
    for attempt in range(count):
        expected = farama.placed(int(starts[attempt]), words[:, attempt])
        placed = int(chains.placed[attempt])
        assert placed == len(expected)
        for number, room in enumerate(expected):
            assert tuple(chains.corner[attempt, number]) == tuple(room.top)
            assert tuple(chains.extent[attempt, number]) == tuple(room.size)
            assert tuple(chains.door[attempt, number]) == tuple(room.entryDoorPos)
    assert 10 < (chains.placed == generator.rooms).sum() < count - 10


def test_a_chunk_of_rooms_keeps_the_attempts_that_came_through_in_order_and_furnishes_them():
    generator = FewAttempts(4, 6)
    key = jax.random.key(5)
    chain_key, _ = jax.random.split(key)
    levels, count = jax.tree.map(np.asarray, jax.jit(generator.chunk)(key))
    chains = jax.tree.map(np.asarray, jax.jit(generator._attempts, static_argnums=1)(chain_key, 48))
    complete = np.flatnonzero(chains.placed == 4)
    assert count == min(len(complete), 16) > 8
    for number, attempt in enumerate(complete[:count]):
        grid = levels.grid[number]
        drawn = np.full((25, 25), cells.EMPTY_CELL)
        inside = []
        for corner, extent in zip(chains.corner[attempt], chains.extent[attempt], strict=True):
            (left, top), (right, bottom) = corner, corner + extent
            drawn[left:right, [top, bottom - 1]] = cells.WALL_CELL
            drawn[[left, right - 1], top:bottom] = cells.WALL_CELL
            inside.append((slice(left + 1, right - 1), slice(top + 1, bottom - 1)))
        doors = [tuple(place) for place in chains.door[attempt, 1:]]
        coats = [int(grid[door]) >> cells.COLOUR_SHIFT & cells.COLOUR_MASK for door in doors]
        assert all(one != other for one, other in itertools.pairwise(coats))
        for door, coat in zip(doors, coats, strict=True):
            assert drawn[door] == cells.WALL_CELL
            drawn[door] = cells.pack(cells.DOOR, coat, cells.CLOSED)
        ((goal_x, goal_y),) = np.argwhere(grid == cells.GOAL_CELL)
        drawn[goal_x, goal_y] = cells.GOAL_CELL
        np.testing.assert_array_equal(grid, drawn)
        assert (grid[inside[-1]] == cells.GOAL_CELL).any()
        x, y = levels.position[number]
        assert inside[0][0].start <= x < inside[0][0].stop
        assert inside[0][1].start <= y < inside[0][1].stop


def test_a_single_level_of_many_rooms_is_complete():
    generator = MultiRoom(4, 5)
    level = jax.jit(generator.one)(jax.random.key(0))
    assert (np.asarray(level.grid) & cells.OBJECT_MASK == cells.DOOR).sum() == 3
    assert (np.asarray(level.grid) == cells.GOAL_CELL).sum() == 1
