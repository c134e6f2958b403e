"""Which levels can be solved at all, and which locked doors matter: reasoning on regions, without any plan.

Balls and boxes are taken to be out of the way whenever they have to be.
"""

from __future__ import annotations

from collections.abc import Collection

from gobi.envs.minigrid.solver.board import BLOCKED, Board, board, offers
from gobi.envs.minigrid.state import State


def solvable(state: State) -> bool:
    """Whether any actions, however many, could end the episode with success from this state."""
    return has_solution(board(state))


def has_solution(level: Board) -> bool:
    """The same of a board: opens every door whose key can be reached until nothing new comes of it."""
    if offers(level.hands, level.target):
        return True
    unlocked: set[int] = set()
    while True:
        region = flood(level, level.pose // 4, unlocked)
        if not region.isdisjoint(level.finishes(level.things)):
            return True
        found = [what for cell, what in level.things.items() if cell in region]
        found.append(level.hands)
        opened = {door for door, key in level.locks.items() if any(offers(what, key) for what in found)}
        if opened <= unlocked:
            return False
        unlocked |= opened


def flood(level: Board, start: int, unlocked: Collection[int]) -> set[int]:
    """The cells that can be reached from one when these locked doors are open and nothing lies about.

    Goals count as reached but are not passed through.
    """
    seen, edge = {start}, [start]
    for cell in edge:
        if level.entry[cell] == BLOCKED and cell not in unlocked and cell != start:
            continue
        for step in level.steps:
            there = cell + step
            if there not in seen and (
                level.entry[there] != BLOCKED or there in unlocked or there in level.goals
            ):
                seen.add(there)
                edge.append(there)
    return seen


def doors_that_matter(level: Board) -> list[int]:
    """The locked doors that a plan could have to open.

    Those around the region of a target, around the regions with their keys, and so on back to the agent's
    own; none if a target is in the agent's region.
    """
    home = flood(level, level.pose // 4, ())
    pending = list(level.finishes(level.things))
    if not home.isdisjoint(pending):
        return []
    seen: set[int] = set()
    doors: set[int] = set()
    for cell in pending:
        if cell in home or cell in seen:
            continue
        region = flood(level, cell, ())
        seen |= region
        for door, key in level.locks.items():
            sides = [door + step for step in level.steps if level.passable[door + step]]
            if door not in doors and not region.isdisjoint(sides):
                doors.add(door)
                pending += sides
                pending += [place for place, what in level.things.items() if offers(what, key)]
    return sorted(doors)
