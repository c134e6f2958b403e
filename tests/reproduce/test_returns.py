"""Control studies: what the returns of seeds allow to say, and RE3's own numbers beside them."""

from __future__ import annotations

import csv
import math

import pytest
from study_runs import make_arm

from gobi.reproduce import claims_page, ending, published, returns
from gobi.reproduce.claims import CLAIMS
from gobi.reproduce.evidence import Evidence, NotRun, gather

PENDULUM, HOPPER, WALKER = "dmc/pendulum_swingup", "dmc/hopper_hop", "dmc/walker_run_sparse"
GOBI, RE3 = "dmc/gobi", "dmc/re3"
BY_NAME = {claim.name: claim for claim in CLAIMS}
SOON, MIDDLE, LATE = (tuple(first + 2e4 * seed for seed in range(5)) for first in (0.2e5, 1.6e5, 3e5))


def made(folder, name, times, *, study="dmc", task=HOPPER, plateau=230.0, **options):
    """A run whose return climbs to a plateau at these frames of its seeds."""
    seeds = tuple(range(len(times)))
    return make_arm(folder, study, name, task=task, seeds=seeds, solved_at=times, plateau=plateau, **options)


def two(place, ours, theirs, **options):
    made(place / "gobi", "gobi", ours, **options)
    made(place / "re3", "re3", theirs, **options)
    return Evidence(gather([place]))


def test_the_arm_with_the_larger_mean_return_over_all_frames_is_ahead_and_numbers_are_told(tmp_path):
    found = two(tmp_path, SOON, LATE).compared(HOPPER, GOBI, RE3)
    verdict = returns.ahead(found, GOBI, RE3)
    assert verdict.outcome == "held"
    area = found[GOBI].area.mean()
    assert area == pytest.approx(230 * (1 - 0.6e5 / 2 / 5e5), abs=1)
    assert f"mean return over 500k frames: gobi {area:.0f} [" in verdict.because
    assert "; at 50k 182 and 34; at 100k 230 and 68;" in verdict.because
    assert verdict.because.endswith("; at 500k 230 and 230 (hopper_hop)")
    assert returns.ahead(found, RE3, GOBI).outcome == "not held"


def test_two_seeds_each_are_too_few(tmp_path):
    found = two(tmp_path, SOON[:2], LATE[:2]).compared(HOPPER, GOBI, RE3)
    verdict = returns.ahead(found, GOBI, RE3)
    assert verdict.outcome == "undecided"
    assert verdict.because.startswith("too few seeds to tell: ")


def test_seeds_that_overlap_cannot_be_told_apart(tmp_path):
    found = two(tmp_path, MIDDLE, MIDDLE).compared(HOPPER, GOBI, RE3)
    assert returns.ahead(found, GOBI, RE3).because.startswith("cannot be told apart: ")


def test_where_neither_earns_anything_nothing_is_said(tmp_path):
    found = two(tmp_path, (math.inf,) * 5, (math.inf,) * 5).compared(HOPPER, GOBI, RE3)
    verdict = returns.ahead(found, GOBI, RE3)
    assert verdict.outcome == "undecided"
    assert verdict.because.startswith("neither earns anything: ")


def test_as_good_is_within_the_margin_of_each_of_the_others(tmp_path):
    for name, plateau in (("n3-k1", 100.0), ("n5-k1", 90.0), ("n10-k1", 60.0), ("n20-k1", 200.0)):
        made(tmp_path / name, name, SOON, study="dmc-search", plateau=plateau)
    arms = [f"dmc-search/n{n}-k1" for n in (3, 5, 10, 20)]
    found = Evidence(gather([tmp_path])).compared(HOPPER, *arms)
    three, five, ten, twenty = arms
    assert returns.as_good(found, five, [three, ten]).outcome == "held"
    assert returns.as_good(found, five, [three, twenty]).outcome == "not held"


