"""What runs left beside their curves: how long they took, how right their models were, where agents went."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gobi.analysis.runs import Run
from gobi.reproduce.evidence import Compared
from gobi.reproduce.study import short
from gobi.reproduce.verdicts import MARGIN, Outcome, Verdict

ABOUT = 0.1
"""A stage of training is another one if it is further away than this share of its frames."""
ALREADY_LONGER = 1.05
"""A run takes longer than another if it does by this factor: less is the noise of a machine."""


@dataclasses.dataclass(frozen=True)
class Clock:
    """How long the first of an arm's runs took.

    per_million:  seconds of training for a million frames of each seed, compiling not included.
    training:     seconds of all of it, compiling included, as the card has it.
    pretraining:  seconds before it; None if that was not recorded.
    machine:      what it ran on, with how many seeds.
    shared:       what it shared the machine with, or may have; empty if nothing.
    """

    per_million: float
    training: float
    pretraining: float | None
    machine: str
    shared: str


def clock(run: Run, overlapping: frozenset[Path] = frozenset()) -> Clock:
    """The times of a run; of a pack's time, its share.

    The pace is the median of its rows: compiling, at the start and when a run goes on or its memory grows,
    is part of a few of them only.
    """
    mine = run.columns["seed"] == run.seeds[0]
    seconds, count = run.columns["seconds"][mine], len(run.seeds)
    shared = "other runs may have shared the machine at the time" if run.folder in overlapping else ""
    return Clock(
        per_million=float(1e6 * count / np.nanmedian(run.columns["steps_per_second"][mine])),
        training=float(seconds[-1]),
        pretraining=run.card.get("pretraining_seconds"),
        machine=f"{run.card.get('device')}, {count} seed{'s' * (count > 1)}",
        shared="other runs were in the same process" if run.card.get("beside") else shared,
    )


def clocks(found: Compared, arms: Sequence[str]) -> list[Clock]:
    """The clocks of arms, each by its first run."""
    return [clock(found[arm].group.runs[0], found.overlapping) for arm in arms]


def takes_times_as_long(found: Compared, slow: str, fast: str, claimed: float) -> Verdict:
    """Whether one arm takes about so many times the wall-clock of another for the same number of frames."""
    a, b = clocks(found, (slow, fast))
    names = [found[arm].group.method.label for arm in (slow, fast)]
    ratio = a.per_million / b.per_million
    told = (
        f"{names[0]} takes {ratio:.2f} times as long as {names[1]}, the paper: {claimed:g} "
        f"({a.per_million:.1f} and {b.per_million:.1f} seconds per million frames"
        f"{_with_start(a, b)}; {found.where})"
    )
    if unequal := _unequal(a, b):
        return Verdict("undecided", f"{unequal}: {told}")
    near = claimed / MARGIN < ratio < claimed * MARGIN
    return Verdict("held" if near else "not held", told)


def _unequal(a: Clock, b: Clock) -> str:
    """Why two clocks cannot be compared; empty if they can."""
    if a.machine != b.machine:
        return f"not on equal terms ({a.machine}; {b.machine})"
    return a.shared or b.shared


def _with_start(a: Clock, b: Clock) -> str:
    """The ratio when all that comes before training counts too."""
    whole = f"; with compiling {a.training / b.training:.2f}"
    if a.pretraining is None or b.pretraining is None:
        return whole
    both = (a.training + a.pretraining) / (b.training + b.pretraining)
    return f"{whole}, and with pre-training {both:.2f}"


def takes_longer(found: Compared, slow: str, fast: str) -> Verdict:
    """Whether one arm takes longer than another for the same number of frames."""
    a, b = clocks(found, (slow, fast))
    names = [found[arm].group.method.label for arm in (slow, fast)]
    told = f"{names[0]} takes {a.per_million / b.per_million:.2f} times as long as {names[1]} ({found.where})"
    if unequal := _unequal(a, b):
        return Verdict("undecided", f"{unequal}: {told}")
    return Verdict("held" if a.per_million > ALREADY_LONGER * b.per_million else "not held", told)


def exact_before(run: Run, seed: int | None = None) -> float | None:
    """The share of views that the pre-trained model predicts on other levels; all seeds share the model."""
    del seed
    known = report(run)
    return float(known["total"]["exact"]) if known else None


def exact_while_training(run: Run, seed: int | None = None) -> float | None:
    """The same of the views met while training: the mean over all of it, of one seed or of all."""
    if "world_exact" not in run.columns:
        return None
    shares = run.columns["world_exact"]
    if seed is not None:
        shares = shares[run.columns["seed"] == seed]
    return float(np.nanmean(shares)) if np.isfinite(shares).any() else None


def report(run: Run) -> dict[str, Any] | None:
    """The report of the run's pre-trained model, if it is there."""
    try:
        found = json.loads((run.folder / "world_report.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "total" in found else None


def doors_are_foreseen(runs: Sequence[Run], tasks: int) -> Verdict:
    """How many views after a toggle that changes something are predicted exactly.

    That is near to the paper's claim and not it: reports do not tell doors that open for the first time from
    doors that close, open again, or from boxes. So nothing is decided.
    """
    told = []
    for run in runs:
        known = report(run)
        rows = [row for row in (known or {}).get("actions", ()) if row["action"] == "toggle"]
        if not rows or not rows[0]["changing"] or math.isnan(rows[0]["changing_exact"]):
            continue
        share, trials = rows[0]["changing_exact"], rows[0]["changing"]
        told.append(f"{short(run.card['task'])} {share:.0%} of {trials}")
    if not told:
        return Verdict("not run", "no report of a pre-trained model")
    text = (
        "not tested: what was measured are all toggles that change the view (doors that close or open again, "
        f"boxes), not doors that open for the first time; predicted exactly: {', '.join(told)}"
    )
    return Verdict("undecided", f"{text}{_missing(tasks - len(told), tasks)}")


def about_so_many_pairs(runs: Sequence[Run], tasks: int, claimed: int) -> Verdict:
    """Whether random play has about so many different pairs of panorama and action."""
    known = {
        short(run.card["task"]): run.card["pretraining_pairs"]
        for run in runs
        if run.card.get("pretraining_pairs")
    }
    if not known:
        return Verdict("not run", "no card tells how many")
    outcomes = [
        "held" if claimed / MARGIN < count < claimed * MARGIN else "not held" for count in known.values()
    ]
    told = ", ".join(f"{name} {count:,}" for name, count in known.items())
    left = tasks - len(known)
    text = f"different pairs of panorama and action: {told}; the paper: {claimed:,}{_missing(left, tasks)}"
    return Verdict("undecided" if left else _by_all(outcomes), text)


def _missing(left: int, tasks: int) -> str:
    """How many of all tasks there is nothing of, at the end of a sentence."""
    return f"; {left} of {tasks} tasks are missing" if left else ""


@dataclasses.dataclass(frozen=True)
class Visits:
    """Where an agent went.

    visits:  the share of its visits that fell on a kind of place.
    cells:   that place's share of the cells.
    frames:  how long it had been trained.
    """

    visits: float
    cells: float
    frames: float


def has_map(run: Run) -> bool:
    """Whether the table of where its agents went is there."""
    return (run.folder / "heatmap.csv").is_file()


def visits(run: Run, place: str, at: int) -> Visits | None:
    """Where the agent went after about so many frames, from the heatmap's table; None if it has none."""
    try:
        with (run.folder / "heatmap.csv").open() as file:
            rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    except (OSError, ValueError):
        return None
    rows = [row for row in rows if row.get(f"cells_in_{place}", 0) > 0]
    nearest = min((row["frames"] for row in rows), key=lambda frames: abs(frames - at), default=math.inf)
    if abs(nearest - at) > ABOUT * at:
        return None
    chosen = [row for row in rows if row["frames"] == nearest]
    shares = {what: np.mean([row[f"{what}_in_{place}"] for row in chosen]) for what in ("visits", "cells")}
    return Visits(float(shares["visits"]), float(shares["cells"]), nearest)


def _by_all(outcomes: Sequence[str]) -> Outcome:
    if set(outcomes) == {"held"}:
        return "held"
    return "not held" if set(outcomes) == {"not held"} else "undecided"
