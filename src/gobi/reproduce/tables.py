"""A study's table: a line for each arm: what it needed, where it ended, and what only this study shows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from gobi.analysis.comparison import millions
from gobi.analysis.scores import Scored
from gobi.reproduce import measured
from gobi.reproduce.evidence import Compared
from gobi.reproduce.studies import PAPER_RATIO
from gobi.reproduce.verdicts import frames_span

Row = list[str]
Column = tuple[str, Callable[[Compared, str], str]]


def columns(study: str) -> list[Column]:
    """The columns of a study's table: a heading, and what stands below it for an arm of a comparison."""
    more = {"accuracy": ACCURACY, "wallclock": WALLCLOCK}.get(study, [])
    return [*COMMON, *more]


def rows(study: str, found: Sequence[Compared]) -> tuple[Row, list[Row]]:
    """The table: its headings, and a line for each arm on each task."""
    wanted = columns(study)
    return [name for name, _ in wanted], [
        [cell(one, arm) for _, cell in wanted] for one in found for arm in one.arms
    ]


def to_csv(headings: Row, lines: Sequence[Row]) -> str:
    """The table for programs."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([headings, *lines])
    return file.getvalue()


def to_markdown(headings: Row, lines: Sequence[Row], left: int = 2) -> str:
    """The table for people: all columns but the first ones are set to the right."""
    rule = ["---" if place < left else "--:" for place in range(len(headings))]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in (headings, rule, *lines)]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def _number(statistic: str, digits: int = 3) -> Callable[[Compared, str], str]:
    def cell(found: Compared, arm: str) -> str:
        for row in found[arm].rows:
            if row.statistic == statistic:
                within = "" if row.low is None else f" ({row.low:.{digits}f} to {row.high:.{digits}f})"
                return f"{row.value:.{digits}f}{within}"
        return "-"

    return cell


def _solved(one: Scored) -> str:
    return f"{int(one.solved.sum())} of {len(one.solved)}" if len(one.solved) else "-"


def _exact(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _ratio(found: Compared, arm: str) -> str:
    """Against NovelD, if that was run; of the pace, without compiling and pre-training."""
    rivals = [name for name in found.arms if name.endswith("/noveld")]
    if not rivals or arm in rivals:
        return "1" if rivals else "-"
    a, b = measured.clocks(found, (arm, rivals[0]))
    return f"{a.per_million / b.per_million:.2f} (paper {PAPER_RATIO:g})"


def _pretraining(found: Compared, arm: str) -> str:
    (one,) = measured.clocks(found, (arm,))
    return "-" if one.pretraining is None else f"{one.pretraining:.0f}"


COMMON: list[Column] = [
    ("task", lambda found, arm: found.where),
    ("arm", lambda found, arm: found[arm].group.method.label),
    ("seeds", lambda found, arm: str(len(found[arm].final))),
    ("frames", lambda found, arm: millions(found.task.horizon)),
    ("threshold", lambda found, arm: f"{found.task.threshold:.3f}" if found.task.threshold else "-"),
    ("solved", lambda found, arm: _solved(found[arm])),
    ("frames to it", lambda found, arm: frames_span(found[arm]) or "-"),
    ("return at the end", _number("final")),
    ("area", _number("area")),
]
ACCURACY: list[Column] = [
    ("exact before", lambda found, arm: _exact(measured.exact_before(found[arm].group.runs[0]))),
    (
        "exact while training",
        lambda found, arm: _exact(measured.exact_while_training(found[arm].group.runs[0])),
    ),
]
WALLCLOCK: list[Column] = [
    ("seconds per million", lambda found, arm: f"{measured.clocks(found, (arm,))[0].per_million:.1f}"),
    ("against noveld", _ratio),
    ("all, with compiling", lambda found, arm: f"{measured.clocks(found, (arm,))[0].training:.0f}"),
    ("pre-training", _pretraining),
]
