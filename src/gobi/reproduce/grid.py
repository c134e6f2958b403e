"""What came of a search over two settings: for each method a table, kept and drawn, and its best cell."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from gobi.analysis import statistics
from gobi.analysis.comparison import millions
from gobi.analysis.scores import Scored
from gobi.envs.minigrid.registry import bare
from gobi.errors import require
from gobi.reproduce.evidence import Compared, arm_name
from gobi.reproduce.figures import png
from gobi.reproduce.study import Arm, Study, short
from gobi.training.files import disk_errors, write_whole

SCORES = (
    "seeds", "area", "lowest_area", "highest_area", "solved", "frames_to_return", "wanted_return", "frames",
    "best", "run",
)  # fmt: skip
"""The columns of the CSV file after task, method and the two settings."""


@dataclasses.dataclass(frozen=True, eq=False)
class Score:
    """What came of the runs of one cell.

    arm:        the arm, which knows its cell.
    folders:    where its runs lie.
    area:       the mean return over the common frames, of each seed: what cells are ranked by.
    solved:     the share of the seeds that reached the threshold.
    frames:     the mean frames until they did; a seed that did not counts with all it had.
    threshold:  a share of the best return known; None where none is known.
    horizon:    the common frames.
    """

    arm: Arm
    folders: tuple[Path, ...]
    area: Float64[np.ndarray, " seeds"]
    solved: float | None
    frames: float | None
    threshold: float | None
    horizon: float

    @property
    def mean(self) -> float:
        """The mean area over seeds."""
        return float(np.mean(self.area))

    @property
    def reached(self) -> str:
        """When the threshold was, for people."""
        if self.frames is None or self.solved is None:
            return "-"
        if not self.solved:
            return "never"
        return f"{'> ' if self.solved < 1 else ''}{millions(self.frames)}"


def scores(study: Study, found: Sequence[Compared]) -> list[Score]:
    """The cells of a search that were run, all of a task up to the frames in common."""
    there = {one.task.name: one.arms for one in found}
    horizons = {one.task.name: one.task.horizon for one in found}
    return [
        _score(arm, scored, horizons[arm.task])
        for arm in study.arms
        for name, scored in there.get(arm.task, {}).items()
        if arm_name(name) == arm.name
    ]


def best(found: Sequence[Score]) -> list[Score]:
    """The cell with the largest area, of each task and method; none where `alike` has something to say."""
    return [max(cells, key=lambda one: one.mean) for cells in _tables(found).values() if not _alike(cells)]


def alike(found: Sequence[Score]) -> list[str]:
    """Why no cell is the best one, in words, of each task and method where none is."""
    return [
        f"{method} on {short(task)}: {_alike(cells)}"
        for (task, method), cells in _tables(found).items()
        if _alike(cells)
    ]


def to_csv(found: Sequence[Score], axes: Sequence[str]) -> str:
    """One line for each cell; the two settings have the axes' names."""
    text, chosen = io.StringIO(), best(found)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["task", "method", *axes, *SCORES])
    for one in found:
        cell = one.arm.cell
        assert cell is not None
        areas = [f"{value:.5f}" for value in (one.mean, one.area.min(), one.area.max())]
        measured = one.solved, one.frames, one.threshold
        reached = ["" if value is None else f"{value:.6g}" for value in measured]
        runs = " ".join(folder.name for folder in one.folders)
        end = [f"{one.horizon:.0f}", int(one in chosen), runs]
        writer.writerow(
            [one.arm.task, cell.method, cell.row, cell.column, len(one.area), *areas, *reached, *end]
        )
    return text.getvalue()


