"""Cells and tables of a comparison's page, and its numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from gobi.analysis.comparison import millions
from gobi.analysis.drawing import swatch
from gobi.analysis.grouping import Method
from gobi.analysis.scores import Row


def shown(row: Row) -> tuple[str, str]:
    """A number and its interval as the tables show them; empty where there is none."""
    text = _text_of(row)
    if row.low is None or row.high is None:
        return _value(row, text), ""
    if math.isinf(row.high):
        return _value(row, text), f"from {text(row.low)}"
    return _value(row, text), f"{text(row.low)} to {text(row.high)}"


def _value(row: Row, text: Callable[[float], str]) -> str:
    if math.isinf(row.value):
        return f"not by {millions(row.frames)}" if row.at_least and row.frames else "never"
    if row.statistic in ("solved", "solved_at_end"):
        return f"{round(row.value * row.seeds)} of {row.seeds}"
    return f"at least {text(row.value)}" if row.at_least else text(row.value)


def _text_of(row: Row) -> Callable[[float], str]:
    if row.statistic.startswith("frames"):
        return millions
    if row.statistic == "seconds":
        return lambda value: f"{value / 60:.1f} min"
    if row.statistic == "steps_per_second":
        return lambda value: f"{value:,.0f}"
    if row.statistic == "permutation_area":
        return lambda value: f"{value:.3f}" if value >= 0.001 else "under 0.001"
    return lambda value: f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def table(headings: Sequence[str], rows: Sequence[str]) -> str:
    """A table that narrow screens stack."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in headings)
    return (
        f'<div class="scroll"><table class="stack"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def method_cell(number: int, method: Method) -> str:
    """The first cell of a method's line."""
    return f'<th scope="row">{swatch(number)}{escape(method.label)}</th>'


def text_cell(text: str, heading: str) -> str:
    """A cell with words."""
    return f'<td data-label="{escape(heading)}"><span>{escape(text)}</span></td>'


def number_cell(row: Row | None, heading: str) -> str:
    """A cell with a number of the comparison, and which one it is."""
    if row is None:
        return text_cell("-", heading)
    value, interval = shown(row)
    key = escape("|".join((row.task, row.method, row.other, row.statistic)))
    small = f"<small>{escape(interval)}</small>" if interval else ""
    return (
        f'<td class="number" data-label="{escape(heading)}" data-key="{key}">'
        f"<span>{escape(value)}{small}</span></td>"
    )
