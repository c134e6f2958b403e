"""The paper's claims: what tests them exists, and with all runs there none is left unjudged."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from compared_runs import N7
from study_runs import FAST, SLOW, make_arm

from gobi import cli
from gobi.cli.arguments import bind
from gobi.reproduce import STUDIES, claims, claims_page
from gobi.reproduce.claims import CLAIMS
from gobi.reproduce.claims.performance import MAZES
from gobi.reproduce.ending import tally
from gobi.reproduce.evidence import Evidence, gather
from gobi.reproduce.studies import TWELVE

ROOT = Path(__file__).parent.parent.parent
TESTED = sorted({claim.study for claim in CLAIMS} - {"", "illustration"})
BY_NAME = {claim.name: claim for claim in CLAIMS}
NEVER = math.inf
WITHOUT_A_STUDY = ["control-hash", "control-data"]
NEED_MORE_THAN_CURVES = {"doors", "pairs", "empty-rooms", "ec-corners", "borders"}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A run of every arm that claims are about: GoBI as the paper has it, the others later."""
    place = tmp_path_factory.mktemp("runs")
    for study in TESTED:
        for arm in STUDIES[study].arms:
            soon = arm.name in ("gobi", "r1") or study not in ("minigrid", "ablation")
            times = FAST if soon else SLOW
            make_arm(place / study / arm.folder, study, arm.name, task=arm.task, solved_at=times, plateau=0.7)
    return place


def test_names_are_unique_and_nothing_is_empty():
    assert len(BY_NAME) == len(CLAIMS)
    assert all(claim.text.endswith(".") and claim.where for claim in CLAIMS)
    assert [claim.name for claim in CLAIMS if not claim.command] == WITHOUT_A_STUDY


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.runs], ids=lambda claim: claim.name)
def test_its_command_would_run_something(claim):
    for command in claim.command.split(" && "):
        program, name, figure, *flags = command.split()
        assert (program, name) == ("gobi", "reproduce")
        bound = bind(cli.COMMANDS["reproduce"], [figure, *flags], program="gobi reproduce")
        if figure != "illustration":
            options = bound.keywords  # pyright: ignore[reportAttributeAccessIssue]
            STUDIES[figure].only(options["tasks"], options["arms"])


def test_with_all_runs_there_every_claim_is_judged(everything):
    runs = gather([everything])
    judged = {claim.name: verdict.outcome for claim, verdict in claims_page.judge(Evidence(runs))}
    left = {name for name, outcome in judged.items() if outcome == "not run"}
    assert left == {*WITHOUT_A_STUDY} | NEED_MORE_THAN_CURVES
    assert len(runs) > 100


def test_verdicts_follow_the_runs(everything):
    found = Evidence(gather([everything]))
    outcomes = {name: BY_NAME[name].verdict(found).outcome for name in ("twelve", "r1-multiroom", "r2", "r3")}
    assert outcomes == {"twelve": "undecided", "r1-multiroom": "held", "r2": "held", "r3": "undecided"}
    # Runs are longer on other tasks, so that SLOW is not SLOW there; on this one it is.
    assert "sooner on MultiRoom-N6, MultiRoom-N7-S8" in BY_NAME["twelve"].verdict(found).because


def test_a_claim_of_twelve_tasks_says_what_is_missing(tmp_path):
    for name, times in (("gobi", FAST), ("noveld", SLOW)):
        make_arm(tmp_path / name, "minigrid", name, task=N7, solved_at=times, plateau=0.65)
    verdict = BY_NAME["twelve"].verdict(Evidence(gather([tmp_path])))
    assert verdict.outcome == "undecided"
    assert verdict.because == (
        "noveld: sooner on MultiRoom-N7-S8, 11 tasks not run; ride: not run; rnd: not run; ec: not run"
    )


def search(place, arms, **options):
    """A verdict on EC's grid, of which these arms were run, with two seeds each."""
    for name, times in arms.items():
        make_arm(place / name, "ec-grid", name, seeds=(0, 1), solved_at=times, plateau=0.65, **options)
    return BY_NAME["ec-grid"].verdict(Evidence(gather([place])))


