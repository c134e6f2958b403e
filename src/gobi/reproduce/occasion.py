"""The occasions on which runs were made: with which version of the code, and whether others went on then."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from pathlib import Path

from gobi.analysis.runs import Run

DIGITS = 7
"""Of a commit, for people."""
OTHER_CODE = "from different versions of the code"
UNRECORDED = "version not recorded"


def commit(run: Run) -> str:
    """The commit that a run was made from, shortened; with a plus if files differed from it."""
    told = str(run.card.get("commit") or "")
    return f"{told[:DIGITS]}{'+' * ('+' in told)}" if told else "not recorded"


def different_code(runs: Iterable[Run]) -> bool:
    """Whether runs are known to come from more than one version of the code."""
    return len({told for run in runs if (told := run.card.get("commit"))}) > 1


def doubts(runs: Sequence[Run]) -> list[str]:
    """What there is to say of the versions of the code that runs come from; nothing if it was one for all.

    A run without a recorded version may come from any.
    """
    unknown = not all(run.card.get("commit") for run in runs)
    return [OTHER_CODE] * different_code(runs) + [UNRECORDED] * unknown


def crowded(runs: Sequence[Run]) -> frozenset[Path]:
    """Folders of runs that may have shared their device with another of them.

    From the start of each to its end there was one on a device of the same kind. Cards do not tell when a run
    was paused, nor which of several such devices it had: that they shared it is not certain.
    """
    times = [(run, *_time(run)) for run in runs if run.card.get("started")]
    return frozenset(
        run.folder
        for run, begun, ended in times
        for other, earlier, later in times
        if other is not run
        and other.card.get("device") == run.card.get("device")
        and begun < later
        and earlier < ended
    )


def _time(run: Run) -> tuple[datetime.datetime, datetime.datetime]:
    """When a run began and ended, as far as its card tells."""
    begun = datetime.datetime.fromisoformat(run.card["started"])
    if run.card.get("finished"):
        return begun, datetime.datetime.fromisoformat(run.card["finished"])
    return begun, begun + datetime.timedelta(seconds=float(run.card.get("seconds", 0.0)))
