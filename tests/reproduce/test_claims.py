"""The paper's claims: what tests them exists, and with all runs there none is left unjudged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compared_runs import N7
from study_runs import FAST, SLOW, make_arm

from gobi import cli
from gobi.cli.arguments import bind
from gobi.reproduce import STUDIES, claims, claims_page
from gobi.reproduce.claims import CLAIMS, CONTROL
from gobi.reproduce.evidence import Evidence, gather

ROOT = Path(__file__).parent.parent.parent
TESTED = sorted({claim.study for claim in CLAIMS} - {"", "illustration"})
BY_NAME = {claim.name: claim for claim in CLAIMS}
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
    assert [claim for claim in CLAIMS if not claim.command] == list(CONTROL)


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
    assert left == {claim.name for claim in CONTROL} | NEED_MORE_THAN_CURVES
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


def test_the_illustration_holds_by_planning_and_needs_no_run():
    assert BY_NAME["illustration"].verdict(Evidence([])).outcome == "held"


def test_the_test_behind_the_blind_alley_is_there():
    source = (ROOT / claims.BLIND_ALLEY).read_text()
    assert re.search(r"def test_\w*blind_alley\w*under_ec_and_nothing_under_gobi", source)


def test_the_page_in_the_documentation_is_what_the_command_makes():
    page = claims_page.markdown(
        Evidence(gather([ROOT / "results"])), "gobi claims results --markdown docs/claims.md"
    )
    assert (ROOT / "docs" / "claims.md").read_text() == page, "make it anew: see its second line"
