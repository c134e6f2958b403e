"""Runs that went on at the same time, so that their clocks say little."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from gobi.analysis.runs import Run

Span = tuple[datetime.datetime, datetime.datetime]


def overlapping(runs: Sequence[Run]) -> frozenset[Path]:
    """Folders of runs that may have shared their device with another of them.

    From the start of each to its end there was one on a device of the same kind. Cards do not tell when a run
    was paused, nor which of several such devices it had: that they shared it is not certain.
    """
    times = [(run, *span) for run in runs if (span := _span(run))]
    return frozenset(
        run.folder
        for run, begun, ended in times
        for other, earlier, later in times
        if other is not run
        and other.card.get("device") == run.card.get("device")
        and begun < later
        and earlier < ended
    )


def _span(run: Run) -> Span | None:
    """When a run began and ended, as far as its card tells; None if it does not."""
    try:
        begun = _moment(run.card["started"])
        if run.card.get("finished"):
            return begun, _moment(run.card["finished"])
        return begun, begun + datetime.timedelta(seconds=float(run.card.get("seconds") or 0.0))
    except (LookupError, TypeError, ValueError):
        # Cards are files that anybody may have written.
        return None


def _moment(text: str) -> datetime.datetime:
    found = datetime.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
