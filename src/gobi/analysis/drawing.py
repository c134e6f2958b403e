"""The learning curves of a comparison: as SVG that takes its colours from the page, and as PNG."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from gobi.analysis.comparison import ALL, Comparison
from gobi.analysis.curves import LABELS, unit_of
from gobi.analysis.scores import Line
from gobi.envs.dmc import is_control
from gobi.envs.minigrid.registry import bare
from gobi.errors import require

LIGHT = ("#0072B2", "#C84E00", "#00805D", "#A8457F", "#8F6400", "#3A3A3A", "#6A4FC0", "#A0342A")
DARK = ("#5BB8F0", "#FF9E5E", "#3FD0A4", "#F090C4", "#E8BE4A", "#D8D8D8", "#B4A0FF", "#FF8A80")
"""After Okabe and Ito's colours, which the colour-blind can tell apart, each readable on its background."""
DASHES = ("", "7 3", "2 3", "10 3 2 3", "5 2 2 2 2 2")
"""Lines are told apart without colour too: by these, and by the letter at their end."""

WIDTH, HEIGHT = 400, 270
LEFT, RIGHT, TOP, BOTTOM = 42, 26, 12, 40
LETTERS_ACROSS = 78
"""Of a picture's legend, in two columns side by side."""
LETTERS_DEEP = 84
"""Of a line of it, in one column; longer names have several lines."""
LETTER = 13.0
"""The least distance between two letters at the ends of lines."""


