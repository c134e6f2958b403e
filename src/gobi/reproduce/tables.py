"""A study's table: a line for each arm: what it needed, where it ended, and what only this study shows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from gobi.analysis import statistics
from gobi.analysis.comparison import frames_of, millions
from gobi.analysis.scores import Scored
from gobi.envs.dmc import is_control
from gobi.reproduce import measured, published, returns
from gobi.reproduce.evidence import Compared
from gobi.reproduce.studies import PAPER_RATIO
from gobi.reproduce.study import short
from gobi.reproduce.verdicts import frames_span

Row = list[str]
Column = tuple[str, Callable[[Compared, str], str]]


def columns(study: str) -> list[Column]:
    """The columns of a study's table: a heading, and what stands below it for an arm of a comparison."""
    more = {"accuracy": ACCURACY, "wallclock": WALLCLOCK}.get(study, [])
    return [*COMMON, *ON_GRIDS, *more]


def rows(study: str, found: Sequence[Compared]) -> tuple[Row, list[Row]]:
    """The table: its headings, and a line for each arm on each task.

    On control tasks RE3's own numbers follow where RE3 is one of the arms.
    """
    of_control = bool(found) and is_control(found[0].task.name)
    wanted = [*COMMON, *ON_CONTROL] if of_control else columns(study)
    lines = []
    for one in found:
        lines += [[cell(one, arm) for _, cell in wanted] for arm in one.arms]
        lines += [_published(one, arm) for arm in one.arms if returns.beside_published(one, arm)]
    return [name for name, _ in wanted], lines


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


def _after(frames: int) -> Column:
    def cell(found: Compared, arm: str) -> str:
        seeds = returns.after(found[arm], frames)
        if seeds is None:
            return "-"
        around = statistics.bootstrap([seeds], statistics.mean)
        return f"{seeds.mean():.0f}{f' ({around[0]:.0f} to {around[1]:.0f})' if around else ''}"

    return f"at {millions(frames)}", cell


def _published(found: Compared, arm: str) -> Row:
    """RE3's own numbers, in the columns of control tasks."""
    known = published.RE3[found.task.name]
    at = [f"{mean} ± {spread}" for mean, spread in (known.at[frames] for frames in published.FRAMES)]
    overall = "{} ± {}".format(*known.overall)
    name = f"{found[arm].group.method.label}, its authors' own"
    end = known.at[published.FRAMES[-1]]
    return [
        short(found.task.name), name, str(published.SEEDS), millions(published.FRAMES[-1]), *at,
        f"{end[0]} ± {end[1]}", overall, millions(published.FRAMES[-1]),
    ]  # fmt: skip


def _solved(one: Scored) -> str:
    """Seeds that were at the threshold at some time, and those that end there where they are fewer."""
    whole = one.to_the_last()
    solved, stayed, seeds = int(whole.solved.sum()), int(whole.stayed.sum()), len(whole.solved)
    left = f", {stayed} at the end" * (stayed < solved)
    return f"{solved} of {seeds}{left}" if seeds else "-"


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


AREA_OVER: Column = ("area over", lambda found, arm: millions(found.task.horizon))
"""Areas are over the frames that all arms of the task have: over others they would not compare."""
COMMON: list[Column] = [
    ("task", lambda found, arm: found.where),
    ("arm", lambda found, arm: found[arm].group.method.label),
    ("seeds", lambda found, arm: str(len(found[arm].final))),
    ("frames", lambda found, arm: frames_of(found[arm].group)),
]
ON_GRIDS: list[Column] = [
    ("threshold", lambda found, arm: f"{found.task.threshold:.3f}" if found.task.threshold else "-"),
    ("solved", lambda found, arm: _solved(found[arm])),
    ("frames to it", lambda found, arm: frames_span(found[arm].to_the_last()) or "-"),
    ("return at the end", _number("final")),
    ("area", _number("area")),
    AREA_OVER,
]
ON_CONTROL: list[Column] = [
    *(_after(frames) for frames in published.FRAMES),
    ("at the end", _number("final", 0)),
    ("area", _number("area", 0)),
    AREA_OVER,
]
"""Returns: where no best one is known there is no threshold either."""
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
