"""Learning curves of runs as a picture: the mean over seeds, each seed as a thin line, and a band."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64, Int64

from gobi.envs.dmc import is_control
from gobi.envs.minigrid.registry import bare
from gobi.errors import GobiError, require, unknown
from gobi.training import metrics
from gobi.training.files import disk_errors, parse_json, write_whole

Band = Literal["range", "interval", "none"]
"""The least and the greatest seed, or a 95 % bootstrap interval of the mean, or nothing."""

SUFFIXES = (".png", ".pdf", ".svg")
LABELS = {
    "return": "return",
    "success": "success rate",
    "training_return": "return while training",
    "length": "episode length",
    "bonus": "bonus per step",
    "bonus_share": "share of the bonus in the reward",
    "growth": "growth of the episodic memory",
    "distinct": "distinct observations",
    "rooms": "rooms per episode",
    "cells": "cells per episode",
    "reachable_share": "share of the reachable cells",
    "steps_per_second": "steps per second",
}
SHARES = ("success", "reachable_share", "world_exact", "world_cells")
"""What lies between 0 and 1."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito's, which the colour-blind can tell apart, but for the yellow that is too pale for a line."""

RESAMPLES = 2000

PANELS = ("return", "success")
CONTROL_PANELS = ("return", "training_return")
"""What is drawn unless one asks for something else; on control tasks nothing is solved, or not."""


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run left behind.

    name:     how it is called in the legend.
    columns:  its metrics.
    card:     its card, as far as there is one.
    """

    name: str
    columns: dict[str, np.ndarray]
    card: dict[str, Any]

    @property
    def seeds(self) -> list[int]:
        """The seeds that have rows."""
        return np.unique(self.columns["seed"]).tolist()

    def __str__(self) -> str:
        return f"{self.name} ({len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''})"


def find(paths: Sequence[Path]) -> list[Run]:
    """The runs at these paths, see `metrics_files`."""
    files = metrics_files(paths)
    runs = []
    for file, name in zip(files, _short_names([file.parent for file in files]), strict=True):
        columns = metrics.read(file)
        if not len(columns.get("seed", ())):
            raise GobiError(f"{file} has no rows yet")
        runs.append(Run(name, columns, _card_beside(file)))
    return runs


def metrics_files(paths: Sequence[Path]) -> list[Path]:
    """The metrics files at these paths: themselves, or in folders of runs, or somewhere inside folders.

    Of several in one folder those without a row are left out, see `just_begun`.
    """
    empty = just_begun(paths)
    found = (file for path in paths for file in _files_at(path))
    return list(dict.fromkeys(file for file in found if file not in empty))


def just_begun(paths: Sequence[Path]) -> list[Path]:
    """The metrics files that have no rows yet, in folders where others have some."""
    empty: list[Path] = []
    for path in paths:
        files = _files_at(path)
        without = [file for file in files if not _has_rows(file)]
        empty += without if len(without) < len(files) else []
    return empty


def _files_at(path: Path) -> list[Path]:
    if not path.exists():
        raise GobiError(f"there is no {path}")
    found = [path] if path.is_file() else sorted(path.rglob("metrics.csv"))
    if not found:
        raise GobiError(f"no run in {path}: neither it nor a folder inside it has a metrics.csv")
    return [file.resolve() for file in found]


def _has_rows(file: Path) -> bool:
    with disk_errors(str(file)), file.open() as lines:
        return any(line.strip() for number, line in enumerate(lines) if number)


def plot(
    paths: Sequence[Path],
    out: Path,
    *,
    panels: Sequence[str] | None = None,
    band: Band = "range",
    count_pretraining: bool = False,
    title: str = "",
) -> list[Run]:
    """Draws the runs at these paths into one picture and returns them.

    paths:              see `metrics_files`.
    out:                the file: .png, .pdf or .svg.
    panels:             metrics, one panel each; by default the return, and what else tells how it goes.
    band:               what is shaded around the mean over the seeds.
    count_pretraining:  frames that the world model was trained on come before the first of the run.
    title:              above the panels.
    """
    check_output(out)
    runs = find(paths)
    panels = usual_panels(runs) if panels is None else panels
    for name in panels:
        for run in runs:
            if name not in run.columns:
                raise unknown("metric", name, run.columns)
    figure = draw(runs, panels, band, count_pretraining, title)
    drawn = io.BytesIO()
    figure.savefig(drawn, format=out.suffix.lower()[1:], dpi=160)
    with disk_errors(str(out)):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, drawn.getvalue())
    return runs


def usual_panels(runs: Sequence[Run]) -> Sequence[str]:
    """What is worth drawing of these runs."""
    return CONTROL_PANELS if all(is_control(run.card.get("task", "")) for run in runs) else PANELS


def unit_of(frames: float) -> tuple[float, str]:
    """What an axis that goes up to so many frames is divided by, and the word for it."""
    return (1e6, "million") if frames >= 1e6 else (1e3, "thousand")


def check_output(out: Path) -> None:
    """Refuses what `plot` could not write."""
    if out.suffix.lower() not in SUFFIXES:
        raise GobiError(f"cannot write '{out}': the name must end in one of {', '.join(SUFFIXES)}")
    require("matplotlib", extra="plot")


def draw(runs: Sequence[Run], panels: Sequence[str], band: Band, count_pretraining: bool, title: str) -> Any:
    """The figure, on no screen at all."""
    if not panels:
        raise GobiError("a picture needs at least one panel")
    # Not pyplot: it would look for a display, and keep every figure.
    make_figure = require("matplotlib.figure", extra="plot").Figure
    below = 0.3 * -(-len(runs) // 2) if len(runs) > 1 else 0.0
    figure = make_figure(figsize=(4.8 * len(panels), 3.6 + below), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    unit, word = unit_of(max(float(run.columns["frames"].max()) for run in runs))
    for axis, name in zip(axes, panels, strict=True):
        for number, run in enumerate(runs):
            _draw_run(axis, run, name, COLOURS[number % len(COLOURS)], band, count_pretraining, unit)
        if name == "return":
            _draw_best_returns(axis, runs)
        _dress(axis, name, f"{word} frames{', pre-training included' * count_pretraining}")
    if len(runs) > 1:
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(2, len(runs)), frameon=False)
    figure.suptitle(plain_text(title or _title(runs)), fontsize=12)
    return figure


def curve(run: Run, name: str) -> tuple[Int64[np.ndarray, " points"], Float64[np.ndarray, "seeds points"]]:
    """One metric of a run: the frames at which any seed was logged, and each seed's values there.

    Between its own points a seed is interpolated; before its first and after its last value it is NaN.
    """
    seed, frames, values = run.columns["seed"], run.columns["frames"], run.columns[name]
    points = np.unique(frames)
    curves = np.full((len(run.seeds), len(points)), np.nan)
    for row, one in enumerate(run.seeds):
        mine = (seed == one) & np.isfinite(values)
        if mine.any():
            curves[row] = np.interp(points, frames[mine], values[mine], left=np.nan, right=np.nan)
    return points, curves


def interval(
    curves: Float64[np.ndarray, "seeds points"], resamples: int = RESAMPLES
) -> tuple[Float64[np.ndarray, " points"], Float64[np.ndarray, " points"]]:
    """A 95 % interval of the mean over seeds at each point: the percentile bootstrap over whole seeds."""
    seeds = len(curves)
    chosen = np.random.default_rng(0).integers(0, seeds, (resamples, seeds))
    weights = np.stack([np.bincount(row, minlength=seeds) for row in chosen]).astype(np.float64)
    known = np.isfinite(curves)
    total, count = weights @ np.where(known, curves, 0.0), weights @ known
    means = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    low, high = np.full((2, curves.shape[1]), np.nan)
    some = known.any(axis=0)
    low[some], high[some] = np.nanpercentile(means[:, some], [2.5, 97.5], axis=0)
    return low, high


def plain_text(text: str) -> str:
    """A user's words for matplotlib, which would read what stands between two dollars as mathematics."""
    return text.replace("$", r"\$")