def test_a_search_in_which_one_cell_works_has_found_one(tmp_path):
    cells = {arm.name: (NEVER, NEVER) for arm in STUDIES["ec-grid"].arms}
    verdict = search(tmp_path, cells | {"beta-0.5-threshold-0.75": (2e6, 3e6)})
    assert verdict.outcome == "not held"
    assert verdict.because == (
        "the best of the 16 cells of ec-grid that were run, of 16, is beta-0.5-threshold-0.75: "
        "2 of 2 seeds get there (MultiRoom-N7-S8)"
    )


def test_a_search_without_a_cell_that_works_must_be_whole(tmp_path):
    cells = {arm.name: (NEVER, NEVER) for arm in STUDIES["ec-grid"].arms}
    cells["beta-1-threshold-0.9"] = (2e6, NEVER)
    *most, last = cells
    part = search(tmp_path, {name: cells[name] for name in most})
    assert part.outcome == "undecided"
    assert "best of the 15 cells of ec-grid that were run, of 16" in part.because
    whole = search(tmp_path, {last: cells[last]})
    assert whole.outcome == "held"
    assert "is beta-1-threshold-0.9: 1 of 2 seeds get there" in whole.because


@pytest.mark.parametrize("name", ["ec-fails", "noveld-mazes"])
def test_failure_on_some_of_the_tasks_is_not_failure_on_all(tmp_path, name):
    tasks = TWELVE if name == "ec-fails" else MAZES
    for number, task in enumerate(tasks):
        assert BY_NAME[name].verdict(Evidence(gather([tmp_path]))).outcome in ("not run", "undecided"), number
        arm = "ec" if name == "ec-fails" else "noveld"
        options = {"solved_at": (NEVER,) * 4, "plateau": 0.65}
        make_arm(tmp_path / str(number), "minigrid", arm, task=task, **options)
    assert BY_NAME[name].verdict(Evidence(gather([tmp_path]))).outcome == "held"


@pytest.mark.parametrize(
    ("times", "outcome"),
    [
        ({}, "held"),
        ({("N7", "learned"): (7e6, 7.2e6, 7.4e6, 7.6e6)}, "not held"),
        # How many times the frames they would have taken in the end is not known.
        ({("N7", "learned"): (NEVER,) * 4, ("N7", "real"): (7e6, 7.2e6, 7.4e6, 7.6e6)}, "undecided"),
        ({("S4", "learned"): (NEVER,) * 4, ("S4", "real"): (NEVER,) * 4, ("N7", "real"): SLOW}, "undecided"),
    ],
)
def test_a_simulator_helps_more_only_where_seeds_get_there(tmp_path, times, outcome):
    soon, late = (1e6, 1.1e6, 1.2e6, 1.3e6), (3e6, 3.1e6, 3.2e6, 3.3e6)
    times = {("S4", "learned"): late, **times}
    for kind, task in (("N7", N7), ("S4", "MiniGrid-KeyCorridorS4R3-v0")):
        for name in ("learned", "real"):
            reached = times.get((kind, name), soon)
            make_arm(tmp_path / kind / name, "dynamics", name, task=task, solved_at=reached, plateau=0.65)
    verdict = BY_NAME["real-keycorridor"].verdict(Evidence(gather([tmp_path])))
    assert verdict.outcome == outcome


def test_two_seeds_each_do_not_settle_where_a_simulator_helps_more(tmp_path):
    for kind, task in (("N7", N7), ("S4", "MiniGrid-KeyCorridorS4R3-v0")):
        for name in ("learned", "real"):
            times = (3e6, 3.1e6) if (kind, name) == ("S4", "learned") else (1e6, 1.1e6)
            options = {"task": task, "solved_at": times, "seeds": (0, 1), "plateau": 0.65}
            make_arm(tmp_path / kind / name, "dynamics", name, **options)
    verdict = BY_NAME["real-keycorridor"].verdict(Evidence(gather([tmp_path])))
    assert verdict.outcome == "undecided"
    assert verdict.because.startswith("too few seeds to tell: ")


