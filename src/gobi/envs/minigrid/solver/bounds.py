"""Lower bounds on what is left of an episode: the legs still to go, as if nothing lay in the way of any."""

from __future__ import annotations

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.solver.board import Board, Things, kind, offers
from gobi.envs.minigrid.solver.distances import distances_to
from gobi.envs.minigrid.solver.solvable import doors_that_matter, flood

PICK_UP = PUT_DOWN = UNLOCK = OPEN_BOX = 1
"""What each costs, apart from the way there."""

Bound = list[tuple[list[int], int]]
"""Ways to go on: the distance to the next aim from each pose, and the least that is left after it.

From a pose the bound is the least of their sums; 0 if there are none."""


class Bounds:
    """Lower bounds for one board. They never exceed the true number of actions, so A* with them is exact."""

    def __init__(self, level: Board):
        self.level = level
        self.doors = doors_that_matter(level)
        self.keys = {level.locks[door] for door in self.doors}
        self.useful = self.keys | ({level.target} if level.target else set())
        self.before_doors = {pose >> 2 for door in self.doors for pose in level.facing(door)}
        self._distances: dict[tuple[int, ...], list[int]] = {}
        self._legs: dict[tuple[int, int], int] = {}
        self._regions: dict[frozenset[int], set[int]] = {}

    def left(self, things: Things, hands: int, opened: frozenset[int], laid_down: bool = False) -> Bound:
        """The least that is left when this lies about, this is carried, and these doors have been opened.

        laid_down:  what is carried has just been put down, it does not matter where.
        """
        level = self.level
        finishes = level.finishes(things)
        if not finishes or offers(hands, level.target):
            return []
        full = hands != 0 and not laid_down
        # A target can only be taken with empty hands; onto a goal one may carry anything.
        by_hand = not level.goals
        region = self._region(opened)
        ends = self._to(*finishes)
        if not self.doors or not region.isdisjoint(finishes):
            return [(ends, 1 + PUT_DOWN * (by_hand and full))]
        bound: Bound = []
        for door in self.doors:
            near_side = [pose for pose in level.facing(door) if pose >> 2 in region]
            if door in opened or not near_side:
                continue
            before, key = near_side[0] >> 2, level.locks[door]
            # A box may vanish at a toggle, whatever the hands hold: that would be another bound, and is rare.
            blocked = before in things and kind(things[before]) != cells.BOX and things[before] != key
            rest = UNLOCK + min(ends[pose] for pose in near_side) + 1 + PUT_DOWN * by_hand
            if offers(hands, key):
                bound += self._with_key(hands, door, before, blocked, laid_down, rest)
            else:
                sources = [cell for cell, what in things.items() if cell in region and offers(what, key)]
                for cell in sources:
                    take = PICK_UP + OPEN_BOX * (kind(things[cell]) == cells.BOX)
                    bound += self._without_key(cell, take, door, before, blocked, rest + PUT_DOWN * full)
        return bound or [(ends, 1)]

    def _with_key(
        self, hands: int, door: int, before: int, blocked: bool, laid_down: bool, rest: int
    ) -> Bound:
        """The least it takes to unlock a door with its key in hand, and then the rest."""
        if kind(hands) == cells.BOX:
            return [(self._to(door), rest)]
        if not blocked:
            return [(self._to(door), PICK_UP * laid_down + rest)]
        swap = PUT_DOWN * (not laid_down) + PICK_UP + PUT_DOWN + PICK_UP
        return [(self._to(before), swap + self._leg(before, door) + rest)]

    def _without_key(self, key: int, take: int, door: int, before: int, blocked: bool, rest: int) -> Bound:
        """The least it takes to fetch a key from its cell and unlock a door, and then the rest."""
        if not blocked:
            return [(self._to(key), take + self._leg(key, door) + rest)]
        clear = PICK_UP + PUT_DOWN
        key_last = clear + self._leg(before, key) + take + self._leg(key, door)
        key_first = take + PUT_DOWN + self._leg(key, before) + clear + PICK_UP + self._leg(before, door)
        return [(self._to(before), key_last + rest), (self._to(key), key_first + rest)]

    def _to(self, *aims: int) -> list[int]:
        if aims not in self._distances:
            self._distances[aims] = distances_to(self.level, aims)
        return self._distances[aims]

    def _leg(self, start: int, aim: int) -> int:
        """The actions from having one cell in front to having another one there."""
        if (start, aim) not in self._legs:
            to_aim = self._to(aim)
            self._legs[start, aim] = min(to_aim[pose] for pose in self.level.facing(start))
        return self._legs[start, aim]

    def _region(self, opened: frozenset[int]) -> set[int]:
        if opened not in self._regions:
            self._regions[opened] = flood(self.level, self.level.pose >> 2, opened)
        return self._regions[opened]
