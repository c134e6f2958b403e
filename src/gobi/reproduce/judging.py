"""How claims are judged from all the runs there are: which arms are set against each other, and by what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gobi.analysis.runs import Run
from gobi.reproduce import illustration, measured, returns, verdicts
from gobi.reproduce.evidence import Compared, Evidence, NotRun, arm_name
from gobi.reproduce.groups import listed
from gobi.reproduce.matching import STATE
from gobi.reproduce.measured import Visits
from gobi.reproduce.study import short
from gobi.reproduce.verdicts import MARGIN, TOO_FEW, Verdict, doubted, too_few

Judge = Callable[[Evidence], Verdict]


def each(*judges: Judge) -> Judge:
    """All of them; what was not run is told at the end."""

    def judge(evidence: Evidence) -> Verdict:
        found, missing = [], []
        for one in judges:
            try:
                found.append(one(evidence))
            except NotRun as error:
                if not error.missing:
                    found.append(Verdict("not run", str(error)))
                missing += error.missing
        if not found:
            raise NotRun(missing=missing)
        return verdicts.both(
            [*([Verdict("not run", str(NotRun(missing=missing)))] if missing else []), *found]
        )

    return judge


def pair(judge: Callable[..., Verdict], task: str, first: str, second: str, *more: Any) -> Judge:
    """What a function of `verdicts` or `measured` says of two arms on a task, each named STUDY/ARM."""

    def judged(evidence: Evidence) -> Verdict:
        found = evidence.compared(task, first, second)
        return doubted(judge(found, first, second, *more), found)

    return judged


def sooner(tasks: Sequence[str], first: str, *others: str) -> Judge:
    """One arm gets there before each of the others, on each of the tasks."""
    return each(*(pair(verdicts.sooner, task, first, other) for task in tasks for other in others))


def ahead(tasks: Sequence[str], first: str, *others: str) -> Judge:
    """One arm has a larger mean return than each of the others, over the frames of both, on each task."""
    return each(*(pair(_ahead, task, first, other) for task in tasks for other in others))


def _ahead(found: Compared, first: str, second: str) -> Verdict:
    """Where the other is RE3, its authors' own numbers are told beside."""
    _refuse_the_state(found)
    return returns.anchored(found, second, returns.ahead(found, first, second))


def _refuse_the_state(found: Compared) -> None:
    """What the paper says of control tasks, it says of pixels."""
    if STATE in found.setting:
        raise NotRun(
            f"{short(found.task.name)} was run from the state only, and the paper learns from pixels"
        )


def as_good(task: str, arm: str, *others: str) -> Judge:
    """An arm does about as well as the others, by the mean return over the frames that all have."""

    def judge(evidence: Evidence) -> Verdict:
        found = evidence.compared(task, arm, *others)
        _refuse_the_state(found)
        return doubted(returns.as_good(found, arm, others), found)

    return judge


def alike(task: str, *arms: str) -> Judge:
    """Arms take equally many frames."""

    def judge(evidence: Evidence) -> Verdict:
        found = evidence.compared(task, *arms)
        return doubted(verdicts.alike(found, arms), found)

    return judge


def solves(task: str, arm: str) -> Judge:
    """Every seed of an arm gets to the threshold."""

    def judge(evidence: Evidence) -> Verdict:
        found = evidence.compared(task, arm)
        return doubted(verdicts.all_solve(found, arm), found)

    return judge


def fails(tasks: Sequence[str], arm: str) -> Judge:
    """Most seeds of an arm fail, over all of these tasks."""

    def judge(evidence: Evidence) -> Verdict:
        found = [one for task in tasks if (one := _if_run(evidence, task, arm)) is not None]
        if not found:
            raise NotRun(f"no runs of {arm_name(arm)}")
        seeds = evidence.studies[arm.partition("/")[0]].seeds
        return doubted(verdicts.mostly_fail(found, arm, len(tasks) - len(found), seeds), *found)

    return judge


