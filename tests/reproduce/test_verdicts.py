"""What seeds allow to say of a claim."""

from __future__ import annotations

import math

import pytest
from compared_runs import N7, S3, cut, fall
from study_runs import FAST, SLOW, make_arm

from gobi.reproduce import tables, verdicts
from gobi.reproduce.evidence import Evidence, gather
from gobi.reproduce.verdicts import Verdict, both

A, B = "minigrid/gobi", "minigrid/noveld"
NEVER = (math.inf,) * 4


@pytest.fixture
def compared(tmp_path):
    """Two arms that reach their plateau at these frames."""

    def made(ours, theirs, **options):
        for name, times in (("gobi", ours), ("noveld", theirs)):
            seeds = tuple(range(len(times)))
            make_arm(
                tmp_path / name,
                "minigrid",
                name,
                task=N7,
                solved_at=times,
                seeds=seeds,
                plateau=0.65,
                **options,
            )
        return Evidence(gather([tmp_path])).compared(N7, A, B)

    return made


def test_separated_seeds_settle_who_is_sooner_and_the_numbers_are_told(compared):
    found = compared(FAST, SLOW)
    verdict = verdicts.sooner(found, A, B)
    assert verdict.outcome == "held"
    assert (
        "return 0.61 reached by gobi at 2.0 to 3.4M frames (4 seeds), noveld at 5.8 to 7.2M"
        in verdict.because
    )
    assert verdicts.sooner(found, B, A).outcome == "not held"


def test_three_seeds_each_are_too_few(compared):
    verdict = verdicts.sooner(compared(FAST[:3], SLOW[:3]), A, B)
    assert verdict.outcome == "undecided"
    assert "too few seeds" in verdict.because


SAME = (2.1e6, 2.2e6, 2.3e6, 2.4e6)


@pytest.mark.parametrize(
    ("judge", "ours", "theirs"),
    [
        (lambda found: verdicts.alike(found, [A, B]), SAME, SAME),
        (lambda found: verdicts.alike(found, [A, B]), FAST, SLOW),
        (lambda found: verdicts.not_sooner(found, A, B), SAME, SAME),
        (lambda found: verdicts.not_sooner(found, A, B), FAST, SLOW),
        (lambda found: verdicts.times_as_many(found, B, A, 3.0), SAME, SLOW),
        (lambda found: verdicts.times_as_many(found, B, A, 30.0), SAME, SLOW),
    ],
)
@pytest.mark.parametrize("seeds", [2, 3])
def test_nor_do_two_or_three_seeds_each_settle_a_ratio(compared, judge, ours, theirs, seeds):
    verdict = judge(compared(ours[:seeds], theirs[:seeds]))
    assert verdict.outcome == "undecided"
    assert verdict.because.startswith("too few seeds to tell: ")
    assert judge(compared(ours, theirs)).outcome in ("held", "not held")


def test_seeds_that_overlap_cannot_be_told_apart(compared):
    verdict = verdicts.sooner(compared((2e6, 3e6, 4e6, 5e6), (2.2e6, 3.2e6, 3.8e6, 4.8e6)), A, B)
    assert verdict.outcome == "undecided"
    assert "cannot be told apart" in verdict.because


def test_a_seed_that_never_got_there_is_later_than_all_that_did(compared):
    verdict = verdicts.sooner(compared(FAST, NEVER), A, B)
    assert verdict.outcome == "held"
    assert "noveld in none of 4 seeds by 8.00M" in verdict.because


def test_nobody_is_sooner_where_neither_gets_there(compared):
    assert verdicts.sooner(compared(NEVER, NEVER), A, B).outcome == "undecided"


def test_about_three_times_as_many_holds_from_two_on(compared):
    found = compared((2e6, 2.1e6, 2.2e6, 2.3e6), SLOW)
    assert verdicts.times_as_many(found, B, A, 3.0).outcome == "held"
    assert verdicts.times_as_many(found, B, A, 6.0).outcome == "not held"
    assert verdicts.times_as_many(found, A, B, 3.0).outcome == "not held"


def test_a_ratio_to_seeds_that_never_got_there_may_be_any_larger_one(compared):
    assert verdicts.times_as_many(compared(FAST, NEVER), B, A, 30.0).outcome == "undecided"


def test_alike_needs_intervals_within_the_margin_and_no_failed_seed(compared):
    near = (2.1e6, 2.2e6, 2.3e6, 2.4e6)
    assert verdicts.alike(compared(near, near), [A, B]).outcome == "held"


