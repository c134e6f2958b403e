"""What runs left beside their curves: clocks, reports of models, maps."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from compared_runs import N7
from study_runs import make_arm

from gobi import make
from gobi.reproduce import measured
from gobi.reproduce.claims import CLAIMS
from gobi.reproduce.evidence import Evidence, gather
from gobi.reproduce.studies import TWELVE
from gobi.training import recipes, world_model
from gobi.worlds.collecting import Transitions

A, B = "wallclock/gobi", "wallclock/noveld"
BY_NAME = {claim.name: claim for claim in CLAIMS}


def retime(folder, compiling, per_million, again=()):
    """Sets the seconds of a run of one seed: compiling comes before the first row, and before some others."""
    file = folder / "metrics.csv"
    head, *lines = file.read_text().splitlines()
    names = head.split(",")
    frames, seconds, speed = (names.index(name) for name in ("frames", "seconds", "steps_per_second"))
    fields = [line.split(",") for line in lines]
    each, total = float(fields[0][frames]), 0.0
    for number, one in enumerate(fields):
        took = per_million * each / 1e6 + compiling * (number == 0 or number in again)
        total += took
        one[seconds], one[speed] = str(total), str(each / took)
    file.write_text("\n".join([head, *(",".join(one) for one in fields)]) + "\n")


@pytest.fixture
def timed(tmp_path):
    def made(slow, **card):
        for name, pace in (("gobi", slow), ("noveld", 10.0)):
            (tmp_path / name / "metrics.csv").unlink(missing_ok=True)
            about = {"pretraining_seconds": 15.0 if name == "gobi" else 0.0}
            folder = make_arm(
                tmp_path / name, "wallclock", name, seeds=(0,), card=about | (card if name == "gobi" else {})
            )
            retime(folder, 50.0, pace)
        return Evidence(gather([tmp_path])).compared(N7, A, B)

    return made


def test_compiling_is_no_part_of_the_pace_also_when_a_run_goes_on_or_its_memory_grows(tmp_path):
    folder = make_arm(tmp_path / "gobi", "wallclock", "gobi", seeds=(0,))
    retime(folder, 50.0, 20.0, again=(5, 13, 21))
    (run,) = gather([tmp_path])
    assert measured.clock(run).per_million == pytest.approx(20.0)
    assert measured.clock(run).training == pytest.approx(400.0)


def test_the_pace_is_that_of_each_seed_and_a_runs_seeds_share_its_time(tmp_path):
    make_arm(tmp_path / "gobi", "wallclock", "gobi", seeds=(0, 1, 2, 3))
    (run,) = gather([tmp_path])
    assert measured.clock(run).per_million == pytest.approx(10.0)


def test_compiling_is_no_part_of_the_pace(timed):
    ours, theirs = measured.clocks(timed(20.0), [A, B])
    assert (ours.per_million, theirs.per_million) == pytest.approx((20.0, 10.0))
    assert (ours.training, ours.pretraining) == pytest.approx((250.0, 15.0))


@pytest.mark.parametrize(("pace", "outcome"), [(20.0, "held"), (12.0, "not held"), (40.0, "not held")])
def test_about_twice_as_long(timed, pace, outcome):
    verdict = measured.takes_times_as_long(timed(pace), A, B, 1.95)
    assert verdict.outcome == outcome
    assert f"gobi takes {pace / 10:.2f} times as long as noveld, the paper: 1.95" in verdict.because


def test_what_comes_before_training_is_told_beside(timed):
    verdict = measured.takes_times_as_long(timed(20.0), A, B, 1.95)
    assert "with compiling 1.67, and with pre-training 1.77" in verdict.because


HOUR = {"started": "2030-01-01T00:00:00+00:00", "finished": "2030-01-01T01:00:00+00:00"}


def test_runs_at_the_same_time_settle_nothing_about_time(timed, tmp_path):
    make_arm(tmp_path / "other", "minigrid", "rnd", task=N7, card=HOUR)
    assert measured.takes_times_as_long(timed(20.0), A, B, 1.95).outcome == "held"
    overlapping = {"started": "2030-01-01T00:59:00+00:00", "finished": "2030-01-01T02:00:00+00:00"}
    verdict = measured.takes_times_as_long(timed(20.0, **overlapping), A, B, 1.95)
    assert verdict.outcome == "undecided"
    assert "other runs may have shared the machine" in verdict.because


@pytest.mark.parametrize("card", [{"device": "another"}, {"beside": 3}])
def test_clocks_of_unequal_machines_settle_nothing(timed, card):
    assert measured.takes_times_as_long(timed(20.0, **card), A, B, 1.95).outcome == "undecided"
    assert measured.takes_longer(timed(20.0, **card), A, B).outcome == "undecided"


def test_longer_is_more_than_the_noise_of_a_machine(timed):
    assert measured.takes_longer(timed(12.0), A, B).outcome == "held"


def test_a_little_longer_is_not_longer(timed):
    assert measured.takes_longer(timed(10.2), A, B).outcome == "not held"


@pytest.fixture
def gobi(tmp_path):
    return make_arm(tmp_path / "gobi", "minigrid", "gobi", task=N7, card={"pretraining_pairs": 48_000})


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_toggles_are_told_and_settle_nothing_about_doors_that_open_for_the_first_time(gobi, tmp_path, share):
    toggle = {"action": "toggle", "changing": 40, "changing_exact": share}
    (gobi / "world_report.json").write_text(json.dumps({"actions": [toggle], "total": {"exact": 0.97}}))
    found = Evidence(gather([tmp_path]))
    verdict = BY_NAME["doors"].verdict(found)
    assert verdict.outcome == "undecided"
    assert verdict.because.startswith("not tested: what was measured are all toggles that change the view")
    assert f"MultiRoom-N7-S8 {share:.0%} of 40; 11 of 12 tasks are missing" in verdict.because
    assert measured.exact_before(found.runs[0]) == 0.97


def test_a_report_without_toggles_says_nothing(gobi, tmp_path):
    toggle = {"action": "toggle", "changing": 0, "changing_exact": math.nan}
    (gobi / "world_report.json").write_text(json.dumps({"actions": [toggle], "total": {"exact": 0.97}}))
    assert BY_NAME["doors"].verdict(Evidence(gather([tmp_path]))).outcome == "not run"


def test_pairs_are_judged_by_the_cards_of_all_tasks(gobi, tmp_path):
    part = BY_NAME["pairs"].verdict(Evidence(gather([tmp_path])))
    assert part.outcome == "undecided"
    assert "MultiRoom-N7-S8 48,000; the paper: 50,000; 11 of 12 tasks are missing" in part.because
    for task in TWELVE:
        # A card that does not tell is as good as missing.
        pairs = None if task == TWELVE[-1] else 48_000
        make_arm(tmp_path / task, "minigrid", "gobi", task=task, card={"pretraining_pairs": pairs})
    most = BY_NAME["pairs"].verdict(Evidence(gather([tmp_path])))
    assert most.outcome == "undecided"
    assert most.because.endswith("; 1 of 12 tasks are missing")
    card = tmp_path / TWELVE[-1] / "card.json"
    card.write_text(json.dumps({**json.loads(card.read_text()), "pretraining_pairs": 48_000}))
    assert BY_NAME["pairs"].verdict(Evidence(gather([tmp_path]))).outcome == "held"


@pytest.mark.parametrize(
    ("ours", "outcome"), [((0.02, 0.01), "held"), ((0.02, 0.3), "not held"), ((0.09, 0.01), "undecided")]
)
def test_empty_rooms_are_judged_at_the_papers_stages(tmp_path, ours, outcome):
    shares = {"gobi": {3.5e6: ours[0], 7e6: ours[1], 11e6: 0.9}, "noveld": {3.5e6: 0.9, 7e6: 0.9, 11e6: 0.1}}
    for name, at in shares.items():
        task = "MiniGrid-KeyCorridorS5R3-v0"
        folder = make_arm(tmp_path / name, "heatmaps", name, task=task, seeds=(0,))
        # The second level has no empty room, and says nothing.
        rows = [
            f"{frames:.0f},{level},{share},{0.3 - 0.3 * level}"
            for frames, share in at.items()
            for level in (0, 1)
        ]
        text = "\n".join(["frames,level,visits_in_empty_rooms,cells_in_empty_rooms", *rows])
        (folder / "heatmap.csv").write_text(text + "\n")
    verdict = BY_NAME["empty-rooms"].verdict(Evidence(gather([tmp_path])))
    assert verdict.outcome == outcome
    assert "noveld 10% at 11M" in verdict.because


def test_maps_in_another_setting_are_found_behind_runs_that_have_none(tmp_path):
    task = "MiniGrid-KeyCorridorS5R3-v0"
    for name, at in (("gobi", (3.5e6, 7e6)), ("noveld", (11e6,))):
        make_arm(tmp_path / "whole" / name, "minigrid", name, task=task)
        folder = make_arm(tmp_path / "small" / name, "heatmaps", name, task=task, seeds=(0,), compact=True)
        rows = [f"{frames:.0f},0,0.1,0.3" for frames in at]
        text = "\n".join(["frames,level,visits_in_empty_rooms,cells_in_empty_rooms", *rows])
        (folder / "heatmap.csv").write_text(text + "\n")
    verdict = BY_NAME["empty-rooms"].verdict(Evidence(gather([tmp_path])))
    assert "noveld 10% at 11M (one seed each; KeyCorridorS5R3 with compact networks)" in verdict.because


@pytest.mark.parametrize(("frames", "told"), [(7.5e6, "at 7.5M"), (6.4e6, "at 6.4M"), (8e6, ""), (6e6, "")])
def test_a_stage_counts_only_near_the_papers_and_under_its_own_frames(tmp_path, frames, told):
    for name, stages in (("gobi", (3.5e6, frames)), ("noveld", (11e6,))):
        folder = make_arm(tmp_path / name, "heatmaps", name, task="MiniGrid-KeyCorridorS5R3-v0", seeds=(0,))
        rows = [f"{at:.0f},0,0.1,0.3" for at in stages]
        text = "\n".join(["frames,level,visits_in_empty_rooms,cells_in_empty_rooms", *rows])
        (folder / "heatmap.csv").write_text(text + "\n")
    verdict = BY_NAME["empty-rooms"].verdict(Evidence(gather([tmp_path])))
    if told:
        assert f"gobi 10% at 3.5M, 10% {told}; noveld 10% at 11M" in verdict.because
    else:
        assert verdict.outcome == "not run"
        assert "no heatmap of gobi on KeyCorridorS5R3 with empty_rooms at about 3.5M, 7M" in verdict.because


def test_pretraining_tells_its_time_and_its_different_pairs_also_when_loaded(tmp_path, monkeypatch):
    panorama = np.zeros((6, 4, 7, 7, 3), np.uint8)
    panorama[:3] = 1
    played = Transitions(panorama, np.array([0, 0, 1, 2, 2, 3]), panorama, frames=7)
    # Playing and learning take their time to compile, and are tested elsewhere.
    monkeypatch.setattr(world_model, "collect", lambda *_, **__: played)
    monkeypatch.setattr(world_model, "train", lambda network, *_, **__: network)
    monkeypatch.setattr(world_model, "report", lambda *_, **__: None)
    task = "MiniGrid-DoorKey-5x5-v0"
    recipe = recipes.compact(recipes.recipe(task))
    made, loaded = (
        world_model.load_or_train(tmp_path, recipe, make(task), lambda *_: None) for _ in range(2)
    )
    assert (made.frames, made.pairs) == (7, 4)
    assert made.seconds is not None
    assert made.seconds > 0
    assert (loaded.frames, loaded.pairs, loaded.seconds) == (7, 4, made.seconds)
