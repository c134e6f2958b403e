"""Shortest ways over a board, counted in actions: turns, steps, and a toggle for each closed door."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gobi.envs.minigrid.rules import FORWARD, LEFT, RIGHT, TOGGLE
from gobi.envs.minigrid.solver.board import BLOCKED, FREE, SHUT, Board

FAR = 1 << 20
"""Longer than any way."""


class Ways(NamedTuple):
    """The shortest ways from one pose to all others.

    entry:   BLOCKED, FREE or SHUT for each cell.
    length:  the actions to each pose; FAR where there is no way.
    origin:  the pose before each pose; -1 for the first.
    order:   the poses that can be reached, nearest first.
    """

    entry: list[int]
    length: list[int]
    origin: list[int]
    order: list[int]


def shortest_ways(level: Board, entry: list[int], start: int) -> Ways:
    """The shortest ways from a pose: Dijkstra's algorithm with a list of poses for each length."""
    steps = level.steps
    length, origin = [FAR] * (4 * len(entry)), [-1] * (4 * len(entry))
    length[start] = 0
    order: list[int] = []
    now, next_, after_next = [start], [], []
    cost = 0
    while now or next_:
        for pose in now:
            if length[pose] < cost:
                continue
            order.append(pose)
            direction = pose & 3
            for turned in (pose - direction + (direction + 1 & 3), pose - direction + (direction - 1 & 3)):
                if length[turned] > cost + 1:
                    length[turned], origin[turned] = cost + 1, pose
                    next_.append(turned)
            ahead = pose + 4 * steps[direction]
            price = entry[ahead >> 2]
            if price != BLOCKED and length[ahead] > cost + price:
                length[ahead], origin[ahead] = cost + price, pose
                (next_ if price == FREE else after_next).append(ahead)
        now, next_, after_next = next_, after_next, []
        cost += 1
    return Ways(entry, length, origin, order)


def route(ways: Ways, pose: int) -> tuple[list[int], list[int]]:
    """The actions of the way to a pose, and the doors it opens."""
    actions: list[int] = []
    opened: list[int] = []
    while ways.origin[pose] >= 0:
        before = ways.origin[pose]
        if before >> 2 == pose >> 2:
            actions.append(RIGHT if before + 1 & 3 == pose & 3 else LEFT)
        else:
            actions.append(FORWARD)
            if ways.entry[pose >> 2] == SHUT:
                actions.append(TOGGLE)
                opened.append(pose >> 2)
        pose = before
    return actions[::-1], opened


def distances_to(level: Board, aims: Iterable[int]) -> list[int]:
    """From each pose, the fewest actions until one of the aims is in front of the agent.

    With every door open and nothing lying about: a lower bound, whatever the agent does before.
    """
    passable, steps = level.passable, level.steps
    length = [FAR] * (4 * len(passable))
    edge = [pose for aim in aims for pose in level.facing(aim)]
    for pose in edge:
        length[pose] = 0
    cost = 0
    while edge:
        cost += 1
        further = []
        for pose in edge:
            direction = pose & 3
            for before in (pose - direction + (direction + 1 & 3), pose - direction + (direction - 1 & 3)):
                if length[before] > cost:
                    length[before] = cost
                    further.append(before)
            behind = pose - 4 * steps[direction]
            if length[behind] > cost and passable[behind >> 2]:
                length[behind] = cost
                further.append(behind)
        edge = further
    return length
