"""`gobi plot`: the learning curves of runs as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from gobi.analysis import curves
from gobi.cli.arguments import RunPlace, Switch, UsageError
from gobi.cli.terminal import say
from gobi.envs import host
from gobi.errors import GobiError

HOST_PANELS = ("return", "length")
"""On Gymnasium's tasks."""


def plot(
    runs: Annotated[tuple[RunPlace, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")],
    /,
    *,
    out: Path = Path("curves.png"),
    panels: tuple[str, ...] | None = None,
    band: Literal["range", "interval", "none"] = "range",
    pretraining: Switch = False,
    title: str = "",
    overwrite: Switch = False,
) -> None:
    """Draws the learning curves of runs: the mean over their seeds, each seed thin, and a band.

    Args:
        runs: folders of runs, folders with such folders inside, metrics.csv files, or zoo/NAME.
        out: the file to write: .png, .pdf or .svg.
        panels: the metrics to show, one panel each: any column of metrics.csv; by default return and success,
            or on control tasks return and training_return, and on Gymnasium's return and length.
        band: around the mean: from the least to the greatest seed, a 95 % bootstrap interval of it, or none.
        pretraining: count the frames that the world model was trained on beforehand.
        title: a line above the panels.
        overwrite: replace the file if it is there.
    """
    if not runs:
        raise UsageError("missing RUN: the folder of at least one run (see gobi plot --help)")
    curves.check_output(out)
    if out.exists() and not overwrite:
        raise GobiError(f"{out} is there already: give another name, or --overwrite")
    for file in curves.just_begun(runs):
        say(f"note: left out, it has no rows yet: {file.parent}")
    panels = usual_panels(runs) if panels is None else panels
    drawn = curves.plot(runs, out, panels=panels, band=band, count_pretraining=pretraining, title=title)
    for run in drawn:
        say(f"{run}: {int(run.columns['frames'].max()):,} frames")
    say(f"wrote {out} ({out.stat().st_size / 1000:.0f} kB)")


def usual_panels(runs: Sequence[Path]) -> tuple[str, ...]:
    """What is worth drawing of these runs: most of Gymnasium's tasks do not tell whether they were solved."""
    found = curves.find(runs)
    if all(host.is_host(run.card.get("task", "")) for run in found):
        return HOST_PANELS
    return tuple(curves.usual_panels(found))
