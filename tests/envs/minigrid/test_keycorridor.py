"""KeyCorridor: rooms are joined by doors as Farama joins them."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from minigrid.core.roomgrid import RoomGrid as FaramasRoomGrid
from minigrid.envs import KeyCorridorEnv

from gobi.envs.minigrid import cells, rooms
from gobi.envs.minigrid.draws import Draws
from gobi.envs.minigrid.keycorridor import _connect


class FaramasCorridor(KeyCorridorEnv):
    """Farama's own joining of rooms, its draws of walls given beforehand."""

    def doors(self, shut, right, down, walls):
        """Where doors are after all rooms are joined, and which of them is locked."""
        FaramasRoomGrid._gen_grid(self, self.width, self.height)
        self._move_doors(right, 0, (1, 0))
        self._move_doors(down, 1, (0, 1))
        for row in range(1, self.num_rows):
            self.remove_wall(1, row, 3)
        self.add_door(2, shut, 2, "red", locked=True)
        self.draws = [int(number) for wall in walls for number in wall]
        self.connect_all()
        del self.draws
        image = self.grid.encode()
        return {(x, y): image[x, y, 2] for x, y in np.argwhere(image[..., 0] == cells.DOOR)}

    def _move_doors(self, places, wall, step):
        for column, row in np.ndindex(places.shape[:2]):
            place = tuple(map(int, places[column, row]))
            self.get_room(column, row).door_pos[wall] = place
            self.get_room(column + step[0], row + step[1]).door_pos[wall + 2] = place

    def _rand_int(self, low, high):
        return self.draws.pop(0) if hasattr(self, "draws") else super()._rand_int(low, high)

    def _rand_elem(self, colours):
        return colours[0]


@pytest.mark.parametrize("rows", [1, 3])
def test_the_rooms_of_a_corridor_are_joined_as_by_farama_with_the_same_luck(rows):
    layout = rooms.RoomGrid(3, rows, 4)
    walls = [(column, row, 0) for column in (0, 1) for row in range(rows)]
    walls += [(column, row, 1) for column in (0, 2) for row in range(rows - 1)]

    def joined(key):
        place_key, join_key = jax.random.split(key)
        draws = Draws(place_key, 40)
        right, down, shut = layout.doors_right(draws), layout.doors_down(draws), draws.integer(0, rows)
        grid = rooms.put_at(layout.walls(), right[1, shut], cells.pack(cells.DOOR, 0, cells.LOCKED))
        grid = _connect(Draws(join_key, 2 * len(walls)), grid, shut, right, down)
        return grid, shut, right, down, Draws(join_key, 2 * len(walls)).order(len(walls))

    farama = FaramasCorridor(num_rows=rows, room_size=4)
    farama.reset(seed=0)
    count = 200
    found = jax.jit(jax.vmap(joined))(jax.random.split(jax.random.key(0), count))
    totals = set()
    for grid, shut, right, down, order in zip(*map(np.asarray, found), strict=True):
        ours = {
            (x, y): int(grid[x, y]) >> cells.STATE_SHIFT
            for x, y in np.argwhere(grid & cells.OBJECT_MASK == cells.DOOR)
        }
        assert ours == farama.doors(int(shut), right, down, [walls[number] for number in order])
        totals.add(len(ours))
    # More doors than a spanning tree would have come up too.
    assert len(totals) == (1 if rows == 1 else rows)