def test_what_a_test_shows_is_counted_apart():
    judged = [(claim, claim.verdict(Evidence([]))) for claim in CLAIMS]
    assert tally(judged) == f"1 held, {len(CLAIMS) - 2} not run, 1 shown by a test"
    assert BY_NAME["blind-alley"].command == f"pytest {claims.BLIND_ALLEY} -k blind_alley"


def test_the_page_tells_the_commits_of_the_runs(tmp_path):
    for name, times, commit in (("gobi", FAST, "0123456789+changes"), ("noveld", SLOW, "abcdef0123")):
        card = {"commit": commit}
        make_arm(tmp_path / name, "minigrid", name, task=N7, solved_at=times, plateau=0.65, card=card)
    page = claims_page.markdown(Evidence(gather([tmp_path])), "gobi claims")
    assert "| gobi | 4 | 8.00M | 0123456+ | minigrid gobi" in page
    assert "| noveld | 4 | 8.00M | abcdef0 | minigrid noveld" in page
    told = "sooner on MultiRoom-N7-S8, 11 tasks not run; ride: not run; rnd: not run; ec: not run"
    assert f"{told}; from different versions of the code (MultiRoom-N7-S8) |" in page


@pytest.mark.parametrize(
    ("commits", "told"),
    [
        (("681275fabc", "681275fabc"), ""),
        (("681275fabc", "6a25fcdabc"), "from different versions of the code"),
        (("681275fabc", "681275fabc+changes"), "from different versions of the code"),
        (("681275fabc", None), "version not recorded"),
        ((None, None), "version not recorded"),
    ],
)
def test_a_verdict_tells_doubts_about_the_code_once_however_many_tasks_it_is_about(tmp_path, commits, told):
    for task in (N7, "MiniGrid-KeyCorridorS4R3-v0"):
        for name, times, commit in zip(("gobi", "noveld"), (FAST, SLOW), commits, strict=True):
            options = {"task": task, "solved_at": times, "card": {"commit": commit}}
            make_arm(tmp_path / task / name, "minigrid", name, plateau=0.65, **options)
    found = Evidence(gather([tmp_path]))
    for name in ("learned-enough", "twelve"):
        because = BY_NAME[name].verdict(found).because
        where = f"; {told} (MultiRoom-N7-S8, KeyCorridorS4R3)"
        assert because.endswith(where) if told else "version" not in because
        assert because.count("version") == bool(told)


def test_a_run_without_a_commit_is_told_so_in_the_table(tmp_path):
    make_arm(tmp_path / "gobi", "minigrid", "gobi", task=N7, card={"commit": None})
    page = claims_page.markdown(Evidence(gather([tmp_path])), "gobi claims")
    assert "| gobi | 4 | 8.00M | not recorded | minigrid gobi" in page


def test_the_illustration_holds_by_planning_and_needs_no_run():
    assert BY_NAME["illustration"].verdict(Evidence([])).outcome == "held"


def test_the_test_behind_the_blind_alley_is_there():
    source = (ROOT / claims.BLIND_ALLEY).read_text()
    assert re.search(r"def test_\w*blind_alley\w*under_ec_and_nothing_under_gobi", source)


def test_the_blind_alley_is_told_with_how_far_ahead_it_was_looked():
    because = BY_NAME["blind-alley"].verdict(Evidence([])).because
    assert "five steps ahead there (k = 5)" in because
    assert "with k = 1 its memory grows by 3, 3 and 2" in because


def test_the_page_in_the_documentation_is_what_the_command_makes():
    page = claims_page.markdown(
        Evidence(gather([ROOT / "results"])), "gobi claims results --markdown docs/claims.md"
    )
    assert (ROOT / "docs" / "claims.md").read_text() == page, "make it anew: see its second line"
