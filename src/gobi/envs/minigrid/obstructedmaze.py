"""ObstructedMaze: locked doors, keys hidden in boxes, balls in front of doors; fetch the blue ball."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int32, Key

from gobi.envs.minigrid import cells, rooms
from gobi.envs.minigrid.draws import Draws
from gobi.envs.minigrid.generator import PlainGenerator
from gobi.envs.minigrid.rules import HEADINGS
from gobi.envs.minigrid.state import State, level
from gobi.errors import GobiError

ROOM_SIZE = 6
TARGET = cells.pack(cells.BALL, cells.BLUE)
BLOCKING_BALL = cells.pack(cells.BALL, cells.GREEN)
MIDDLE_ROOM = (1, 1)
SIDE_ROOMS = ((2, 1), (1, 2), (0, 1), (1, 0))
CORNERS = ((2, 0), (2, 2), (0, 2), (0, 0))
RIGHT_OF, BELOW, LEFT_OF, ABOVE = range(4)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Maze(PlainGenerator):
    """What both forms of the maze share."""

    key_in_box: bool = True
    blocked: bool = True

    def _key(self, colour: Int32[Array, ""]) -> Int32[Array, ""]:
        """The key to a door of this colour, in its grey box or bare."""
        key = cells.KEY | colour << cells.COLOUR_SHIFT
        if not self.key_in_box:
            return key
        return cells.pack(cells.BOX, cells.GREY) | key << cells.CONTENTS_SHIFT

    def _locked_door(
        self, grid: rooms.Grid, place: Int32[Array, "2"], side: int, colour: Int32[Array, ""]
    ) -> rooms.Grid:
        """A locked door and, where doors are blocked, a ball before it, over whatever lies there."""
        door = cells.pack(cells.DOOR, 0, cells.LOCKED) | colour << cells.COLOUR_SHIFT
        grid = rooms.put_at(grid, place, door)
        if self.blocked:
            grid = rooms.put_at(grid, place - jnp.asarray(HEADINGS[side]), BLOCKING_BALL)
        return grid

    def _farama_options(self) -> dict[str, Any]:
        return {"key_in_box": self.key_in_box, "blocked": self.blocked}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObstructedMaze1D(_Maze):
    """ObstructedMaze 1Dl, 1Dlh, 1Dlhb: two rooms and the locked door between them."""

    @property
    def rooms(self) -> rooms.RoomGrid:
        """The rooms without their door."""
        return rooms.RoomGrid(2, 1, ROOM_SIZE)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the grid."""
        return self.rooms.size

    @property
    def max_steps(self) -> int:
        """Farama's limit, for two rooms visited."""
        return 4 * 2 * ROOM_SIZE**2

    @property
    def name(self) -> str:
        """The id, with its options."""
        return f"gobi/ObstructedMaze-1Dl{'h' * self.key_in_box}{'b' * self.blocked}"

    def level(self, key: Key[Array, ""]) -> State:
        """The door and what guards it, the ball behind it, the agent before it."""
        layout = self.rooms
        draws = Draws(key, words=5)
        colour = draws.integer(0, 6)
        grid = self._locked_door(layout.walls(), layout.doors_right(draws)[0, 0], RIGHT_OF, colour)
        grid = layout.place(draws, grid, 0, 0, self._key(colour))
        grid = layout.place(draws, grid, 1, 0, TARGET)
        agent, direction = layout.place_agent(draws, grid, 0, 0)
        return level(grid, agent, direction, jnp.uint16(TARGET))

    def farama(self) -> tuple[str, dict[str, Any]]:
        """Farama's class and arguments."""
        return "ObstructedMaze_1Dlhb", self._farama_options()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObstructedMaze(_Maze):
    """Three by three rooms, of which 1 to 4 quarters have doors.

    quarters:         how many of the four side rooms are in use; each leads to two corners.
    agent_room:       column and row of the room that the agent starts in.
    key_in_box:       keys are hidden in boxes.
    blocked:          a ball lies in front of each locked door.
    rooms_visited:    sets the step limit, as in Farama's class.
    keys_after_balls: False is Farama's v0, in which a side room's second ball may fall on the first box and
                      destroy the key in it; True is v1, in which the boxes are placed last.
    """

    quarters: int = 4
    agent_room: tuple[int, int] = MIDDLE_ROOM
    rooms_visited: int = 25
    keys_after_balls: bool = True

    def __post_init__(self):
        if not 1 <= self.quarters <= 4:
            raise GobiError(f"ObstructedMaze has 1 to 4 quarters, got {self.quarters}")
        in_use = (MIDDLE_ROOM, *SIDE_ROOMS[: self.quarters])
        if self.agent_room not in in_use:
            raise GobiError(
                f"with quarters={self.quarters} the agent can start in the rooms "
                f"{', '.join(map(str, in_use))}, got agent_room={self.agent_room}"
            )
        if self.rooms_visited < 1:
            raise GobiError(f"ObstructedMaze needs rooms_visited >= 1, got {self.rooms_visited}")

    @property
    def rooms(self) -> rooms.RoomGrid:
        """The rooms without their doors."""
        return rooms.RoomGrid(3, 3, ROOM_SIZE)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the grid."""
        return self.rooms.size

    @property
    def max_steps(self) -> int:
        """Farama's limit."""
        return 4 * self.rooms_visited * ROOM_SIZE**2

    @property
    def name(self) -> str:
        """The id, with its options."""
        options = f"{'h' * self.key_in_box}{'b' * self.blocked}-v{int(self.keys_after_balls)}"
        column, row = self.agent_room
        return f"gobi/ObstructedMaze-{self.quarters}Q-from{column}{row}-l{options}"

    def level(self, key: Key[Array, ""]) -> State:
        """Side rooms one after the other, then the ball in a corner, then the agent."""
        layout = self.rooms
        draws = Draws(key, words=21 + 2 * self.quarters)
        right, down = layout.doors_right(draws), layout.doors_down(draws)
        colours = draws.order(6)
        grid = layout.walls()
        for quarter, room in enumerate(SIDE_ROOMS[: self.quarters]):
            entry = cells.pack(cells.DOOR, 0, cells.CLOSED) | colours[quarter] << cells.COLOUR_SHIFT
            grid = rooms.put_at(grid, _door_place(right, down, MIDDLE_ROOM, quarter), entry)
            grid = self._side_room(draws, grid, right, down, colours, quarter, room)
        corners = jnp.array(CORNERS[: self.quarters], jnp.int32)
        column, row = corners[draws.integer(0, self.quarters)]
        grid = layout.place(draws, grid, column, row, TARGET)
        agent, direction = layout.place_agent(draws, grid, *self.agent_room)
        return level(grid, agent, direction, jnp.uint16(TARGET))

    def _side_room(self, draws, grid, right, down, colours, quarter, room) -> rooms.Grid:
        """The two locked doors of a side room, their balls and their keys."""
        column, row = room
        doors = [((quarter + turn) % 4, colours[(quarter + turn) % 6]) for turn in (-1, 1)]
        for side, colour in doors:
            grid = self._locked_door(grid, _door_place(right, down, room, side), side, colour)
            if not self.keys_after_balls:
                grid = self.rooms.place(draws, grid, column, row, self._key(colour))
        if self.keys_after_balls:
            for _, colour in doors:
                grid = self.rooms.place(draws, grid, column, row, self._key(colour))
        return grid

    def farama(self) -> tuple[str, dict[str, Any]]:
        """Farama's class and arguments."""
        name = "ObstructedMaze_Full_V1" if self.keys_after_balls else "ObstructedMaze_Full"
        return name, self._farama_options() | {
            "agent_room": self.agent_room,
            "num_quarters": self.quarters,
            "num_rooms_visited": self.rooms_visited,
        }


def _door_place(
    right: Int32[Array, "2 3 2"], down: Int32[Array, "3 2 2"], room: tuple[int, int], side: int
) -> Int32[Array, "2"]:
    """The place for a door in one of a room's four walls."""
    column, row = room
    if side == RIGHT_OF:
        return right[column, row]
    if side == LEFT_OF:
        return right[column - 1, row]
    return down[column, row] if side == BELOW else down[column, row - 1]
