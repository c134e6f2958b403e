"""Where an agent goes as it learns: visits over levels at several snapshots, as in the paper's heatmaps."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, UInt16

from gobi.analysis import places
from gobi.analysis.evaluation import Playing, play
from gobi.envs.minigrid import State, cells, numbered_levels, rules, view
from gobi.envs.minigrid.registry import short
from gobi.envs.minigrid.state import nth
from gobi.errors import GobiError, require
from gobi.training import trained
from gobi.training.files import disk_errors, write_whole
from gobi.training.trained import Trained

SUFFIXES = (".png", ".pdf", ".svg")
NEVER_SEEN, SEEN, SEEN_WALL, HIDDEN_WALL = "#1d1d22", "#ffffff", "#9a9aa2", "#33333a"
"""As in the paper: black is what was never seen, white what was seen but never stepped on."""
VISITS = "YlOrRd"
COLOURS = ("#e03131", "#2b8a3e", "#1c5fd4", "#8427c9", "#e0a800", "#808080")
"""Red, green, blue, purple, yellow, grey."""
MARKERS = {cells.KEY: "P", cells.BALL: "o", cells.BOX: "D", cells.GOAL: "*", cells.DOOR: "s"}
WORDS = {cells.KEY: "key", cells.BALL: "ball", cells.BOX: "box", cells.GOAL: "goal", cells.DOOR: "door"}
AGENT = (">", "v", "<", "^")
SIDE = 2.4
"""The width of a map in inches."""


@dataclasses.dataclass(frozen=True)
class Map:
    """Where an agent went on one level, all its episodes together.

    frames:     what it had been trained on.
    number:     the level's number; `level` is the level itself.
    visits:     how often each cell was stepped on or turned on, the start included; [x, y].
    seen:       which cells were in view at some time.
    reachable:  which cells could be stepped on if all doors were open.
    successes:  how many of the episodes were solved.
    """

    frames: int
    number: int
    level: State
    episodes: int
    visits: Int[np.ndarray, "width height"]
    seen: Bool[np.ndarray, "width height"]
    reachable: Bool[np.ndarray, "width height"]
    successes: int

    @property
    def row(self) -> dict[str, int | float]:
        """The numbers behind the picture."""
        cells_there = int(self.reachable.sum())
        visited, seen = int((self.visits > 0).sum()), int((self.seen & self.reachable).sum())
        return {
            "frames": self.frames,
            "level": self.number,
            "episodes": self.episodes,
            "reachable_cells": cells_there,
            "visited_cells": visited,
            "seen_cells": seen,
            "share_visited": round(visited / cells_there, 6),
            "share_seen": round(seen / cells_there, 6),
            "success": round(self.successes / self.episodes, 6),
            **places.shares(self.level, self.reachable, self.visits),
        }


def stages(folder: Path, most: int | None = 5, at: Sequence[int] = ()) -> list[Trained]:
    """The first seed's agent at its snapshots, evenly spaced if there are too many; else as it is now.

    at:  instead: the snapshots that are nearest to these numbers of frames.
    """
    found = trained.snapshots(folder)
    if found and at:
        frames = np.array([int(path.stem) for path in found])
        nearest = sorted({int(np.abs(frames - wanted).argmin()) for wanted in at})
        return [trained.load_snapshot(folder, found[place]) for place in nearest]
    if not found:
        agents = trained.load(folder)
        return [trained.load(folder, agents.seeds[0])]
    count = min(len(found), most or len(found))
    chosen = sorted({round(place) for place in np.linspace(len(found) - 1, 0, count)})
    return [trained.load_snapshot(folder, found[place]) for place in chosen]


def maps(agents: Trained, numbers: Sequence[int], episodes: int, greedy: bool = False) -> list[Map]:
    """Lets an agent play so many episodes on each of the numbered levels, which it was not trained on."""
    each = [numbered_levels(agents.env, agents.level_seed, number, 1) for number in numbers]
    levels = jax.tree.map(lambda *parts: jnp.concatenate(parts), *each)
    lanes = np.repeat(np.arange(len(numbers)), episodes)
    starts = jax.tree.map(lambda part: part[lanes], levels)
    keys = jax.random.split(jax.random.key(agents.level_seed), len(lanes))
    shape = (len(numbers), *levels.grid.shape[1:])
    nowhere = jnp.asarray(lanes), jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool)
    played, (_, visits, seen) = play(
        agents.env, agents.actor(agents.seeds[0]), starts, keys, greedy, _watch, nowhere
    )
    solved = np.bincount(lanes, np.asarray(played.total) > 0, minlength=len(numbers))
    found = jax.tree.map(np.asarray, (levels, visits, seen))
    return [
        Map(
            frames=agents.frames,
            number=number,
            level=(level := nth(found[0], row)),
            episodes=episodes,
            visits=found[1][row],
            seen=found[2][row],
            reachable=reachable(level),
            successes=int(solved[row]),
        )
        for row, number in enumerate(numbers)
    ]


def _watch(kept: Any, playing: Playing) -> Any:
    """Adds where the lanes stand, and what they see from there, to what is kept for their levels."""
    level, visits, seen = kept
    x, y = playing.states.position[:, 0], playing.states.position[:, 1]
    visits = visits.at[level, x, y].add(playing.fresh)
    across, down = jax.vmap(places_in_view)(playing.states)
    visible = (playing.observation[..., 0] != cells.UNSEEN) & playing.fresh[:, None, None]
    # What is not in view is sent outside the grid, where nothing is written; negative places would wrap.
    across = jnp.where(visible & (across >= 0) & (down >= 0), across, seen.shape[1])
    seen = seen.at[level[:, None, None], across, down].set(True, mode="drop")
    return level, visits, seen


def places_in_view(state: State) -> tuple[Int32[Array, "7 7"], Int32[Array, "7 7"]]:
    """x and y in the grid of each cell [column, row] of the agent's view, outside the grid too."""
    ahead = rules.heading(state.direction)
    forward = view.AGENT_ROW - jnp.arange(view.SIZE)[None, :]
    sideways = jnp.arange(view.SIZE)[:, None] - view.AGENT_COLUMN
    # The agent's right hand points along (-dy, dx).
    x = state.position[0] + ahead[0] * forward - ahead[1] * sideways
    y = state.position[1] + ahead[1] * forward + ahead[0] * sideways
    return x, y