def test_two_seeds_are_too_few_to_be_as_good(tmp_path):
    for name in ("n3-k1", "n5-k1"):
        made(tmp_path / name, name, SOON[:2], study="dmc-search")
    three, five = "dmc-search/n3-k1", "dmc-search/n5-k1"
    verdict = returns.as_good(Evidence(gather([tmp_path])).compared(HOPPER, three, five), five, [three])
    assert verdict.outcome == "undecided"
    assert verdict.because.startswith("too few seeds to tell: ")


@pytest.mark.parametrize(
    ("plateau", "where"), [(225.0, "inside"), (217.0, "inside"), (215.0, "below"), (235.0, "above")]
)
def test_our_re3_is_set_beside_its_authors(tmp_path, plateau, where):
    """Who have 225 ± 9 at 500k."""
    found = two(tmp_path, SOON, MIDDLE, plateau=plateau).compared(HOPPER, GOBI, RE3)
    beside = returns.beside_published(found, RE3)
    assert beside is not None
    assert beside.where == where
    assert beside.text == (
        f"re3 has {plateau:.0f} at 500k frames here (5 seeds), {where} the spread of its authors' own runs, "
        "225 ± 9 (5 seeds)"
    )
    assert returns.beside_published(found, GOBI) is None


def test_a_shorter_run_is_set_beside_what_its_authors_had_by_then(tmp_path):
    found = two(tmp_path, SOON, MIDDLE, changes={"frames": 100_000}).compared(HOPPER, GOBI, RE3)
    assert found.where == "hopper_hop with 100k frames"
    beside = returns.beside_published(found, RE3)
    assert beside is not None
    assert "at 100k frames here" in beside.text
    assert "103 ± 37" in beside.text


def test_what_sees_the_state_is_beside_nothing_and_is_never_set_against_pixels(tmp_path):
    made(tmp_path / "state", "re3", SOON, changes={"observations": "state"})
    evidence = Evidence(gather([tmp_path]))
    found = evidence.compared(HOPPER, RE3)
    assert found.setting == ("state observations",)
    assert returns.beside_published(found, RE3) is None
    made(tmp_path / "gobi", "gobi", SOON)
    with pytest.raises(NotRun, match="differ in more than the study"):
        Evidence(gather([tmp_path])).compared(HOPPER, GOBI, RE3)


def test_from_the_state_arms_are_compared_and_decide_nothing_that_the_paper_says_of_pixels(tmp_path):
    for task in (HOPPER, WALKER):
        two(tmp_path / task, SOON, LATE, task=task, plateau=400.0, changes={"observations": "state"})
    found = Evidence(gather([tmp_path])).compared(HOPPER, GOBI, RE3)
    assert found.setting == ("state observations",)
    told = judged("control-episodic", tmp_path)
    assert told.outcome == "not run"
    why = "hopper_hop was run from the state only, and the paper learns from pixels"
    assert why in told.because
    assert why in judged("control", tmp_path).because


def test_runs_from_pixels_come_before_more_of_them_from_the_state(tmp_path):
    two(tmp_path / "state", SOON, LATE, plateau=400.0, changes={"observations": "state"})
    two(tmp_path / "pixels", SOON[:2], LATE[:2], changes={"frames": 100_000})
    evidence = Evidence(gather([tmp_path]))
    assert evidence.compared(HOPPER, GOBI, RE3).setting == ("100k frames",)
    found, _ = evidence.whole("dmc", HOPPER)
    assert found is not None
    assert found.setting == ("100k frames",)


def test_how_often_a_run_was_evaluated_makes_it_no_other(tmp_path):
    changes = {"evaluate_every": 5000, "evaluation_episodes": 3}
    evidence = two(tmp_path, SOON, LATE, changes=changes)
    assert evidence.compared(HOPPER, GOBI, RE3).setting == ()


def judged(name, place):
    return BY_NAME[name].verdict(Evidence(gather([place])))