def draw(path: Path, found: Sequence[Score], axes: Sequence[str]) -> None:
    """A table for each method, one colour scale for all; the best cell of each is framed."""
    # Not pyplot: it would look for a display, and keep every figure.
    make = require("matplotlib.figure", extra="plot").Figure
    frame = require("matplotlib.patches", extra="plot").Rectangle
    tables, chosen = list(dict.fromkeys(_table(score) for score in found)), best(found)
    areas = [score.mean for score in found]
    wide = min(len(tables), 3)
    high = -(-len(tables) // wide)
    figure = make(figsize=(4.2 * wide, 3.9 * high), layout="constrained")
    places = figure.subplots(high, wide, squeeze=False)
    shown = None
    for axis, table in zip(places.flat, tables, strict=False):
        members = [score for score in found if _table(score) == table]
        shown = _draw_table(axis, members, (min(areas), max(areas)), axes)
        axis.set_title(f"{table[1]}, {bare(table[0])}", fontsize=10)
        rows, columns = _headings(members)
        for one in (score for score in chosen if score in members):
            assert one.arm.cell is not None
            at = columns.index(one.arm.cell.column) - 0.5, rows.index(one.arm.cell.row) - 0.5
            axis.add_patch(frame(at, 1, 1, fill=False, edgecolor="#d55e00", linewidth=3))
    for axis in list(places.flat)[len(tables) :]:
        axis.set_axis_off()
    known = sorted({score.threshold for score in found if score.threshold})
    wanted = ", ".join(f"{one:.2f}" for one in known)
    below = f"; below it, the frames until the return was {wanted}" if wanted else ""
    every = "" if len(chosen) == len(tables) else " that has one"
    framed = f"; framed, the best of each method{every}" if chosen else "; no cell is the best"
    figure.suptitle(f"mean return over all frames{below}{framed}", fontsize=10)
    figure.colorbar(shown, ax=places, label="mean return over all frames", shrink=0.8)
    with disk_errors(str(path)):
        write_whole(path, png(figure, dpi=150))


def _draw_table(axis: Any, members: Sequence[Score], span: tuple[float, float], axes: Sequence[str]) -> Any:
    rows, columns = _headings(members)
    values = np.full((len(rows), len(columns)), np.nan)
    for score in members:
        cell = score.arm.cell
        assert cell is not None
        place = rows.index(cell.row), columns.index(cell.column)
        values[place] = score.mean
        pale = score.mean > (span[0] + span[1]) / 2
        colour = "black" if pale else "white"
        axis.text(
            *place[::-1],
            f"{score.mean:.3f}\n{score.reached}",
            ha="center",
            va="center",
            fontsize=8,
            color=colour,
        )
    axis.set_xticks(range(len(columns)), columns, fontsize=8)
    axis.set_yticks(range(len(rows)), rows, fontsize=8)
    axis.set_ylabel(axes[0], fontsize=9)
    axis.set_xlabel(axes[1], fontsize=9)
    return axis.imshow(values, cmap="cividis", vmin=span[0], vmax=span[1], aspect="auto")


def _headings(members: Sequence[Score]) -> tuple[list[str], list[str]]:
    cells = [score.arm.cell for score in members if score.arm.cell is not None]
    return list(dict.fromkeys(cell.row for cell in cells)), list(dict.fromkeys(cell.column for cell in cells))


def _table(score: Score) -> tuple[str, str]:
    assert score.arm.cell is not None
    return score.arm.task, score.arm.cell.method


def _tables(found: Sequence[Score]) -> dict[tuple[str, str], list[Score]]:
    """The cells by task and method."""
    return {
        table: [one for one in found if _table(one) == table]
        for table in dict.fromkeys(_table(score) for score in found)
    }


def _alike(cells: Sequence[Score]) -> str:
    """Why none of a method's cells is the best; empty if one is."""
    count = f"{len(cells)} cell{'s' * (len(cells) > 1)}"
    if not any(one.area.any() for one in cells):
        return f"no cell learned anything ({count} at 0)"
    if len(cells) > 1 and len({one.mean for one in cells}) == 1:
        return f"the cells cannot be told apart ({count} at {cells[0].mean:.3f})"
    return ""


def _score(arm: Arm, scored: Scored, horizon: float) -> Score:
    folders, threshold = tuple(run.folder for run in scored.group.runs), scored.task.threshold
    if threshold is None:
        return Score(arm, folders, scored.area, None, None, None, horizon)
    seen = scored.until(horizon)
    frames, _ = statistics.restricted_mean(seen.times, seen.solved, horizon)
    return Score(arm, folders, scored.area, float(seen.solved.mean()), frames, threshold, horizon)
