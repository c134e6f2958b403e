"""Verdicts by returns themselves: on control tasks nobody knows the best one, so there is no threshold.

An arm is ahead of another if its seeds have the larger mean return over all common frames (the area under the
curve), which rewards learning early as well as ending high.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64

from gobi.analysis import chance, statistics
from gobi.analysis.comparison import millions
from gobi.analysis.scores import Scored
from gobi.reproduce import published
from gobi.reproduce.evidence import Compared
from gobi.reproduce.verdicts import MARGIN, TOO_FEW, Outcome, Verdict, too_few

Seeds = Float64[np.ndarray, " seeds"]


def after(scored: Scored, frames: int) -> Seeds | None:
    """The return of each seed after so many frames; None if the arm ends before."""
    return scored.after(frames) if frames <= scored.end else None


def ahead(found: Compared, first: str, second: str) -> Verdict:
    """Whether the seeds of one arm have a larger mean return over the frames of all than those of another."""
    one, other = found[first], found[second]
    told = f"{_means([one, other])} ({found.where})"
    if not (one.area.any() or other.area.any()):
        return Verdict("undecided", f"neither earns anything: {told}")
    seen = chance.compared([one.area], [other.area])
    outcomes: dict[chance.Direction, Outcome] = {"better": "held", "worse": "not held"}
    doubts = {"too few seeds": f"{TOO_FEW}: ", "alike": "cannot be told apart: "}
    return Verdict(outcomes.get(seen, "undecided"), f"{doubts.get(seen, '')}{told}")


def as_good(found: Compared, arm: str, others: Sequence[str]) -> Verdict:
    """Whether an arm does about as well as each of the others, or better: within the margin."""
    mine, outcomes, few = found[arm], [], False
    size = len(mine.area)

    def above(drawn: Float64[np.ndarray, "*batch n"]) -> Float64[np.ndarray, "*batch"]:
        """By how much the arm is above what would still be about as well."""
        return np.asarray(drawn[..., :size].mean(axis=-1) - drawn[..., size:].mean(axis=-1) / MARGIN)

    for other in (found[name] for name in others):
        low, high = statistics.bootstrap([mine.area, other.area], above) or (None, None)
        if low is None or high is None or too_few(mine, other):
            few = True
            outcomes.append("undecided")
        elif not (mine.area.any() or other.area.any()):
            outcomes.append("undecided")
        else:
            outcomes.append("held" if low > 0 else "not held" if high < 0 else "undecided")
    told = f"{_means([found[name] for name in (arm, *others)])} ({found.where})"
    if "not held" in outcomes:
        return Verdict("not held", told)
    if few:
        return Verdict("undecided", f"{TOO_FEW}: {told}")
    return Verdict("held" if set(outcomes) == {"held"} else "undecided", told)


@dataclasses.dataclass(frozen=True)
class Beside:
    """Our RE3 beside its authors' own, after as many frames as both have been watched for.

    where:  our mean, against their mean give or take one standard deviation.
    text:   both numbers, in words.
    """

    where: Literal["inside", "above", "below"]
    text: str


def beside_published(found: Compared, arm: str) -> Beside | None:
    """How an arm of RE3 fares beside what its authors published; None for any other, and for the state."""
    known, scored = published.RE3.get(found.task.name), found[arm]
    alike = all(_is_re3(run.settings or {}) for run in scored.group.runs)
    if known is None or not alike:
        return None
    watched = [(frames, mine) for frames in known.at if (mine := after(scored, frames)) is not None]
    if not watched:
        return None
    frames, mine = watched[-1]
    theirs, spread = known.at[frames]
    ours = float(mine.mean())
    where = "below" if ours < theirs - spread else "above" if ours > theirs + spread else "inside"
    return Beside(
        where,
        f"re3 has {ours:.0f} at {millions(frames)} frames here ({_seeds(scored)}), {where} the spread of its "
        f"authors' own runs, {theirs} ± {spread} ({published.SEEDS} seeds)",
    )


def anchored(found: Compared, re3: str, verdict: Verdict) -> Verdict:
    """A verdict on who is ahead of RE3, with RE3's own numbers beside.

    To be ahead of an RE3 that is below what its authors have says little: then the claim is open.
    """
    beside = beside_published(found, re3)
    if beside is None:
        return verdict
    outcome: Outcome = verdict.outcome
    if outcome == "held" and beside.where == "below":
        outcome = "undecided"
    return Verdict(outcome, f"{verdict.because}; {beside.text}")


def _is_re3(settings: Mapping[str, Any]) -> bool:
    return settings.get("reward") == "re3" and settings.get("observations") == "pixels"


def _means(arms: Sequence[Scored]) -> str:
    """The mean return of arms over the frames that all have, and at those at which it is usually told."""
    parts = [f"{one.group.method.label} {_value(one)} ({_seeds(one)})" for one in arms]
    told = f"mean return over {millions(arms[0].task.horizon)} frames: {', '.join(parts)}"
    later = []
    for frames in published.FRAMES:
        returns = [mine for one in arms if (mine := after(one, frames)) is not None]
        if len(returns) == len(arms):
            later.append(f"at {millions(frames)} {' and '.join(f'{mine.mean():.0f}' for mine in returns)}")
    return "; ".join([told, *later]) if len(arms) == 2 else told


def _value(one: Scored) -> str:
    around = statistics.bootstrap([one.area], statistics.mean)
    within = f" [{around[0]:.0f} to {around[1]:.0f}]" if around else ""
    return f"{one.area.mean():.0f}{within}"


def _seeds(one: Scored) -> str:
    count = len(one.area)
    return f"{count} seed{'s' * (count > 1)}"
