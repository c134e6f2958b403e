"""Runs are told by their recipes, and set against each other only where nothing else differs."""

from __future__ import annotations

import pytest
from compared_runs import N7, S3
from study_runs import make_arm

from gobi.reproduce.evidence import Evidence, NotRun, gather
from gobi.reproduce.occasion import doubts


def evidence(tmp_path):
    return Evidence(gather([tmp_path]))


def test_a_run_counts_wherever_it_lies_and_for_every_arm_that_asks_for_it(tmp_path):
    make_arm(tmp_path / "anything" / "x", "minigrid", "gobi", task=N7)
    found = evidence(tmp_path)
    counted = {(study, arm) for study, _, arm in found.known}
    assert counted >= {
        ("minigrid", "gobi"),
        ("ablation", "gobi"),
        ("dynamics", "learned"),
        ("accuracy", "1e5"),
    }
    assert counted >= {("steps", "learned-k1"), ("pretraining", "fixed")}
    assert not counted & {
        ("dynamics", "real"),
        ("steps", "learned-k2"),
        ("minigrid", "noveld"),
        ("steps", "k0"),
    }
    assert {task for _, task, _ in found.known} == {N7}
    assert found.compared(N7, "minigrid/gobi").setting == ()


def test_room_and_snapshots_make_no_other_run(tmp_path):
    make_arm(
        tmp_path / "a", "minigrid", "gobi", task=N7, changes={"bank": 64, "snapshots": 0, "count_room": 9}
    )
    assert evidence(tmp_path).compared(N7, "minigrid/gobi").setting == ()


def test_arms_of_other_lengths_are_not_set_against_each_other(tmp_path):
    make_arm(tmp_path / "a", "minigrid", "gobi", task=N7)
    make_arm(tmp_path / "b", "minigrid", "noveld", task=N7, changes={"frames": 4_000_000})
    with pytest.raises(NotRun, match="differ in more than the study"):
        evidence(tmp_path).compared(N7, "minigrid/gobi", "minigrid/noveld")


def test_arms_that_differ_from_the_study_alike_are_compared_and_it_is_said(tmp_path):
    for name in ("gobi", "noveld"):
        make_arm(tmp_path / name, "minigrid", name, task=N7, changes={"frames": 4_000_000}, compact=True)
    found = evidence(tmp_path).compared(N7, "minigrid/gobi", "minigrid/noveld")
    assert found.where == "MultiRoom-N7-S8 with compact networks, 4.00M frames"
    assert not found.to_its_end("minigrid/gobi")


def test_what_the_study_asks_for_comes_before_more_seeds(tmp_path):
    make_arm(tmp_path / "a", "minigrid", "gobi", task=N7, seeds=(0, 1))
    make_arm(tmp_path / "b", "minigrid", "gobi", task=N7, changes={"precision": "bfloat16"})
    found = evidence(tmp_path).compared(N7, "minigrid/gobi")
    assert (found.setting, len(found["minigrid/gobi"].final)) == ((), 2)


def test_another_recipe_is_another_setting(tmp_path):
    make_arm(tmp_path / "a", "minigrid", "gobi", task=S3, recipe="as_coded")
    assert evidence(tmp_path).compared(S3, "minigrid/gobi").setting == ("recipe as_coded",)


def test_what_the_study_is_about_is_never_a_mere_setting(tmp_path):
    make_arm(tmp_path / "a", "steps", "untrained", changes={"steps": 2})
    assert not [arm for study, _, arm in evidence(tmp_path).known if study == "steps"]


def test_the_same_seeds_made_twice_count_once_and_the_finished_run_is_taken(tmp_path):
    make_arm(tmp_path / "a", "minigrid", "gobi", task=N7, plateau=0.3, card={"finished": None})
    make_arm(tmp_path / "b", "minigrid", "gobi", task=N7, plateau=0.65)
    make_arm(tmp_path / "c", "minigrid", "gobi", task=N7, plateau=0.65, seeds=(4, 5))
    found = evidence(tmp_path).compared(N7, "minigrid/gobi")["minigrid/gobi"]
    assert found.final.tolist() == pytest.approx([0.65] * 6)


def test_a_run_of_one_seed_does_not_throw_out_a_run_of_more(tmp_path):
    make_arm(tmp_path / "a", "heatmaps", "gobi", task=N7, seeds=(0,), plateau=0.3)
    make_arm(tmp_path / "b", "minigrid", "gobi", task=N7, plateau=0.65)
    found = evidence(tmp_path).compared(N7, "minigrid/gobi")["minigrid/gobi"]
    assert found.final.tolist() == pytest.approx([0.65] * 4)


