"""Whether a claim held: what seeds allow to say, with the numbers that say it.

*Sooner* is about the frames that a seed needs to reach 90 % of the best return known; a seed that never did
counts as the common end. A claim of a number, or of likeness, holds within a margin of half as much again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64

from gobi.analysis import chance, statistics
from gobi.analysis.comparison import millions
from gobi.analysis.scores import Scored
from gobi.reproduce.evidence import Compared
from gobi.reproduce.occasion import doubts
from gobi.reproduce.study import short

Outcome = Literal["held", "not held", "undecided", "not run", "shown by a test"]
"""The last one is no matter of runs: a test of the repository shows it, or fails."""

TOO_FEW = "too few seeds to tell"
MARGIN = 1.5
"""Alike is what differs by less than this factor, with its 95 % interval; so is "about" a number."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How a claim fared, and why: half a sentence with numbers, or what is missing.

    doubts:  what there is to say of the versions of the code, each with the task that it is about.
    """

    outcome: Outcome
    because: str
    doubts: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.outcome}: {self.because}" if self.because else self.outcome

    def with_doubts(self) -> Verdict:
        """The same with its doubts told, each once, after everything else."""
        tasks: dict[str, list[str]] = {}
        for doubt, task in self.doubts:
            tasks.setdefault(doubt, []).append(task)
        told = [f"{doubt} ({', '.join(where)})" for doubt, where in tasks.items()]
        return Verdict(self.outcome, "; ".join([self.because, *told]))


def doubted(verdict: Verdict, *parts: Compared) -> Verdict:
    """A verdict with the doubts about the runs that it comes from."""
    found = [
        (doubt, short(one.task.name))
        for one in parts
        for doubt in doubts([run for scored in one.arms.values() for run in scored.group.runs])
    ]
    return dataclasses.replace(verdict, doubts=tuple(dict.fromkeys([*verdict.doubts, *found])))


def both(verdicts: Sequence[Verdict]) -> Verdict:
    """Of a claim that has parts: it holds if all do, and fails if one fails."""
    outcomes = [one.outcome for one in verdicts]
    told = "; ".join(dict.fromkeys(one.because for one in verdicts if one.outcome != "not run"))
    if "not held" in outcomes:
        outcome: Outcome = "not held"
    elif set(outcomes) == {"held"}:
        outcome = "held"
    elif set(outcomes) == {"not run"}:
        return Verdict("not run", "; ".join(dict.fromkeys(one.because for one in verdicts)))
    else:
        outcome = "undecided"
    missing = "; ".join(dict.fromkeys(one.because for one in verdicts if one.outcome == "not run"))
    all_doubts = tuple(dict.fromkeys(doubt for one in verdicts for doubt in one.doubts))
    return Verdict(outcome, f"{told}; {missing}" if missing else told, all_doubts)


def sooner(found: Compared, first: str, second: str) -> Verdict:
    """Whether the seeds of one arm get to the threshold in fewer frames than those of another."""
    one, other = found.common(first), found.common(second)
    value, low, high = times_ratio(one, other)
    told = f"{reaches([one, other])}: {_times(value, low, high)} the frames ({found.where})"
    if not (one.solved.any() or other.solved.any()):
        return Verdict("undecided", f"neither gets there: {told}")
    seen = chance.compared([-one.times], [-other.times])
    outcomes: dict[chance.Direction, Outcome] = {"better": "held", "worse": "not held"}
    outcome = outcomes.get(seen, "undecided")
    if seen == "too few seeds":
        told = f"{TOO_FEW}: {told}"
    if seen == "alike":
        told = f"cannot be told apart: {told}"
    return Verdict(outcome, told)


def not_sooner(found: Compared, first: str, second: str) -> Verdict:
    """Whether one arm has no advantage over another: it takes as long, within the margin, or longer.

    The ratio is known only if all seeds of both got there. If some of the first did not, it is at least that.
    """
    one, other = found.common(first), found.common(second)
    value, low, high = times_ratio(one, other)
    told = f"{reaches([one, other])}: {_times(value, low, high)} the frames ({found.where})"
    if low is None or high is None or too_few(one, other):
        return Verdict("undecided", f"{TOO_FEW}: {told}")
    if not (one.solved.any() or other.solved.any()):
        return Verdict("undecided", told)
    if high < 1 / MARGIN:
        return Verdict("not held", told)
    as_long = bool(one.solved.all() and other.solved.all()) and low > 1 / MARGIN
    longer = bool(other.solved.all()) and low >= 1 and all(map(found.to_its_end, (first, second)))
    return Verdict("held" if as_long or longer else "undecided", told)


def alike(found: Compared, arms: Sequence[str]) -> Verdict:
    """Whether arms take equally many frames, within the margin; none of them has to fail for that."""
    outcomes: list[Outcome] = []
    few = False
    told = f"{reaches([found.common(arm) for arm in arms])} ({found.where})"
    for place, first in enumerate(arms):
        for second in arms[place + 1 :]:
            one, other = found.common(first), found.common(second)
            _, low, high = times_ratio(one, other)
            if low is None or high is None or too_few(one, other):
                few = True
                outcomes.append("undecided")
            elif low > MARGIN or high < 1 / MARGIN:
                outcomes.append("not held")
            else:
                near = low > 1 / MARGIN and high < MARGIN and bool(one.solved.all() and other.solved.all())
                outcomes.append("held" if near else "undecided")
    if "not held" in outcomes:
        return Verdict("not held", told)
    if few:
        return Verdict("undecided", f"{TOO_FEW}: {told}")
    return Verdict("held" if set(outcomes) == {"held"} else "undecided", told)


def too_few(one: Scored, other: Scored) -> bool:
    """Whether two arms have so few seeds that not even their complete separation would be evidence."""
    return chance.too_few([(len(one.final), len(other.final))])


def times_as_many(found: Compared, slow: str, fast: str, claimed: float) -> Verdict:
    """Whether one arm needs about so many times the frames of another, or more."""
    many, few = found.common(slow), found.common(fast)
    value, low, high = times_ratio(many, few)
    told = (
        f"{reaches([few, many])}: {_times(value, low, high)} the frames, "
        f"the paper: about {claimed:g} ({found.where})"
    )
    if low is None or high is None or too_few(many, few):
        return Verdict("undecided", f"{TOO_FEW}: {told}")
    if not few.solved.any():
        return Verdict("undecided", told)
    if low > claimed / MARGIN:
        return Verdict("held", told)
    # Seeds of the slow arm that never got there may need any number of frames.
    return Verdict("not held" if high < claimed / MARGIN and many.solved.all() else "undecided", told)


def all_solve(found: Compared, arm: str) -> Verdict:
    """Whether every seed of an arm gets to the threshold."""
    one, (solved, failed) = found[arm].to_the_last(), _fate(found[arm])
    going = int((~solved & ~failed).sum())
    told = f"{reaches([one])}{f', {going} not finished' if going else ''} ({found.where})"
    if solved.all():
        return Verdict("held" if len(solved) > 1 else "undecided", told)
    return Verdict("not held" if found.to_its_end(arm) else "undecided", told)


def mostly_fail(parts: Sequence[Compared], arm: str, left: int = 0, seeds: int = 0) -> Verdict:
    """Whether an arm fails on tasks: most of its seeds, over all of them, never get to the threshold.

    parts:  the arm, on each task that was run.
    left:   tasks that were not run, with so many seeds each; if all of them fail, may the claim still hold?
    """
    fates = [_fate(found[arm]) for found in parts]
    solved, failed = (np.concatenate(each) for each in zip(*fates, strict=True))
    count, asked = int(solved.sum()), len(solved) + left * seeds
    least, _ = statistics.wilson(count / asked, asked)
    places = ", ".join(one.where for one in parts) if len(parts) < 4 else f"{len(parts)} tasks"
    places += f"; {left} more not run" * bool(left)
    name, (known, going) = parts[0][arm].group.method.label, _known(solved, failed)
    told = f"{name} gets there in {count} of {known} seeds" if known else f"{name} has not got there yet"
    told = f"{told}{going} ({places})"
    if least > 0.5:
        return Verdict("not held", told)
    whole = not left and all(found.to_its_end(arm) for found in parts)
    fails = whole and statistics.wilson(count / known, known)[1] < 0.5
    return Verdict("held" if fails else "undecided", told)


def none_works(study: str, cells: Mapping[str, Compared], asked: int) -> Verdict:
    """Whether a search over settings finds none that works: none with which most seeds get to the threshold.

    cells:  the arms of the search that were run; `asked` is how many it has.
    """
    scored = {arm: found[arm] for arm, found in cells.items()}
    fates = {arm: _fate(one) for arm, one in scored.items()}
    best = max(scored, key=lambda arm: (fates[arm][0].mean(), scored[arm].area.mean()))
    count, seeds, (known, going) = int(fates[best][0].sum()), len(fates[best][0]), _known(*fates[best])
    there = f"{count} of {known} seeds get there" if known else "none has got there yet"
    where = ", ".join(dict.fromkeys(found.where for found in cells.values()))
    told = (
        f"the best of the {len(cells)} cells of {study} that were run, of {asked}, is "
        f"{scored[best].group.method.label}: {there}{going} ({where})"
    )
    if 2 * count > seeds:
        return Verdict("not held", told)
    whole = len(cells) == asked and all(found.to_its_end(arm) for arm, found in cells.items())
    return Verdict("held" if whole else "undecided", told)


def _fate(one: Scored) -> tuple[Bool[np.ndarray, " seeds"], Bool[np.ndarray, " seeds"]]:
    """Which seeds got to the threshold, and which had all their frames and did not.

    Neither is known of one that is not finished. Each is watched to its own end: others of its arm that
    are not finished do not shorten it.
    """
    there = one.to_the_last().solved
    ended = np.array([bool(run.card.get("finished")) for run in one.group.runs for _ in run.seeds])
    return there, ended & ~there


def _known(solved: Bool[np.ndarray, " seeds"], failed: Bool[np.ndarray, " seeds"]) -> tuple[int, str]:
    """Of how many seeds it is known whether they get there, and words for the others; empty if none is."""
    known = int((solved | failed).sum())
    going = len(solved) - known
    if not going:
        return known, ""
    return known, f", {going} {'more' if known else 'seeds'} {'are' if going > 1 else 'is'} not finished"


def times_ratio(one: Scored, other: Scored) -> tuple[float, float | None, float | None]:
    """How many times the frames of another arm one needs, with its bootstrap interval if there is one."""
    size = len(one.times)

    def ratio(drawn: Float64[np.ndarray, "*batch n"]) -> Float64[np.ndarray, "*batch"]:
        return np.asarray(drawn[..., :size].mean(axis=-1) / drawn[..., size:].mean(axis=-1))

    low, high = statistics.bootstrap([one.times, other.times], ratio) or (None, None)
    return float(one.times.mean() / other.times.mean()), low, high


def reaches(arms: Sequence[Scored]) -> str:
    """When the seeds of arms got to the threshold, of the first and the last of them."""
    told = [f"{one.group.method.label} {_when(one)}" for one in arms]
    threshold = arms[0].task.threshold
    return f"return {threshold:.2f} reached by {', '.join(told)}"


def frames_span(one: Scored) -> str:
    """Frames of the first and of the last seed that got there, in millions; empty if none did."""
    reached = one.times[one.solved]
    if not len(reached):
        return ""
    low, high = float(reached.min()), float(reached.max())
    if high < 1e6:
        return millions(low) if low == high else f"{millions(low)} to {millions(high)}"
    return f"{low / 1e6:.1f}M" if low == high else f"{low / 1e6:.1f} to {high / 1e6:.1f}M"


def _when(one: Scored) -> str:
    """The same in a sentence, with how many seeds there are and how many failed."""
    count, solved, stayed = len(one.solved), int(one.solved.sum()), int(one.stayed.sum())
    seeds = f"{count} seed{'s' * (count > 1)}"
    # The mean of a hundred episodes is noisy: it may touch the threshold and be below it in the end.
    left = f", {stayed or 'none'} there at the end" * (stayed < solved)
    if solved == count:
        return f"at {frames_span(one)} frames ({seeds}{left})"
    by = millions(one.end)
    if not solved:
        return f"in none of {seeds} by {by}"
    return f"in {solved} of {seeds} by {by} (at {frames_span(one)}{left})"


def _times(value: float, low: float | None, high: float | None) -> str:
    within = f" ({low:.2f} to {high:.2f})" if low is not None and high is not None else ""
    return f"{value:.2f}{within} times"
