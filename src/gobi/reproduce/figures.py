"""The figures that studies end in: learning curves, exactness against frames, time, maps side by side."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from gobi.analysis.comparison import unfinished
from gobi.analysis.curves import unit_of
from gobi.analysis.drawing import DASHES, LIGHT
from gobi.analysis.runs import Run
from gobi.analysis.scores import Scored
from gobi.envs.dmc import is_control
from gobi.errors import require
from gobi.reproduce import measured, published, returns
from gobi.reproduce.evidence import Compared

Exact = Callable[[Run, int], float | None]
"""How exactly the world of a run and a seed predicts."""

ACROSS = 4
"""Panels in a row, at most."""
LETTERS = 10
"""Of a title, to an inch."""
LEAST_RETURN = 10.0
"""Of 1,000 that an episode of control may pay: what a panel shows at least."""
UNFINISHED = "x"
BESIDE = "RE3, its authors' own (mean ± s.d.)"


def curves(title: str, found: Sequence[Compared]) -> bytes:
    """Learning curves, a panel for each task: mean, 95 % bootstrap band, each seed thin; as PNG.

    Each arm goes to its own end; a cross is where one ends that is not finished.
    On control tasks RE3's own numbers are points, where RE3 is one of the arms.
    """
    arms = list(dict.fromkeys(_label(one, arm) for one in found for arm in one.arms))
    down = math.ceil(len(found) / ACROSS)
    across = math.ceil(len(found) / down)
    figure, axes = _figure(down, across, len(arms))
    for axis, one in zip(axes, found, strict=False):
        for arm, scored in one.arms.items():
            _draw_curve(axis, scored, arms.index(_label(one, arm)), unit_of(one.longest)[0])
        _dress(axis, one, letters=round(LETTERS * figure.get_figwidth() / across))
    for place, axis in enumerate(axes):
        if place >= len(found):
            axis.set_axis_off()
        elif place % across == 0:
            axis.set_ylabel("return")
    beside = [axis for axis, one in zip(axes, found, strict=False) if _draw_published(axis, one)]
    early = any(unfinished(scored.group.runs) for one in found for scored in one.arms.values())
    _legend(figure, arms, beside=bool(beside), early=early)
    figure.suptitle(textwrap.fill(title, LETTERS * round(figure.get_figwidth())), fontsize=12)
    return png(figure)


def accuracy(found: Compared) -> bytes:
    """How exactly the world predicts against the frames to the threshold: a point for each seed."""
    arms = list(found.arms)
    figure, (before, during) = _figure(1, 2, len(arms))
    kinds = (
        (before, measured.exact_before, "before"),
        (during, measured.exact_while_training, "while training"),
    )
    for axis, exact, when in kinds:
        for number, arm in enumerate(arms):
            _draw_seeds(axis, exact, found[arm], number)
        if not axis.lines:
            axis.text(0.5, 0.5, "not recorded", ha="center", color="0.45", transform=axis.transAxes)
        # The margins of the axis would reach beyond what a share can be.
        axis.set_xlim(left=max(0.0, axis.get_xlim()[0]), right=min(101.0, axis.get_xlim()[1]))
        axis.set_xlabel(f"views predicted exactly {when}, %")
        axis.set_ylim(0, 1.06 * found.longest / 1e6)
        _plain(axis)
    before.set_ylabel(f"million frames to a return of {found.task.threshold or 0:.2f}")
    _legend(figure, [_label(found, arm) for arm in arms], points=True)
    figure.suptitle(f"{found.where}; filled: there at some time; hollow: not by its end", fontsize=11)
    return png(figure)


def wallclock(found: Compared) -> bytes:
    """Seconds of each arm: the pace, and what compiling and pre-training add to it over the whole run."""
    figure = require("matplotlib.figure", extra="plot").Figure(figsize=(6.4, 2.6), layout="constrained")
    axis = figure.subplots()
    for number, arm in enumerate(found.arms):
        run = found[arm].group.runs[0]
        time = measured.clock(run)
        steady = time.per_million * float(run.columns["frames"].max()) / 1e6
        left = 0.0
        parts = steady, max(0.0, time.training - steady), time.pretraining or 0.0
        for seconds, shade, name in zip(
            parts, (1.0, 0.55, 0.25), ("training", "compiling", "pre-training"), strict=True
        ):
            label = name if number == 0 else None
            axis.barh(number, seconds, left=left, color=LIGHT[0], alpha=shade, label=label)
            left += seconds
    axis.set_yticks(range(len(found.arms)), [_label(found, arm) for arm in found.arms])
    axis.invert_yaxis()
    axis.set_xlabel(f"seconds, {measured.clocks(found, list(found.arms))[0].machine}")
    axis.set_title(found.where, fontsize=11)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return png(figure)


def png(figure: Any, dpi: int = 140) -> bytes:
    """A picture as it is to lie on the disk."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi)
    return file.getvalue()