def test_other_snapshots_make_no_other_method_and_yet_do_not_finish_a_study_of_maps(tmp_path):
    make_arm(tmp_path / "a", "minigrid", "gobi", task=N7)
    assert len(evidence(tmp_path).of(N7, "heatmaps/gobi")) == 1
    assert evidence(tmp_path).finished("heatmaps") == []
    make_arm(tmp_path / "b", "heatmaps", "gobi", task=N7, seeds=(0,))
    assert evidence(tmp_path).finished("heatmaps") == [1]


def test_only_runs_as_the_study_asks_for_them_make_it_done(tmp_path):
    make_arm(tmp_path / "a", "decay", "rho-5e-7", changes={"frames": 10_000})
    make_arm(tmp_path / "b", "decay", "rho-8e-7", changes={"precision": "bfloat16"}, compact=True)
    make_arm(tmp_path / "c", "decay", "rho-1e-6", card={"finished": None})
    assert evidence(tmp_path).finished("decay") == []
    make_arm(tmp_path / "d", "decay", "rho-5e-7")
    make_arm(tmp_path / "e", "decay", "rho-8e-7", compact=True)
    assert evidence(tmp_path).finished("decay") == [4, 4]


def test_seeds_of_several_runs_make_an_arm_done_together_and_none_counts_twice(tmp_path):
    for number, seeds in enumerate(((0,), (0,), (1, 2))):
        make_arm(tmp_path / str(number), "decay", "rho-5e-7", seeds=seeds)
    make_arm(tmp_path / "small", "decay", "rho-5e-7", seeds=(3,), compact=True)
    assert evidence(tmp_path).finished("decay") == [3]


@pytest.mark.parametrize(
    ("commits", "told"),
    [
        (("681275fabc", "681275fabc"), []),
        (("681275fabc", "6a25fcdabc"), ["from different versions of the code"]),
        (("681275fabc", "681275fabc+changes"), ["from different versions of the code"]),
        (("681275fabc", None), ["version not recorded"]),
        ((None, None), ["version not recorded"]),
    ],
)
def test_it_is_said_where_arms_come_from_different_versions_of_the_code(tmp_path, commits, told):
    for name, commit in zip(("gobi", "noveld"), commits, strict=True):
        make_arm(tmp_path / name, "minigrid", name, task=N7, card={"commit": commit})
    found = evidence(tmp_path).compared(N7, "minigrid/gobi", "minigrid/noveld")
    runs = [run for scored in found.arms.values() for run in scored.group.runs]
    assert doubts(runs) == told


def test_runs_without_a_recipe_or_card_or_rows_are_no_evidence(tmp_path):
    (make_arm(tmp_path / "a", "minigrid", "gobi", task=N7) / "recipe.json").unlink()
    (make_arm(tmp_path / "b", "minigrid", "gobi", task=N7) / "card.json").unlink()
    empty = make_arm(tmp_path / "c", "minigrid", "gobi", task=N7) / "metrics.csv"
    empty.write_text(empty.read_text().splitlines()[0] + "\n")
    assert evidence(tmp_path).known == {}
    assert Evidence(gather([])).known == {}


def test_a_run_that_cannot_be_read_is_named_and_left_out(tmp_path):
    make_arm(tmp_path / "good", "minigrid", "gobi", task=N7)
    (make_arm(tmp_path / "empty-card", "minigrid", "ride", task=N7) / "card.json").write_text("")
    (make_arm(tmp_path / "other-recipe", "minigrid", "rnd", task=N7) / "recipe.json").write_text("{}")
    (make_arm(tmp_path / "broken", "minigrid", "ec", task=N7) / "metrics.csv").write_text(
        "seed,frames\n0,x\n"
    )
    told = []
    runs = gather([tmp_path], told.append)
    assert [run.folder.name for run in runs] == ["good"]
    assert Evidence(runs).compared(N7, "minigrid/gobi").setting == ()
    assert len(told) == 3
    assert "empty-card has no card.json that tells its task" in " ".join(told)
    assert "other-recipe/recipe.json is not the recipe of its card" in " ".join(told)
    assert "broken/metrics.csv is damaged" in " ".join(told)


def test_what_is_missing_is_named(tmp_path):
    make_arm(tmp_path / "a", "ablation", "r1", task=N7)
    with pytest.raises(NotRun, match="no runs of r2 and r3 on MultiRoom-N7-S8"):
        evidence(tmp_path).compared(N7, "ablation/r1", "ablation/r2", "ablation/r3")
