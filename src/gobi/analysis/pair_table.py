"""The part of a comparison's page that sets method against method, with a verdict in words."""

from __future__ import annotations

from html import escape

from gobi.analysis.cells import number_cell, table, text_cell
from gobi.analysis.chance import Direction
from gobi.analysis.comparison import Comparison, millions
from gobi.analysis.drawing import letter, swatch
from gobi.analysis.pairs import SHARED, Pair
from gobi.envs.minigrid.registry import bare

HEADINGS = (
    "pair", "on", "over frames", "larger area", "ends higher", "equal methods would", "verdict by area",
)  # fmt: skip
ABOUT = (
    "Probability of improvement: how often a seed of the first beats one of the second on the same task, "
    "over the frames that both have there. "
    "Many pairs at 95 % will show a difference or two by chance alone."
)


def pair_table(comparison: Comparison) -> list[str]:
    """A line for each two methods; nothing if there is one method only."""
    if len(comparison.methods) < 2:
        return []
    rows = [_line(comparison, pair) for pair in comparison.pairs]
    return [f'<h2 id="pairs">Method against method</h2><p class="quiet">{ABOUT}</p>', table(HEADINGS, rows)]


def _line(comparison: Comparison, pair: Pair) -> str:
    a, b = (comparison.methods.index(method) for method in (pair.mine, pair.other))
    head = f"<th>{swatch(a)}{escape(pair.mine.label)} <br>over {swatch(b)}{escape(pair.other.label)}</th>"
    where = bare(pair.task) if pair.task != SHARED else f"{len(pair.ends)} tasks"
    over = " to ".join(dict.fromkeys(map(millions, (min(pair.ends), max(pair.ends)))))
    cells = [text_cell(where, "on"), text_cell(over, "over frames")]
    cells += [number_cell(row, name) for row, name in zip(pair.rows, HEADINGS[3:], strict=False)]
    cells += [text_cell(verdict(pair, letter(a), letter(b)), HEADINGS[-1])]
    return f"<tr>{head}{''.join(cells)}</tr>"


def verdict(pair: Pair, mine: str, other: str) -> str:
    """What the areas allow to say, in words; the methods go by these names.

    Where tasks disagree there is no winner over all of them, whatever the mean over tasks is.
    """
    if pair.disagree:
        ours, theirs, of = pair.on.count("better"), pair.on.count("worse"), f"of {len(pair.on)}"
        return f"tasks disagree: {mine} is better on {ours}, {other} on {theirs} {of}"
    words: dict[Direction, str] = {
        "too few seeds": "too few seeds to tell",
        "better": f"{mine} is better",
        "worse": f"{other} is better",
        "alike": "cannot be told apart",
    }
    behind = {"better": pair.losses, "worse": pair.wins}.get(pair.verdict, 0)
    though = f", though behind on {behind} of {len(pair.on)} tasks" if behind else ""
    return words[pair.verdict] + though