def test_the_claim_on_the_episodic_term_needs_both_tasks(tmp_path):
    assert judged("control-episodic", tmp_path).outcome == "not run"
    two(tmp_path / "hopper", SOON, LATE, plateau=225.0)
    part = judged("control-episodic", tmp_path)
    assert part.outcome == "undecided"
    assert part.because.endswith("no runs of gobi and re3 on walker_run_sparse")
    two(tmp_path / "walker", SOON, LATE, task=WALKER, plateau=420.0)
    whole = judged("control-episodic", tmp_path)
    assert whole.outcome == "held"
    assert "re3 has 225 at 500k frames here (5 seeds), inside the spread" in whole.because


def test_to_be_ahead_of_an_re3_that_is_worse_than_its_authors_decides_nothing(tmp_path):
    two(tmp_path / "hopper", SOON, LATE, plateau=100.0)
    two(tmp_path / "walker", SOON, LATE, task=WALKER, plateau=420.0)
    verdict = judged("control-episodic", tmp_path)
    assert verdict.outcome == "undecided"
    assert "re3 has 100 at 500k frames here (5 seeds), below the spread" in verdict.because


def test_to_be_behind_it_still_does(tmp_path):
    two(tmp_path / "hopper", LATE, SOON, plateau=100.0)
    assert judged("control-episodic", tmp_path).outcome == "not held"


def test_the_claim_on_four_tasks_is_told_briefly(tmp_path):
    two(tmp_path, SOON, LATE)
    verdict = judged("control", tmp_path)
    assert verdict.outcome == "undecided"
    assert verdict.because == "re3: ahead on hopper_hop, 3 tasks not run; icm: not run; rnd: not run"
    two(tmp_path, SOON, LATE, plateau=100.0)
    assert judged("control", tmp_path).because.startswith("re3: open on hopper_hop, 3 tasks not run")
    for task in (WALKER, "dmc/pendulum_swingup"):
        two(tmp_path / task, SOON, LATE, task=task)
    assert ", 1 task not run; icm" in judged("control", tmp_path).because


def test_searches_on_two_tasks_may_refute_a_claim_on_four_and_cannot_settle_it(tmp_path):
    for task, best in ((PENDULUM, 3), (HOPPER, 1)):
        for k in (1, 2, 3, 5):
            times = SOON if k == best else LATE
            made(tmp_path / task / f"{k}", f"n5-k{k}", times, study="dmc-search", task=task)
    verdict = judged("control-steps", tmp_path)
    assert verdict.outcome == "undecided"
    assert verdict.because.endswith("nothing was searched on the paper's two other tasks")
    made(tmp_path / PENDULUM / "1", "n5-k1", (1e3,) * 5, study="dmc-search", task=PENDULUM)
    assert judged("control-steps", tmp_path).outcome == "not held"


def test_a_control_study_ends_in_returns_at_several_frames_with_re3s_own_beside(tmp_path):
    two(tmp_path, SOON, LATE, plateau=225.0)
    found, compared = ending.conclude("dmc", Evidence(gather([tmp_path])))
    files, _ = ending.write("dmc", found, compared, tmp_path / "out")
    assert {path.name for path in files} == {"table.csv", "figure.png", "summary.md"}
    with (tmp_path / "out" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["arm"] for row in rows] == ["gobi", "re3", "re3, its authors' own"]
    assert [row["at 100k"].split(" ")[0] for row in rows] == ["225", "67", "103"]
    assert rows[2]["area"] == "150 ± 11"
    assert "threshold" not in rows[0]
    assert any(note.startswith("hopper_hop: re3 has 225 at 500k frames here") for note in found.notes)
    assert (tmp_path / "out" / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_published_numbers_are_whole():
    assert len(published.RE3) == 5
    for known in published.RE3.values():
        assert tuple(known.at) == published.FRAMES
        # What is learned stays: a mean over the run that is above its end would be a slip of the pen.
        assert known.overall[0] < known.at[500_000][0]


def test_the_page_of_claims_has_the_commands(tmp_path):
    page = claims_page.markdown(Evidence([]), "gobi claims")
    assert "`gobi reproduce dmc --tasks hopper_hop walker_run_sparse --arms gobi re3`" in page
