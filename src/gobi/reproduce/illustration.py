"""The paper's example of why growth should be counted: nine states, planned exactly.

The states are a square of three by three, and a move goes to any neighbour, also diagonally. One wants to
know all nine, and a state is known as soon as it is within one move. Paid by growth (GoBI), the best first
move is to the centre, from where everything is known. Paid for growing at all (R2), smaller steps are better.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

from gobi.errors import require

SIDE = 3
STATES = frozenset((x, y) for x in range(SIDE) for y in range(SIDE))
START = (0, 0)
CENTRE = (1, 1)

State = tuple[int, int]
Known = frozenset[State]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The best moves, and what they are worth.

    path:   the states gone through, the start first; it ends where nothing more is to be gained.
    gains:  how many states each move made known.
    value:  discounted reward of it all.
    """

    path: tuple[State, ...]
    gains: tuple[int, ...]
    value: float


def neighbours(state: State) -> list[State]:
    """Where one move leads."""
    x, y = state
    around = [(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if (dx, dy) != (0, 0)]
    return [other for other in around if other in STATES]


def within_reach(state: State) -> Known:
    """The state itself, and what one move leads to."""
    return frozenset([state, *neighbours(state)])


def growth(gain: int) -> float:
    """GoBI's reward: how many states became known."""
    return float(gain)


def grew(gain: int) -> float:
    """R2's reward: whether any did."""
    return float(gain > 0)


def plan(reward: Callable[[int], float], discount: float = 0.99) -> Plan:
    """The best plan from the corner, by trying all of them."""

    @functools.cache
    def best(state: State, known: Known) -> tuple[float, tuple[State, ...]]:
        """Value and moves from here on. Moves that gain nothing lead to one that does, or are not made."""
        values: list[tuple[float, tuple[State, ...]]] = [(0.0, ())]
        for steps, path in _ways(state):
            after = known | within_reach(path[-1])
            gain = len(after) - len(known)
            if gain and all(within_reach(passed) <= known for passed in path[:-1]):
                later, moves = best(path[-1], after)
                values.append((discount ** (steps - 1) * (reward(gain) + discount * later), path + moves))
        return max(values, key=lambda found: found[0])

    value, moves = best(START, within_reach(START))
    path, known, gains = (START, *moves), within_reach(START), []
    for state in moves:
        gains.append(len(known | within_reach(state)) - len(known))
        known |= within_reach(state)
    return Plan(path, tuple(gains), value)


def _ways(start: State) -> list[tuple[int, tuple[State, ...]]]:
    """A shortest way to every other state."""
    ways: dict[State, tuple[State, ...]] = {start: ()}
    frontier = [start]
    while frontier:
        reached = []
        for state in frontier:
            for other in neighbours(state):
                if other not in ways:
                    ways[other] = (*ways[state], other)
                    reached.append(other)
        frontier = reached
    return [(len(path), path) for path in ways.values() if path]


def draw(path: Path) -> None:
    """Both plans beside each other, what is known after each move in the darker shade."""
    pyplot = require("matplotlib.pyplot", extra="plot")
    plans = {"GoBI: paid by growth": plan(growth), "R2: paid for growing": plan(grew)}
    longest = max(len(one.path) for one in plans.values())
    figure, axes = pyplot.subplots(2, longest, figsize=(2 * longest, 5), squeeze=False)
    for row, (name, one) in zip(axes, plans.items(), strict=True):
        known: Known = frozenset()
        for number, axis in enumerate(row):
            axis.set_axis_off()
            if number >= len(one.path):
                continue
            known |= within_reach(one.path[number])
            _draw_square(axis, one.path[: number + 1], known)
            gained = f"move {number}: +{one.gains[number - 1]}" if number else "start"
            axis.set_title(f"{gained}, {len(known)} known", fontsize=9)
        row[0].text(-0.6, -1.3, name, fontsize=10, fontweight="bold")
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot.close(figure)


def _draw_square(axis, path: tuple[State, ...], known: Known) -> None:
    for x, y in STATES:
        shade = "#8ecae6" if (x, y) in known else "#f1f1f1"
        axis.add_patch(_circle(x, y, shade))
    xs, ys = zip(*path, strict=True)
    axis.plot(xs, ys, color="#d62828", linewidth=2)
    axis.plot(xs[-1], ys[-1], "o", color="#d62828", markersize=8)
    axis.set_xlim(-0.6, SIDE - 0.4)
    axis.set_ylim(SIDE - 0.4, -0.6)
    axis.set_aspect("equal")


def _circle(x: int, y: int, shade: str):
    patches = require("matplotlib.patches", extra="plot")
    return patches.Circle((x, y), 0.32, facecolor=shade, edgecolor="#555555")