def none_works(task: str, study: str, arms: Sequence[str]) -> Judge:
    """None of the arms of a search over settings works."""

    def judge(evidence: Evidence) -> Verdict:
        names = [f"{study}/{arm}" for arm in arms]
        found = {name: one for name in names if (one := _if_run(evidence, task, name)) is not None}
        if not found:
            raise NotRun(f"no runs of the study {study}")
        return doubted(verdicts.none_works(study, found, len(names)), *found.values())

    return judge


def _if_run(evidence: Evidence, task: str, arm: str) -> Compared | None:
    try:
        return evidence.compared(task, arm)
    except NotRun:
        return None


SOONER: dict[str, str] = {"held": "sooner on", "not held": "later on", "undecided": "open on"}
AHEAD: dict[str, str] = {"held": "ahead on", "not held": "behind on", "undecided": "open on"}
"""How each outcome is told of some tasks."""


def sooner_than_all(tasks: Sequence[str], first: str, others: Sequence[str]) -> Judge:
    """The same as `sooner`, told in as few words as many tasks and arms allow."""
    return _than_all(verdicts.sooner, SOONER, tasks, first, others)


def ahead_of_all(tasks: Sequence[str], first: str, others: Sequence[str]) -> Judge:
    """The same as `ahead`, as briefly."""
    return _than_all(_ahead, AHEAD, tasks, first, others)


def _than_all(
    compare: Callable[..., Verdict],
    words: dict[str, str],
    tasks: Sequence[str],
    first: str,
    others: Sequence[str],
) -> Judge:

    def judge(evidence: Evidence) -> Verdict:
        found: list[Verdict] = []
        why: list[str] = []
        for other in others:
            by: dict[str, list[str]] = {outcome: [] for outcome in words}
            for task in tasks:
                try:
                    seen = pair(compare, task, first, other)(evidence)
                except NotRun as error:
                    why += [] if error.missing else [str(error)]
                    continue
                by[seen.outcome].append(short(task))
                found.append(Verdict(seen.outcome, _against(other, by, words, len(tasks)), seen.doubts))
        if not found:
            rivals = ", ".join(map(arm_name, others))
            raise NotRun(
                "; ".join(dict.fromkeys(why)) or f"no task has both {arm_name(first)} and one of {rivals}"
            )
        together = verdicts.both(found)
        outcome = together.outcome
        if outcome == "held" and len(found) < len(tasks) * len(others):
            outcome = "undecided"
        last = {told.because.partition(":")[0]: told.because for told in found}
        unmet = [arm_name(other) for other in others if arm_name(other) not in last]
        told = "; ".join([*last.values(), *[f"{name}: not run" for name in unmet]])
        return Verdict(outcome, told, together.doubts)

    return judge


def _against(other: str, by: dict[str, list[str]], words: dict[str, str], tasks: int) -> str:
    parts = [
        f"{words[key]} {', '.join(names) if len(names) < tasks else f'all {tasks} tasks'}"
        for key, names in by.items()
        if names
    ]
    left = tasks - sum(map(len, by.values()))
    if left:
        parts.append(f"{left} {'task' if left == 1 else 'tasks'} not run")
    return f"{arm_name(other)}: {', '.join(parts)}"


def saves_more(on: str, than: str, slow: str, fast: str) -> Judge:
    """The slow arm takes more times the frames of the fast one on a task than on another."""

    def judge(evidence: Evidence) -> Verdict:
        here, there = (evidence.compared(task, slow, fast) for task in (on, than))
        return doubted(_saves_more(here, there, slow, fast), here, there)

    return judge


def _saves_more(here: Compared, there: Compared, slow: str, fast: str) -> Verdict:
    (much, low, high), (little, least, most) = (
        verdicts.times_ratio(found.common(slow), found.common(fast)) for found in (here, there)
    )
    names = [arm_name(name) for name in (slow, fast)]
    told = (
        f"{names[0]} takes {much:.2f} times the frames of {names[1]} on {short(here.task.name)}, "
        f"{little:.2f} on {short(there.task.name)}"
    )
    few = any(too_few(found.common(slow), found.common(fast)) for found in (here, there))
    if few or low is None or high is None or least is None or most is None:
        return Verdict("undecided", f"{TOO_FEW}: {told}")
    told += f" (95 %: {low:.2f} to {high:.2f}, {least:.2f} to {most:.2f})"
    # A ratio is at least what it seems if all seeds of the fast arm got there, at most if the slow one's.
    if low > most and here.common(fast).solved.all() and there.common(slow).solved.all():
        return Verdict("held", told)
    if high < least and here.common(slow).solved.all() and there.common(fast).solved.all():
        return Verdict("not held", told)
    unsolved = not all(one.common(arm).solved.all() for one in (here, there) for arm in (slow, fast))
    return Verdict("undecided", f"not all seeds get there: {told}" if unsolved else told)