def _draw_run(
    axis: Any, run: Run, name: str, colour: str, band: Band, count_pretraining: bool, unit: float
) -> None:
    frames, curves = curve(run, name)
    some = np.isfinite(curves).any(axis=0)
    frames, curves = frames[some], curves[:, some]
    before = run.card.get("pretraining_frames", 0) if count_pretraining else 0
    across = (frames + before) / unit
    if len(curves) > 1 and len(frames):
        for one in curves:
            axis.plot(across, one, color=colour, linewidth=0.6, alpha=0.45)
        if band != "none":
            edges = interval(curves) if band == "interval" else (np.nanmin(curves, 0), np.nanmax(curves, 0))
            axis.fill_between(across, *edges, color=colour, alpha=0.15, linewidth=0)
    mean = np.nanmean(curves, axis=0) if len(frames) else []
    axis.plot(across, mean, color=colour, linewidth=1.8, label=plain_text(str(run)))


def _draw_best_returns(axis: Any, runs: Sequence[Run]) -> None:
    """A dashed line at the best return known of each task that is shown."""
    best = {run.card["task"]: run.card["best_return"] for run in runs if run.card.get("best_return")}
    for task, value in best.items():
        axis.axhline(value, color="0.35", linewidth=1, linestyle=(0, (5, 4)), zorder=1)
        axis.update_datalim([(0, 1.06 * value)])
        text = f"best known {value:.2f}" + (f", {bare(task)}" if len(best) > 1 else "")
        axis.annotate(
            text, (1, value), xycoords=("axes fraction", "data"), xytext=(-4, 3), textcoords="offset points",
            ha="right", va="bottom", fontsize=8, color="0.35",
        )  # fmt: skip


def _dress(axis: Any, name: str, across: str) -> None:
    axis.set_xlabel(across)
    axis.set_ylabel(LABELS.get(name, name.replace("_", " ")))
    axis.grid(color="0.9", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlim(left=0)
    low, high = axis.get_ylim()
    if name in SHARES:
        axis.set_ylim(-0.03, 1.03)
    elif name == "return":
        # Never so narrow that the noise of a run that learns nothing looks like progress.
        axis.set_ylim(min(-0.03, low), max(0.1, high))
    elif low > 0:
        axis.set_ylim(bottom=0)


def _title(runs: Sequence[Run]) -> str:
    """The task, if it is the same one; and the run, if there is only one, which then needs no legend."""
    tasks = {bare(run.card.get("task", "")) for run in runs}
    parts = [*tasks] * (len(tasks) == 1) + [str(run) for run in runs] * (len(runs) == 1)
    return ": ".join(part for part in parts if part)


def _short_names(folders: Sequence[Path]) -> list[str]:
    """As many of the last parts of each path as it takes to tell them all apart."""
    for parts in range(1, max((len(folder.parts) for folder in folders), default=1) + 1):
        names = ["/".join(folder.parts[-parts:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]


def _card_beside(file: Path) -> dict[str, Any]:
    """The card of the run, as far as it can be read: a curve is worth drawing without it."""
    try:
        card = parse_json((file.parent / "card.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return card if isinstance(card, dict) and "task" in card else {}