@pytest.mark.parametrize(("theirs", "outcome"), [(SLOW, "not held"), ((2e6, 2.1e6, 2.2e6, 6e6), "undecided")])
def test_unlike_arms_are_not_alike(compared, theirs, outcome):
    found = compared((2.1e6, 2.2e6, 2.3e6, 2.4e6), theirs)
    assert verdicts.alike(found, [A, B]).outcome == outcome


def test_two_that_both_fail_are_not_called_alike(compared):
    assert verdicts.alike(compared(NEVER, NEVER), [A, B]).outcome == "undecided"


def test_no_advantage_is_as_long_or_longer(compared):
    found = compared(FAST, SLOW)
    assert verdicts.not_sooner(found, B, A).outcome == "held"
    assert verdicts.not_sooner(found, A, B).outcome == "not held"


def test_two_that_hardly_get_there_are_not_as_long_as_each_other(compared):
    found = compared((7e6, *NEVER[:3]), (7e6, *NEVER[:3]))
    assert verdicts.not_sooner(found, A, B).outcome == "undecided"


def test_an_arm_that_fails_has_no_advantage_over_one_that_does_not(compared):
    found = compared(NEVER, FAST)
    assert verdicts.not_sooner(found, A, B).outcome == "held"


def test_an_arm_that_was_cut_short_may_still_have_an_advantage(compared):
    found = compared((2e6, 2e6, 2e6, math.inf), (2e6, 2e6, 2e6, 2e6), card={"finished": None})
    assert verdicts.not_sooner(found, A, B).outcome == "undecided"


def test_all_seeds_must_solve_it(compared):
    found = compared(FAST, (2e6, 2e6, 2e6, math.inf))
    assert verdicts.all_solve(found, A).outcome == "held"
    assert verdicts.all_solve(found, B) == Verdict(
        "not held", "return 0.61 reached by noveld in 3 of 4 seeds by 8.00M (at 2.0M) (MultiRoom-N7-S8)"
    )


@pytest.mark.parametrize(
    ("fallen", "told", "cell"),
    [
        ((), "gobi at 2.0 to 3.4M frames (4 seeds)", "4 of 4"),
        ((1,), "gobi at 2.0 to 3.4M frames (4 seeds, 3 there at the end)", "4 of 4, 3 at the end"),
        ((0, 1, 2, 3), "gobi at 2.0 to 3.4M frames (4 seeds, none there at the end)", "4 of 4, 0 at the end"),
    ],
)
def test_seeds_that_touched_the_threshold_and_end_below_it_are_told(tmp_path, fallen, told, cell):
    make_arm(tmp_path, "minigrid", "gobi", task=N7, solved_at=FAST, plateau=0.65)
    fall(tmp_path, fallen, to=0.6)
    found = Evidence(gather([tmp_path])).compared(N7, A)
    verdict = verdicts.all_solve(found, A)
    assert verdict == Verdict("held", f"return 0.61 reached by {told} (MultiRoom-N7-S8)")
    headings, (line,) = tables.rows("minigrid", [found])
    assert line[headings.index("solved")] == cell


def test_most_seeds_must_fail_and_have_had_their_time(compared):
    found = compared(FAST, NEVER)
    assert verdicts.mostly_fail([found, found], B).outcome == "held"
    assert verdicts.mostly_fail([found, found], A).outcome == "not held"


def test_half_of_the_seeds_are_not_most(compared):
    found = compared(FAST, (2e6, 2e6, math.inf, math.inf))
    assert verdicts.mostly_fail([found, found], B).outcome == "undecided"


def test_tasks_that_were_not_run_may_refute_a_failure_and_cannot_save_it(compared):
    found = compared(FAST, NEVER)
    some = verdicts.mostly_fail([found, found], B, left=1, seeds=4)
    assert some == Verdict(
        "undecided", "noveld gets there in 0 of 8 seeds (MultiRoom-N7-S8, MultiRoom-N7-S8; 1 more not run)"
    )
    assert verdicts.mostly_fail([found] * 11, A, left=1, seeds=4).outcome == "not held"
    assert verdicts.mostly_fail([found], A, left=11, seeds=4).outcome == "undecided"


def test_a_run_that_was_cut_short_has_not_failed(compared):
    found = compared(FAST, NEVER, card={"finished": None})
    assert verdicts.mostly_fail([found, found], B).outcome == "undecided"
    assert verdicts.all_solve(found, B).outcome == "undecided"


