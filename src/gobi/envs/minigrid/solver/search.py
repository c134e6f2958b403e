"""Plans that end an episode with success: A* over errands.

An errand is a shortest way to some cell and one action there: pick up what lies there, put down what is
carried, unlock the door, open the box, step onto the goal. Closed doors are opened in passing. Where two
shortest ways open different doors, only one is tried, so that a plan may be an action too long now and then.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
from collections.abc import Collection, Iterator
from typing import NamedTuple

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.rules import DROP, FORWARD, PICKUP, TOGGLE
from gobi.envs.minigrid.solver.board import BLOCKED, FREE, Board, Things, board, contents, kind
from gobi.envs.minigrid.solver.bounds import Bound, Bounds
from gobi.envs.minigrid.solver.distances import FAR, Ways, route, shortest_ways
from gobi.envs.minigrid.solver.solvable import has_solution
from gobi.envs.minigrid.state import State

HASTE = 2.0
"""How much a quick search prefers moments near the end to plans that might be short."""
PATIENCE = 5000
"""Moments a quick search looks at before it gives up; a few dozen are usual."""


class Errand(NamedTuple):
    """Go to a pose and do something to the cell in front of it."""

    pose: int
    cell: int
    action: int


@dataclasses.dataclass(frozen=True, eq=False)
class Moment:
    """The time between two errands.

    pose, hands, things:  where the agent is, what it carries, what lies where.
    opened:               the doors opened so far.
    put_down:             the cell of the last thing put down since one was picked up; -1 if none.
    actions:              those of the errand that led here from the moment before.
    cost:                 the number of actions since the start.
    """

    pose: int
    hands: int
    things: Things
    opened: frozenset[int] = frozenset()
    put_down: int = -1
    before: Moment | None = None
    actions: tuple[int, ...] = ()
    cost: int = 0

    @functools.cached_property
    def identity(self) -> tuple:
        """Equal for moments after which all the same can be done."""
        return self.pose, self.hands, self.opened, frozenset(self.things.items())

    def plan(self) -> list[int]:
        """All actions since the start."""
        earlier = self.before.plan() if self.before else []
        return [*earlier, *self.actions]


def solve(state: State, effort: int = 0) -> list[int] | None:
    """Actions that end the episode with success from this state, or None if there is no way.

    With effort 0 it is the first plan that comes up. With more, up to `effort` moments between two errands
    are looked at for a shorter one; it takes about a hundred for most levels, a few thousand for a few. The
    step limit of the task plays no part.
    """
    level = board(state)
    if not has_solution(level):
        return None
    if level.target and level.hands & cells.KIND_MASK == level.target:
        return [PICKUP]
    bounds = Bounds(level)
    in_narrow_places = {cell for cell in level.things if _is_narrow(level, cell)}
    plan = _search(level, bounds, in_narrow_places, HASTE, PATIENCE)
    if plan is None:
        plan = _search(level, bounds, level.things, HASTE, PATIENCE)
    if plan is None or effort == 0:
        return plan
    return _search(level, bounds, level.things, 1.0, effort, shorter_than=len(plan)) or plan


def _search(
    level: Board,
    bounds: Bounds,
    in_the_way: Collection[int],
    haste: float,
    patience: int,
    shorter_than: int = FAR,
) -> list[int] | None:
    """The first plan that comes up, with haste 1 a shortest one; None if there is none within these limits.

    Of the things that are of no use, only those in_the_way are ever moved.
    """
    start = Moment(level.pose, level.hands, level.things)
    # The heap holds a moment and the next errand; the moment after it is made when its turn comes.
    waiting: list = [(0.0, 0, 0, start, None, None)]
    number, seen = 0, set()
    while waiting and patience > 0:
        *_, moment, ways, errand = heapq.heappop(waiting)
        if errand is not None:
            moment = _after(level, moment, ways, errand)
            if _is_success(level, errand, moment):
                return moment.plan()
        if moment.identity in seen:
            continue
        seen.add(moment.identity)
        patience -= 1
        ways = shortest_ways(level, _entry(level, moment), moment.pose)
        for errand, bound in _errands(level, bounds, in_the_way, moment, ways):
            cost = moment.cost + ways.length[errand.pose] + 1
            left = min((to_next[errand.pose] + rest for to_next, rest in bound), default=0)
            if cost + left < shorter_than and left < FAR:
                number += 1
                heapq.heappush(waiting, (cost + haste * left, -cost, number, moment, ways, errand))
    return None


def _is_success(level: Board, errand: Errand, after: Moment) -> bool:
    took_target = errand.action == PICKUP and after.hands & cells.KIND_MASK == level.target
    return took_target or errand.action == FORWARD


def _entry(level: Board, moment: Moment) -> list[int]:
    """What it costs to enter each cell at this moment."""
    entry = level.entry.copy()
    for door in moment.opened:
        entry[door] = FREE
    for cell in moment.things:
        entry[cell] = BLOCKED
    return entry


def _after(level: Board, moment: Moment, ways: Ways, errand: Errand) -> Moment:
    """The moment after an errand."""
    actions, opened = route(ways, errand.pose)
    things, hands, put_down = moment.things, moment.hands, moment.put_down
    if errand.cell in level.locks:
        opened.append(errand.cell)
    elif errand.action != FORWARD:
        things, hands = _handled(things, hands, errand.cell, errand.action)
    if errand.action == DROP:
        put_down = errand.cell
    elif errand.action == PICKUP or errand.cell == put_down:
        # A box put down and then opened has given way to something else.
        put_down = -1
    return Moment(
        pose=errand.pose,
        hands=hands,
        things=things,
        opened=moment.opened.union(opened),
        put_down=put_down,
        before=moment,
        actions=(*actions, errand.action),
        cost=moment.cost + len(actions) + 1,
    )


def _handled(things: Things, hands: int, cell: int, action: int) -> tuple[Things, int]:
    """Things and hands after picking up or putting down at a cell, or opening the box there."""
    things = dict(things)
    if action == DROP:
        things[cell] = hands
        return things, 0
    what = things.pop(cell)
    if action == PICKUP:
        return things, what
    if contents(what):
        things[cell] = contents(what)
    return things, hands


def _errands(
    level: Board, bounds: Bounds, in_the_way: Collection[int], moment: Moment, ways: Ways
) -> Iterator[tuple[Errand, Bound]]:
    """What could be done next, and lower bounds on what is then left."""
    hands, things, opened = moment.hands, moment.things, moment.opened
    for goal in level.goals:
        for pose in _poses(level, ways, goal):
            yield Errand(pose, goal, FORWARD), []
    for door in bounds.doors:
        if door not in opened and hands & cells.KIND_MASK == level.locks[door]:
            for pose in _poses(level, ways, door):
                yield Errand(pose, door, TOGGLE), bounds.left(things, hands, opened | {door})
    for cell, what in things.items():
        poses = _poses(level, ways, cell)
        if not poses:
            continue
        moved = level.things.get(cell) != what
        for action in _uses(bounds, moment, cell, what, moved or cell in in_the_way):
            bound = bounds.left(*_handled(things, hands, cell, action), opened)
            yield from ((Errand(pose, cell, action), bound) for pose in poses)
    if hands:
        yield from _drops(level, bounds, moment, ways)


def _poses(level: Board, ways: Ways, cell: int) -> list[int]:
    """The poses that face a cell and can be reached."""
    return [pose for pose in level.facing(cell) if ways.length[pose] < FAR]


def _uses(bounds: Bounds, moment: Moment, cell: int, what: int, in_the_way: bool) -> Iterator[int]:
    """What to do with a thing: open a box that holds something of use, take what is of use or in the way."""
    if kind(what) == cells.BOX and (in_the_way or contents(what) in bounds.useful):
        yield TOGGLE
    # To take again what was just put down is never better than to have kept it.
    if (
        not moment.hands
        and cell != moment.put_down
        and (in_the_way or what & cells.KIND_MASK in bounds.useful)
    ):
        yield PICKUP


def _drops(level: Board, bounds: Bounds, moment: Moment, ways: Ways) -> Iterator[tuple[Errand, Bound]]:
    """All places to put down what is carried."""
    things, hands, opened = moment.things, moment.hands, moment.opened
    anywhere = bounds.left(things, hands, opened, laid_down=True)
    # What is put down before a door that matters is in the way there.
    before_doors = {
        cell: bounds.left({**things, cell: hands}, 0, opened)
        for cell in bounds.before_doors
        if cell not in things
    }
    for pose in ways.order:
        cell = (pose >> 2) + level.steps[pose & 3]
        empty = kind(level.cells[cell]) == cells.EMPTY or cell in level.things
        if empty and cell not in things:
            yield Errand(pose, cell, DROP), before_doors.get(cell, anywhere)


def _is_narrow(level: Board, cell: int) -> bool:
    """Whether a thing here could cut the way: the free cells around it fall into pieces, with the other
    things there or without them.
    """
    right, down, left, up = level.steps
    ring = [cell + step for step in (right, right + down, down, down + left, left, left + up, up, up + right)]
    bare = [level.passable[place] for place in ring]
    cluttered = [free and place not in level.things for free, place in zip(bare, ring, strict=True)]
    return _pieces(bare) > 1 or _pieces(cluttered) > 1


def _pieces(ring: list[bool]) -> int:
    """Into how many pieces the free ones of the eight cells around a cell fall, lone corners not counted."""
    starts = [index for index in range(8) if ring[index] and not ring[index - 1]]
    return sum(index % 2 == 0 or ring[(index + 1) % 8] for index in starts)