def reachable(level: State) -> Bool[np.ndarray, "width height"]:
    """The cells that the agent could stand on if every door were open and nothing lay about."""
    free = (np.asarray(level.grid) & cells.OBJECT_MASK) != cells.WALL
    reached = np.zeros(free.shape, bool)
    x, y = (int(place) for place in level.position)
    waiting = [(x, y)]
    while waiting:
        x, y = waiting.pop()
        if 0 <= x < free.shape[0] and 0 <= y < free.shape[1] and free[x, y] and not reached[x, y]:
            reached[x, y] = True
            waiting += [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
    return reached


def check_output(out: Path) -> None:
    """Refuses what `save` could not write."""
    if out.suffix.lower() not in SUFFIXES:
        raise GobiError(f"cannot write '{out}': the name must end in one of {', '.join(SUFFIXES)}")
    require("matplotlib", extra="plot")


def save(out: Path, task: str, found: Sequence[Sequence[Map]]) -> None:
    """Writes the picture, and its numbers as CSV beside it; `found` has a list of maps for each snapshot."""
    check_output(out)
    drawn, table = io.BytesIO(), io.StringIO()
    draw(task, found).savefig(drawn, format=out.suffix.lower()[1:], dpi=130)
    rows = [one.row for column in found for one in column]
    writer = csv.DictWriter(table, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with disk_errors(str(out)):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out.with_suffix(".csv"), table.getvalue().encode())
        write_whole(out, drawn.getvalue())


def draw(task: str, found: Sequence[Sequence[Map]], names: Sequence[str] = ()) -> Any:
    """The figure: a column for each snapshot, a row for each level; `names` go above the columns."""
    columns, rows = len(found), len(found[0])
    shown = _shown_cells(found[0])
    make = require("matplotlib.figure", extra="plot").Figure
    down = SIDE * shown[1] / shown[0]
    size = (max(6.0, SIDE * columns + 1.2), (down + 0.3) * rows + 1.3)
    figure = make(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    most = max(2, *(int(one.visits.max()) for column in found for one in column))
    scale = require("matplotlib.colors", extra="plot").LogNorm(1, most)
    paint = require("matplotlib", extra="plot").colormaps[VISITS]
    for column, maps_of_one in enumerate(found):
        name = f"{names[column]}\n" if names else ""
        axes[0, column].set_title(f"{name}{_frames(maps_of_one[0].frames)} frames", fontsize=11)
        for row, one in enumerate(maps_of_one):
            _draw_map(axes[row, column], one, lambda visits: paint(scale(visits))[..., :3])
            _crop(axes[row, column], one, shown)
            if column == 0:
                axes[row, column].set_ylabel(f"level {one.number}", fontsize=11)
    _dress(figure, axes, found, scale, paint)
    figure.suptitle(
        f"{short(task)}: {found[0][0].episodes} episodes per map, levels new to the agent", fontsize=12
    )
    return figure


def _dress(figure: Any, axes: Any, found: Sequence[Sequence[Map]], scale: Any, paint: Any) -> None:
    """The colour bar and the legend."""
    mappable = require("matplotlib.cm", extra="plot").ScalarMappable(scale, paint)
    figure.colorbar(mappable, ax=axes, shrink=0.8, pad=0.02, label="visits")
    patch = require("matplotlib.patches", extra="plot").Patch
    line = require("matplotlib.lines", extra="plot").Line2D
    handles = [
        patch(facecolor=SEEN, edgecolor="0.5", label="seen, never visited"),
        patch(facecolor=NEVER_SEEN, label="never seen"),
        patch(facecolor=SEEN_WALL, label="wall"),
        line([], [], marker=">", color="0.25", linestyle="", label="start"),
    ]
    there = {int(kind) for one in found[0] for kind in np.unique(one.level.grid & cells.OBJECT_MASK)}
    handles += [
        line(
            [],
            [],
            marker=MARKERS[kind],
            color="0.45",
            fillstyle=_filled(kind),
            linestyle="",
            label=WORDS[kind],
        )
        for kind in MARKERS
        if kind in there
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)


def _draw_map(axis: Any, one: Map, colour_of: Callable[[np.ndarray], np.ndarray]) -> None:
    rgb = require("matplotlib.colors", extra="plot").to_rgb
    grid = np.asarray(one.level.grid)
    wall = (grid & cells.OBJECT_MASK) == cells.WALL
    seen = (one.seen | (one.visits > 0))[..., None]
    picture = np.where(
        wall[..., None],
        np.where(seen, rgb(SEEN_WALL), rgb(HIDDEN_WALL)),
        np.where(seen, rgb(SEEN), rgb(NEVER_SEEN)),
    )
    picture = np.where(one.visits[..., None] > 0, colour_of(np.maximum(one.visits, 1)), picture)
    axis.imshow(picture.swapaxes(0, 1), interpolation="nearest")
    size = _marker(one)
    _draw_things(axis, grid, size)
    x, y = (int(place) for place in one.level.position)
    marker = AGENT[int(one.level.direction)]
    axis.plot(x, y, marker, color="0.2", markersize=size, markeredgecolor="white", markeredgewidth=0.5)
    row = one.row
    axis.set_xlabel(
        f"visited {row['share_visited']:.0%}, seen {row['share_seen']:.0%}, solved {row['success']:.0%}",
        fontsize=8,
    )
    axis.set_xticks([])
    axis.set_yticks([])


def _draw_things(axis: Any, grid: UInt16[np.ndarray, "width height"], size: float) -> None:
    """Doors and objects where they are at the start, faintly: they are what the agent is there for."""
    for (x, y), cell in np.ndenumerate(grid):
        kind, colour = int(cell) & cells.OBJECT_MASK, int(cell) >> cells.COLOUR_SHIFT & cells.COLOUR_MASK
        if kind in MARKERS:
            paint = COLOURS[min(colour, len(COLOURS) - 1)]
            edge = paint if kind == cells.DOOR else "white"
            style = dict(color=paint, markersize=size, alpha=0.8, fillstyle=_filled(kind))
            axis.plot(x, y, MARKERS[kind], markeredgecolor=edge, markeredgewidth=size / 12, **style)


def _filled(kind: int) -> str:
    return "none" if kind == cells.DOOR else "full"


def _marker(one: Map) -> float:
    """The size of a marker that fits into a cell, in points."""
    return min(11.0, 0.5 * 72 * SIDE / max(np.ptp(np.argwhere(one.reachable), axis=0) + 3))


def _shown_cells(levels: Sequence[Map]) -> tuple[int, int]:
    """How many cells across and down hold what can be reached in any of the levels, with the walls around."""
    boxes = [np.ptp(np.argwhere(one.reachable), axis=0) + 3 for one in levels]
    across, down = np.max(boxes, axis=0)
    return int(across), int(down)


def _crop(axis: Any, one: Map, shown: tuple[int, int]) -> None:
    """Leaves out the void around a level, for the same scale everywhere and the level in the middle."""
    places = np.argwhere(one.reachable)
    middle = (places.min(axis=0) + places.max(axis=0)) / 2
    for number, limit in enumerate((axis.set_xlim, axis.set_ylim)):
        low, high = middle[number] - shown[number] / 2, middle[number] + shown[number] / 2
        limit(*((low, high) if number == 0 else (high, low)))
    axis.set_facecolor(NEVER_SEEN)


def _frames(count: int) -> str:
    return f"{count / 1e6:.2f} M" if count >= 1_000_000 else f"{count:,}"
