"""`gobi compare`: methods beside each other, with statistics that say how sure they are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import tyro

from gobi.analysis import comparison as comparisons
from gobi.analysis import curves, page
from gobi.analysis.cells import shown
from gobi.analysis.comparison import Comparison, frames_of, millions
from gobi.analysis.drawing import png
from gobi.analysis.grouping import Peeks
from gobi.analysis.pair_table import verdict
from gobi.analysis.pairs import Pair
from gobi.cli.arguments import RunPlace, UsageError, check_seed
from gobi.cli.output import new_folder
from gobi.cli.terminal import say, show
from gobi.envs.minigrid.registry import bare
from gobi.errors import GobiError, MissingExtra
from gobi.training.files import disk_errors, write_whole

HEADINGS = (
    "task",
    "method",
    "runs",
    "seeds",
    "frames",
    "at the end",
    "area",
    "solved",
    "frames to threshold",
)

MOST_PAIRS = 10
"""Of methods, that are told line by line: each of five with each other."""


def compare(
    runs: Annotated[tuple[RunPlace, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")],
    /,
    *,
    out: Path | None = None,
    threshold: float | None = None,
    metric: str = "return",
    seed: int = 0,
    peeks: Peeks = "free",
) -> None:
    """Compares runs: curves, intervals, chances and cards, on one HTML page with pictures and CSV files.

    Args:
        runs: folders of runs, folders with such folders inside, metrics.csv files, or zoo/NAME.
        out: the folder to write into; by default runs/comparison.
        threshold: the metric's value that counts as solved; by default 90 % of the task's best known return.
        metric: what is compared: a column of metrics.csv of which more is better.
        seed: of the bootstrap.
        peeks: looks without a step (three for each panorama) are free, as in the paper; or counted as frames;
            or both, each run that has some shown twice.
    """
    if not runs:
        raise UsageError("missing RUN: the folder of at least one run (see gobi compare --help)")
    check_seed(seed)
    if threshold is not None and not math.isfinite(threshold):
        raise GobiError(f"--threshold must be a number, got {threshold}")
    folder = new_folder(out, "comparison")
    for file in curves.just_begun(runs):
        say(f"note: left out, it has no rows yet: {file.parent}")
    found = comparisons.compare(runs, metric, threshold, seed, peeks)
    _tell(found)
    _write(found, folder)


def _tell(found: Comparison) -> None:
    rows = []
    for one in found.groups:
        name = one.method.label
        texts = [_text(found, one.task, name, key) for key in ("final", "area", "solved", "frames_mean")]
        rows.append([bare(one.task), name, str(len(one.runs)), str(len(one.curves)), frames_of(one), *texts])
    show(rows, HEADINGS, numbers=HEADINGS[2:])
    if len(found.pairs) > MOST_PAIRS:
        apart = sum(pair.decided for pair in found.pairs)
        say(f"{len(found.pairs)} pairs of methods, all on the page; in {apart} of them one is better by area")
    else:
        for pair in found.pairs:
            _tell_pair(pair)
    for note in comparisons.notes(found):
        say(f"note: {note}")


def _tell_pair(pair: Pair) -> None:
    """How often a seed of one is better than one of the other; where seeds are too few, that they are."""
    (row,) = (row for row in pair.rows if row.statistic == "improvement_area")
    value, interval = shown(row)
    over = f"{millions(row.frames)} frames" if row.frames else "the frames that both have"
    seen = f"{value}{f' ({interval})' if interval else ''}, {bare(row.task)}, over {over}"
    judged = verdict(pair, f"'{row.method}'", f"'{row.other}'")
    say(f"a seed of '{row.method}' has a larger area than one of '{row.other}': {seen}; {judged}")


def _text(found: Comparison, task: str, method: str, statistic: str) -> str:
    row = found.row(task, method, statistic)
    if row is None:
        return "-"
    value, interval = shown(row)
    text = f"{value} ({interval})" if interval else value
    stayed = found.row(task, method, "solved_at_end") if statistic == "solved" else None
    if stayed is not None and stayed.value < row.value:
        text += f", at the end {shown(stayed)[0]}"
    return text


def _write(found: Comparison, folder: Path) -> None:
    """The page, its numbers, and a picture of each panel where they can be drawn."""
    files = {
        "comparison.html": page.html(found).encode(),
        "comparison.csv": found.to_csv().encode(),
        "curves.csv": found.curves_to_csv().encode(),
    }
    panels = dict.fromkeys(line.task for line in found.lines)
    try:
        files |= {f"curves-{_file_name(task)}.png": png(found, task) for task in panels}
    except MissingExtra as error:
        say(f"no pictures beside the page: {error}")
    with disk_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_whole(folder / name, content)
    say(f"open {folder / 'comparison.html'}")
    say(f"wrote {', '.join(files)} into {folder}")


def _file_name(task: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-." else "-" for sign in bare(task))