def test_seeds_that_are_not_finished_are_not_counted_among_those_that_failed(tmp_path):
    arm = {"study": "minigrid", "name": "noveld", "plateau": 0.65}
    make_arm(tmp_path / "a", **arm, task=N7, solved_at=NEVER)
    make_arm(tmp_path / "b", **arm, task=S3, solved_at=(2e6, *NEVER[1:]), card={"finished": None})
    evidence = Evidence(gather([tmp_path]))
    parts = [evidence.compared(task, B) for task in (N7, S3)]
    # The one that got there before its run was stopped did get there.
    told = "noveld gets there in 1 of 5 seeds, 3 more are not finished (MultiRoom-N7-S8, KeyCorridorS3R3)"
    assert verdicts.mostly_fail(parts, B) == Verdict("undecided", told)
    cut(tmp_path / "b", 1e6)
    nothing = Evidence(gather([tmp_path])).compared(S3, B)
    told = "noveld has not got there yet, 4 seeds are not finished (KeyCorridorS3R3; 1 more not run)"
    assert verdicts.mostly_fail([nothing], B, left=1, seeds=4) == Verdict("undecided", told)


def test_a_seed_that_had_its_time_is_judged_by_all_of_it_beside_one_that_was_stopped(tmp_path):
    make_arm(tmp_path / "a", "minigrid", "noveld", task=N7, solved_at=SLOW, plateau=0.65)
    cut(make_arm(tmp_path / "b", "minigrid", "noveld", task=N7, seeds=(4, 5), solved_at=SLOW), 2e6)
    found = Evidence(gather([tmp_path])).compared(N7, B)
    told = verdicts.mostly_fail([found], B).because
    assert told == "noveld gets there in 4 of 4 seeds, 2 more are not finished (MultiRoom-N7-S8)"


@pytest.fixture
def stopped_beside(tmp_path):
    """One arm: three seeds that get there at 3.4 million frames, and a fourth that had two million in all."""
    times = (3.4e6,) * 3
    make_arm(tmp_path / "a", "minigrid", "gobi", task=N7, seeds=(0, 1, 2), solved_at=times, plateau=0.65)
    cut(make_arm(tmp_path / "b", "minigrid", "gobi", task=N7, seeds=(3,), solved_at=times[:1]), 2e6)
    return tmp_path


def test_a_setting_that_works_is_not_hidden_by_a_run_that_is_not_finished(stopped_beside):
    found = Evidence(gather([stopped_beside])).compared(N7, A)
    told = "gobi: 3 of 3 seeds get there, 1 more is not finished (MultiRoom-N7-S8)"
    assert verdicts.none_works("s", {A: found}, 1) == Verdict(
        "not held", f"the best of the 1 cells of s that were run, of 1, is {told}"
    )


def test_a_search_of_which_nothing_is_finished_has_not_failed(tmp_path):
    cut(make_arm(tmp_path / "a", "minigrid", "gobi", task=N7, solved_at=NEVER), 2e6)
    verdict = verdicts.none_works("s", {A: Evidence(gather([tmp_path])).compared(N7, A)}, 1)
    assert verdict.outcome == "undecided"
    assert "is gobi: none has got there yet, 4 seeds are not finished (" in verdict.because


def test_seeds_that_solve_it_are_counted_beside_one_that_is_not_finished(stopped_beside):
    verdict = verdicts.all_solve(Evidence(gather([stopped_beside])).compared(N7, A), A)
    assert verdict.outcome == "undecided"
    assert "gobi in 3 of 4 seeds by 8.00M (at 3.4M), 1 not finished (" in verdict.because


def test_a_run_that_was_stopped_is_set_against_another_over_the_frames_of_both(tmp_path):
    make_arm(tmp_path / "a", "minigrid", "gobi", task=N7, solved_at=SLOW, plateau=0.65)
    cut(make_arm(tmp_path / "b", "minigrid", "noveld", task=N7, solved_at=NEVER), 5e6)
    found = Evidence(gather([tmp_path])).compared(N7, A, B)
    # By itself the first gets there; the other had not the time in which to be later.
    assert found[A].solved.all()
    assert verdicts.all_solve(found, A).outcome == "held"
    verdict = verdicts.sooner(found, A, B)
    assert verdict.outcome == "undecided"
    assert "gobi in none of 4 seeds by 5.00M, noveld in none of 4 seeds by 5.00M" in verdict.because


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (["held", "held"], "held"),
        (["held", "not held", "not run"], "not held"),
        (["held", "undecided"], "undecided"),
        (["held", "not run"], "undecided"),
        (["not run", "not run"], "not run"),
    ],
)
def test_a_claim_of_several_parts_holds_if_all_do(parts, whole):
    assert both([Verdict(part, f"reason {number}") for number, part in enumerate(parts)]).outcome == whole