def goes_less(
    place: str, task: str, arm: tuple[str, Sequence[int]], other: tuple[str, Sequence[int]]
) -> Judge:
    """The agents of one arm go less to a kind of place, at all of its stages, than those of another.

    place:  see `analysis.places`.
    arm:    its name, and frames of stages; so is `other`, of which the largest share counts.
    """

    def judge(evidence: Evidence) -> Verdict:
        found, mapped = _mapped(evidence, task, arm[0], other[0])
        shares, told = [], []
        for name, stages in (arm, other):
            known = [_visits(mapped.of(task, name, found.setting), place, at) for at in stages]
            if None in known:
                near = ", ".join(f"{stage / 1e6:g}M" for stage in stages)
                raise NotRun(
                    f"no heatmap of {arm_name(name)} on {short(task)} with {place} at about {near} frames"
                )
            there = [one for one in known if one is not None]
            shares.append([one.visits for one in there])
            at = ", ".join(f"{one.visits:.0%} at {one.frames / 1e6:.3g}M" for one in there)
            told.append(f"{arm_name(name)} {at}")
        kind = place.replace("_", " ")
        words = f"share of visits in {kind}: {'; '.join(told)} (one seed each; {found.where})"
        if max(shares[0]) * MARGIN < max(shares[1]):
            return doubted(Verdict("held", words), found)
        outcome = "not held" if max(shares[0]) >= max(shares[1]) else "undecided"
        return doubted(Verdict(outcome, words), found)

    return judge


def on_each(tasks: Sequence[str], arm: str, judge: Callable[..., Verdict], *more: Any) -> Judge:
    """What a function of `measured` says of an arm's runs as the study asks for them, one of each task.

    It is told how many tasks there are, so that it can tell how many are missing.
    """

    def judged(evidence: Evidence) -> Verdict:
        runs = [found[0] for task in tasks if (found := evidence.of(task, arm))]
        if not runs:
            raise NotRun(f"no runs of {arm_name(arm)}")
        return judge(runs, len(tasks), *more)

    return judged


def planned(evidence: Evidence) -> Verdict:
    """The appendix's example, by exact planning: growth takes one move, to the centre; R2's more."""
    del evidence
    growth, grew = illustration.plan(illustration.growth), illustration.plan(illustration.grew)
    told = f"paid by growth the best plan has {len(growth.gains)} move, paid for growing {len(grew.gains)}"
    right = growth.path[1:] == (illustration.CENTRE,) and len(grew.gains) > 1
    return Verdict("held" if right else "not held", told)


def missing(what: str) -> Judge:
    """Nothing here can test it."""

    def judge(evidence: Evidence) -> Verdict:
        raise NotRun(what)

    return judge


def _mapped(evidence: Evidence, task: str, *arms: str) -> tuple[Compared, Evidence]:
    """The arms on a task by those of their runs that have maps, and these runs.

    Where there are runs but no maps, that is what is told.
    """
    evidence.compared(task, *arms)
    studies = {name: evidence.studies[name] for name in {arm.partition("/")[0] for arm in arms}}
    mapped = Evidence((run for run in evidence.runs if measured.has_map(run)), studies)
    lacking = [arm for arm in arms if (arm.partition("/")[0], task, arm_name(arm)) not in mapped.known]
    if lacking:
        names = listed(map(arm_name, lacking))
        raise NotRun(
            f"there are runs of {names} on {short(task)}, but no maps of them are kept (no heatmap.csv)"
        )
    return mapped.compared(task, *arms), mapped


def _visits(runs: Sequence[Run], place: str, at: int) -> Visits | None:
    return next((found for run in runs if (found := measured.visits(run, place, at)) is not None), None)
