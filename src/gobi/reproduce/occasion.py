"""The occasions on which runs were made: with which version of the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gobi.analysis.runs import Run

DIGITS = 7
"""Of a commit, for people."""
OTHER_CODE = "from different versions of the code"
UNRECORDED = "version not recorded"


def commit(run: Run) -> str:
    """The commit that a run was made from, shortened; with a plus if files differed from it."""
    told = str(run.card.get("commit") or "")
    return f"{told[:DIGITS]}{'+' * ('+' in told)}" if told else "not recorded"


def _different_code(runs: Iterable[Run]) -> bool:
    """Whether runs are known to come from more than one version of the code."""
    return len({told for run in runs if (told := run.card.get("commit"))}) > 1


def doubts(runs: Sequence[Run]) -> list[str]:
    """What there is to say of the versions of the code that runs come from; nothing if it was one for all.

    A run without a recorded version may come from any.
    """
    unknown = not all(run.card.get("commit") for run in runs)
    return [OTHER_CODE] * _different_code(runs) + [UNRECORDED] * unknown