def _figure(down: int, across: int, arms: int) -> tuple[Any, list[Any]]:
    # Not pyplot: it would look for a display, and keep every figure.
    make = require("matplotlib.figure", extra="plot").Figure
    width = 3.4 * across if across > 1 else 5.6
    figure = make(figsize=(width, 2.9 * down + 0.5 + 0.25 * math.ceil(arms / 4)), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    return figure, axes


def _draw_curve(axis: Any, scored: Scored, number: int, unit: float) -> None:
    line, colour = scored.line(), LIGHT[number % len(LIGHT)]
    across = line.frames / unit
    for one in line.seeds:
        axis.plot(across, one, color=colour, linewidth=0.4, alpha=0.35)
    if line.low is not None:
        axis.fill_between(across, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    axis.plot(across, line.middle, color=colour, linewidth=1.6, linestyle=_dash(number))
    if unfinished(scored.group.runs):
        axis.plot(across[-1:], line.middle[-1:], UNFINISHED, color=colour, markersize=6, clip_on=False)


def _draw_published(axis: Any, found: Compared) -> bool:
    """RE3's own means with their spread, as far as the panel goes; whether there are any."""
    if not any(returns.beside_published(found, arm) for arm in found.arms):
        return False
    unit, _ = unit_of(found.longest)
    known = published.RE3[found.task.name].at
    shown = [frames for frames in known if frames <= found.longest]
    means, spreads = zip(*(known[frames] for frames in shown), strict=True)
    at = [frames / unit for frames in shown]
    axis.errorbar(
        at, means, yerr=spreads, fmt="D", color="black", markersize=4, capsize=3, linewidth=1, clip_on=False
    )
    axis.set_ylim(top=max(axis.get_ylim()[1], 1.05 * max(map(sum, zip(means, spreads, strict=True)))))
    return True


def _draw_seeds(axis: Any, exact: Exact, scored: Scored, number: int) -> None:
    colour = LIGHT[number % len(LIGHT)]
    seeds = [(run, seed) for run in scored.group.runs for seed in run.seeds]
    for (run, seed), time, solved in zip(seeds, scored.times, scored.solved, strict=True):
        share = exact(run, seed)
        if share is None:
            continue
        face = colour if solved else "none"
        axis.plot(
            100 * share, time / 1e6, "o" if solved else "^", markersize=6, color=colour, markerfacecolor=face
        )


def _dress(axis: Any, one: Compared, letters: int) -> None:
    if one.task.threshold is not None:
        axis.axhline(one.task.threshold, color="0.45", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    unit, word = unit_of(one.longest)
    axis.set_xlim(0, one.longest / unit)
    # Never so narrow that the noise of a run that learns nothing looks like progress.
    if is_control(one.task.name):
        tallest = max(float(scored.curves.max()) for scored in one.arms.values())
        axis.set_ylim(0, max(LEAST_RETURN, 1.08 * tallest))
        axis.set_xlabel(f"{word} frames", fontsize=8)
    else:
        axis.set_ylim(0, max(0.1, 1.08 * (one.task.best or 1.0)))
        axis.set_xlabel(f"{word} frames, pre-training included", fontsize=8)
    axis.set_title(textwrap.fill(one.where, letters, break_on_hyphens=False), fontsize=10)
    _plain(axis)


def _plain(axis: Any) -> None:
    axis.grid(color="0.92", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _legend(
    figure: Any, arms: Sequence[str], points: bool = False, beside: bool = False, early: bool = False
) -> None:
    line = require("matplotlib.lines", extra="plot").Line2D
    handles = [
        line(
            [],
            [],
            color=LIGHT[number % len(LIGHT)],
            linestyle="" if points else _dash(number),
            marker="o" if points else "",
            label=name,
        )
        for number, name in enumerate(arms)
    ]
    if beside:
        handles.append(line([], [], color="black", linestyle="", marker="D", markersize=4, label=BESIDE))
    if early:
        handles.append(line([], [], color="0.3", linestyle="", marker=UNFINISHED, label="not finished"))
    across = 4 if figure.get_figwidth() < 8 else 8
    figure.legend(handles=handles, loc="outside lower center", ncols=across, frameon=False, fontsize=9)


def _dash(number: int) -> Any:
    dash = DASHES[number % len(DASHES)]
    return (0, tuple(float(part) / 2 for part in dash.split())) if dash else "solid"


def _label(found: Compared, arm: str) -> str:
    return found[arm].group.method.label