def letter(number: int) -> str:
    """A, B, ..., Z, AA, AB, ..."""
    return (letter(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def lines_of(comparison: Comparison, task: str) -> list[tuple[int, Line]]:
    """The curves on a task, each with the number of its method."""
    return [(comparison.methods.index(line.method), line) for line in comparison.lines if line.task == task]


def svg(comparison: Comparison, task: str) -> str:
    """The curves on one task, or on all of them, as an element of a page.

    Colours and fonts are the page's: `.m0`, `.m1`, ... must set `--c`.
    """
    lines = lines_of(comparison, task)
    right = max(float(line.frames[-1]) for _, line in lines)
    low, high = _range(comparison, task)
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(frames: Any) -> Any:
        return LEFT + np.asarray(frames) / right * across

    def y(values: Any) -> Any:
        return TOP + (high - np.asarray(values)) / (high - low) * down

    parts = _axes(comparison, task, right, (low, high), x, y)
    for number, line in lines:
        parts += _drawn(line, f"m{number % len(LIGHT)}", DASHES[number % len(DASHES)], x, y)
    parts += _marks(comparison, task, y)
    parts += _letters(
        [(number, float(x(line.frames[-1])), float(y(line.middle[-1]))) for number, line in lines]
    )
    named = ", ".join(f"{letter(number)} {line.method.label}" for number, line in lines)
    title = escape(f"{label(comparison.metric)} over frames, {bare(task)}: {named}")
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>'
        f"{''.join(parts)}</svg>"
    )


def swatch(number: int) -> str:
    """A piece of a method's line with its letter, for legends and tables."""
    kind, dash = f"m{number % len(LIGHT)}", DASHES[number % len(DASHES)]
    return (
        f'<span class="method {kind}"><svg class="swatch" viewBox="0 0 30 10" aria-hidden="true">'
        f'<line class="line" x1="0" y1="5" x2="30" y2="5" stroke-dasharray="{dash}"/></svg>'
        f"<b>{letter(number)}</b></span>"
    )


def png(comparison: Comparison, task: str) -> bytes:
    """The same as a picture, with a legend."""
    file = io.BytesIO()
    picture(comparison, task).savefig(file, format="png", dpi=140)
    return file.getvalue()


def picture(comparison: Comparison, task: str) -> Any:
    """The same as a figure of matplotlib's, as tall as its legend needs."""
    lines, (low, high) = lines_of(comparison, task), _range(comparison, task)
    names = [textwrap.fill(f"{letter(number)}  {line.method.label}", LETTERS_DEEP) for number, line in lines]
    across, down = _legend_shape(names)
    make = require("matplotlib.figure", extra="plot").Figure
    figure = make(figsize=(6.4, 3.9 + 0.17 * down), layout="constrained")
    axis = figure.subplots()
    right = max(float(line.frames[-1]) for _, line in lines)
    by = 1.0 if task == ALL else unit_of(right)[0]
    for (number, line), name in zip(lines, names, strict=True):
        colour, dash = LIGHT[number % len(LIGHT)], DASHES[number % len(DASHES)]
        pattern = (0, tuple(float(part) / 2 for part in dash.split())) if dash else "solid"
        for one in line.seeds:
            axis.plot(line.frames / by, one, color=colour, linewidth=0.5, alpha=0.35)
        if line.low is not None:
            axis.fill_between(line.frames / by, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
        axis.plot(line.frames / by, line.middle, color=colour, linewidth=1.8, linestyle=pattern, label=name)
    ends = _clear(
        [(line.frames[-1] / right, float(line.middle[-1])) for _, line in lines],
        near=LETTER / WIDTH,
        gap=0.045 * (high - low),
        most=high,
    )
    for (number, line), at in zip(lines, ends, strict=True):
        axis.annotate(
            letter(number), (line.frames[-1] / by, at), xytext=(4, 0), va="center", fontweight="bold",
            textcoords="offset points", color=LIGHT[number % len(LIGHT)], annotation_clip=False,
        )  # fmt: skip
    # Curves may run behind the words.
    halo = [require("matplotlib.patheffects", extra="plot").withStroke(linewidth=3, foreground="white")]
    for value, text in _levels(comparison, task):
        axis.axhline(value, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        axis.annotate(
            text, (0, value), xytext=(4, 2), textcoords="offset points", fontsize=8, color="0.2",
            path_effects=halo, zorder=5,
        )  # fmt: skip
    axis.set_xlabel(across_text(comparison, task, right))
    axis.set_ylabel(label(comparison.metric) + _of_best(comparison, task))
    axis.set_xlim(0, right / by)
    axis.set_ylim(low, high)
    axis.grid(color="0.92", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_title(bare(task), fontsize=11)
    figure.legend(loc="outside lower center", ncols=across, frameon=False, fontsize=8)
    return figure


def _legend_shape(names: Sequence[str]) -> tuple[int, int]:
    """Columns and lines of a legend: two columns where the widest names of both fit side by side."""
    half = math.ceil(len(names) / 2)
    columns = names[:half], names[half:]
    wide = sum(max(map(len, some), default=0) for some in columns) > LETTERS_ACROSS
    return (1, sum(name.count("\n") + 1 for name in names)) if wide else (2, half)


def label(metric: str) -> str:
    """What a metric is called."""
    return LABELS.get(metric, metric.replace("_", " "))


def across_text(comparison: Comparison, task: str, right: float) -> str:
    """What the horizontal axis is, which ends at `right`."""
    if task == ALL:
        return "share of each task's common frames"
    within = {
        "free": "pre-training included",
        "counted": "pre-training and peeks included",
        "both": "pre-training included, peeks as named",
    }
    _, word = unit_of(right)
    # On control tasks there is neither.
    return f"{word} frames" if is_control(task) else f"{word} frames, {within[comparison.peeks]}"


def _of_best(comparison: Comparison, task: str) -> str:
    return ", share of best known" if task == ALL and comparison.normalised else ""


def _levels(comparison: Comparison, task: str) -> list[tuple[float, str]]:
    """Values worth a horizontal line."""
    if task == ALL:
        return []
    about, found = comparison.tasks[task], []
    if about.best and comparison.metric == "return":
        found.append((about.best, f"best known {about.best:.2f}"))
    if about.threshold is not None:
        found.append((about.threshold, f"threshold {about.threshold:.3g}"))
    return found


def _range(comparison: Comparison, task: str) -> tuple[float, float]:
    """From the least to the greatest of what is drawn, 0 included, and a little more."""
    values = [0.0, *(value for value, _ in _levels(comparison, task))]
    for _, line in lines_of(comparison, task):
        for part in (line.middle, line.low, line.high, line.seeds):
            if part is not None and part.size:
                values += [float(part.min()), float(part.max())]
    low, high = min(values), max(values)
    # Never so narrow that the noise of a run that learns nothing looks like progress.
    if comparison.metric in ("return", "success"):
        high = max(high, 0.1)
    room = 0.06 * (high - low) or 1.0
    return (low - room if low < 0 else 0.0), high + room


def _ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to high, about so many."""
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _axes(
    comparison: Comparison, task: str, right: float, heights: tuple[float, float], x: Any, y: Any
) -> list[str]:
    unit = 1.0 if task == ALL else unit_of(right)[0]
    foot, parts = HEIGHT - BOTTOM, []
    for tick in _ticks(*heights):
        at = float(y(tick))
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:.4g}</text>'
        )
    for tick in _ticks(0.0, right / unit):
        at = float(x(tick * unit))
        text = f"{tick:.0%}" if task == ALL else f"{tick:.4g}"
        parts.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{foot}" y2="{foot + 4}"/>')
        parts.append(f'<text class="tick" x="{at:.1f}" y="{foot + 16}" text-anchor="middle">{text}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{foot}" y2="{foot}"/>')
    middle, below = (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6
    text = across_text(comparison, task, right)
    parts.append(f'<text class="name" x="{middle}" y="{below}" text-anchor="middle">{text}</text>')
    return parts


def _marks(comparison: Comparison, task: str, y: Any) -> list[str]:
    parts = []
    for value, text in _levels(comparison, task):
        at = float(y(value))
        parts.append(f'<line class="level" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="mark" x="{LEFT + 4}" y="{at - 3:.1f}">{text}</text>')
    return parts


def _drawn(line: Line, kind: str, dash: str, x: Any, y: Any) -> list[str]:
    def path(values: Any) -> str:
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x(line.frames), y(values), strict=True))

    parts = []
    if line.low is not None and line.high is not None:
        back = " ".join(reversed(path(line.low).split(" ")))
        parts.append(f'<polygon class="band" points="{path(line.high)} {back}"/>')
    if len(line.seeds) > 1:
        parts += [f'<polyline class="seed" points="{path(one)}"/>' for one in line.seeds]
    parts.append(f'<polyline class="line" stroke-dasharray="{dash}" points="{path(line.middle)}"/>')
    return [f'<g class="{kind}">', *parts, "</g>"]


def _letters(ends: Sequence[tuple[int, float, float]]) -> list[str]:
    """The methods' letters beside the ends of their lines, moved apart where they would touch."""
    places = _clear([(x, y + 4) for _, x, y in ends], LETTER, LETTER, HEIGHT - BOTTOM + 4.0)
    return [
        f'<text class="letter m{number % len(LIGHT)}" x="{x + 5:.1f}" y="{at:.1f}">{letter(number)}</text>'
        for (number, x, _), at in zip(ends, places, strict=True)
    ]


def _clear(ends: Sequence[tuple[float, float]], near: float, gap: float, most: float) -> list[float]:
    """Heights for letters at these points, moved apart among those that end near each other."""
    order = sorted(range(len(ends)), key=lambda place: ends[place][0])
    beside: list[list[int]] = []
    for place in order:
        if beside and ends[place][0] - ends[beside[-1][-1]][0] <= near:
            beside[-1].append(place)
        else:
            beside.append([place])
    found = {
        place: at
        for some in beside
        for place, at in zip(some, _apart([ends[one][1] for one in some], gap, most), strict=True)
    }
    return [found[place] for place in range(len(ends))]


def _apart(heights: Sequence[float], gap: float, most: float) -> list[float]:
    """Heights that are at least so far apart, none above the most, and otherwise where they were."""
    order = np.argsort(heights, kind="stable")
    places = [float(heights[place]) for place in order]
    for number in range(1, len(places)):
        places[number] = max(places[number], places[number - 1] + gap)
    # What was pushed out at the end pushes back.
    for number in reversed(range(len(places))):
        places[number] = min(places[number], most)
        most = places[number] - gap
    moved = dict(zip(order.tolist(), places, strict=True))
    return [moved[place] for place in range(len(places))]
