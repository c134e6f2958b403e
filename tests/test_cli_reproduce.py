"""`gobi reproduce` and `gobi rewards` as a user meets them."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest
from compared_runs import N7
from study_runs import make_arm

from gobi.reproduce import STUDIES
from gobi.reproduce.study import Study, crossed
from gobi.rewards import registry

TINY = {"num_envs": 4, "unroll": 5, "bank": 512, "snapshots": 1, "frames": 40}


@pytest.fixture
def tiny_study(monkeypatch):
    arms = {name: {"reward": name, **TINY} for name in ("none", "count")}
    tasks, maps = ("MiniGrid-DoorKey-5x5-v0",), {"DoorKey-5x5/count": (40,)}
    study = Study("nothing and counting", "nowhere", crossed(tasks, arms), seeds=1, maps=maps)
    monkeypatch.setitem(STUDIES, "tiny", study)
    monkeypatch.setitem(STUDIES, "again", dataclasses.replace(study, maps={}))


def test_figures_are_listed(gobi_command):
    code, out, _ = gobi_command("reproduce")
    assert code == 0
    assert all(name in out for name in STUDIES)
    assert "illustration" in out


def test_a_plan_says_what_would_be_trained_and_trains_nothing(gobi_command):
    code, out, _ = gobi_command("reproduce", "ablation", "--plan", "--tasks", "MultiRoom-N7-S8")
    assert code == 0
    assert "MultiRoom-N7-S8/r2" in out
    assert "128.0M frames in all" in out
    assert not Path("reproduced").exists()


def test_a_setting_is_applied_to_every_run_and_the_plan_says_so(gobi_command):
    words = ["reproduce", "dmc", "--tasks", "hopper_hop", "--plan", "--set", "precision=bfloat16"]
    code, out, err = gobi_command(*words, "--set", "batch=64")
    assert code == 0, err
    rows = [line for line in out.splitlines() if line.startswith("hopper_hop/")]
    assert len(rows) == 5
    assert all("precision=bfloat16, batch=64" in row for row in rows)
    assert "every run has precision=bfloat16, batch=64: such runs are compared with each other only" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["decay", "--set", "decay=1e-6"], "the runs of this study differ in decay"),
        (["decay", "--set", "reward=rnd"], "--set cannot change the reward of a study"),
        (["decay", "--set", "precison=bfloat16"], "did you mean precision"),
        (["decay", "--set", "observations=state"], "observations is a setting of control tasks"),
        (["dmc", "--set", "world=real"], "world is a setting of grids"),
        (["decay", "--set", "precision"], "--set takes FIELD=VALUE"),
        (["decay", "--set", "task=Empty-5x5"], "--set cannot change the task"),
        (["decay", "--from", ".", "--set", "precision=bfloat16"], "--from takes the runs that it finds"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(gobi_command, words, told):
    code, _, err = gobi_command("reproduce", *words)
    assert code == 1
    assert told in err
    assert err.count("\n") == 1
    assert not Path("reproduced").exists()


def test_runs_with_a_setting_are_told_from_runs_without(gobi_command, monkeypatch):
    """What was trained just now is what the study ends in, also beside other studies' runs of these arms."""
    for name in ("learned", "real"):
        make_arm(Path("reproduced/other") / name, "dynamics", name, task=N7, compact=True)

    def train(groups, _):
        for folder, plan in (one for group in groups for one in group):
            assert plan.recipe.precision == "bfloat16"
            arm = {"task": N7, "changes": {"precision": "bfloat16"}, "compact": True, "plateau": 0.3}
            make_arm(folder.path, "dynamics", folder.path.name, **arm)
        return []

    monkeypatch.setattr("gobi.cli.packs.train", train)
    words = ["reproduce", "dynamics", "--tasks", "MultiRoom-N7-S8", "--set", "precision=bfloat16"]
    code, out, err = gobi_command(*words)
    assert code == 0, err
    with Path("reproduced/dynamics/table.csv").open() as file:
        rows = list(csv.DictReader(file))
    told = "MultiRoom-N7-S8 with compact networks, precision=bfloat16"
    assert [(row["task"], row["return at the end"][:5]) for row in rows] == [(told, "0.300")] * 2
    assert "not in the table, as they differ in more than the study: other/learned" in out


def test_seeds_that_were_run_twice_are_told_from_runs_that_differ(gobi_command):
    for place in ("once", "again"):
        for name in ("learned", "real"):
            make_arm(Path(place) / name, "dynamics", name, task=N7)
    make_arm(Path("again/other"), "dynamics", "real", task=N7, changes={"precision": "bfloat16"})
    code, out, err = gobi_command("reproduce", "dynamics", "--from", "once", "again")
    assert code == 0, err
    assert "not in the table, as their seeds are there from other runs: again/learned, again/real\n" in out
    assert "as they differ in more than the study: again/other (precision=bfloat16)\n" in out


def test_a_study_is_trained_and_compared_and_not_trained_twice(gobi_command, tiny_study):
    code, out, err = gobi_command("reproduce", "tiny")
    assert code == 0, err
    assert Path("reproduced/tiny/DoorKey-5x5/count/metrics.csv").exists()
    assert Path("reproduced/tiny/DoorKey-5x5/count/heatmap.png").exists()
    pages = list(Path("reproduced/tiny/comparison").glob("*.html"))
    assert len(pages) == 1
    assert str(pages[0]) in out
    assert "visits_in_corners" in Path("reproduced/tiny/DoorKey-5x5/count/heatmap.csv").read_text()
    assert {path.name for path in Path("reproduced/tiny").iterdir()} >= {
        "figure.png", "table.csv", "summary.md", "maps-DoorKey-5x5-v0.png",
    }  # fmt: skip
    assert "(maps-DoorKey-5x5-v0.png)" in Path("reproduced/tiny/summary.md").read_text()
    code, out, _ = gobi_command("reproduce", "tiny")
    assert code == 0
    assert out.count("finished before") == 2
    code, _, err = gobi_command("reproduce", "tiny", "--frames", "80")
    assert code == 1
    assert "holds another run (frames: 40 -> 80)" in err
    code, _, err = gobi_command("reproduce", "tiny", "--set", "precision=bfloat16")
    assert code == 1
    assert "holds another run (precision: float32 -> bfloat16): give another --out" in err
    code, out, err = gobi_command("reproduce", "again")
    assert code == 0, err
    assert "finished before: reproduced/tiny/DoorKey-5x5/count" in out
    assert not Path("reproduced/again/DoorKey-5x5").exists()
    assert Path("reproduced/again/table.csv").read_text() == Path("reproduced/tiny/table.csv").read_text()
    _, out, _ = gobi_command("reproduce", "--list")
    assert "done" in next(line for line in out.splitlines() if line.startswith("again"))


def test_the_illustration_is_drawn(gobi_command):
    code, out, _ = gobi_command("reproduce", "illustration")
    assert code == 0
    assert "GoBI: 1 move," in out
    assert "R2: 3 moves" in out
    assert "Held here: paid by growth the best plan has 1 move" in out
    assert Path("reproduced/illustration/illustration.png").exists()


@pytest.mark.parametrize("words", [["--tasks", "MultiRoom-N7-S8"], ["--seeds", "2"], ["--from", "."]])
def test_what_is_about_training_does_not_go_with_the_illustration(gobi_command, words):
    code, _, err = gobi_command("reproduce", "illustration", *words)
    assert code == 1
    assert err == "gobi: error: illustration trains nothing: it goes with --plan and --out only\n"


def test_the_plan_of_the_illustration_draws_nothing(gobi_command):
    code, out, _ = gobi_command("reproduce", "illustration", "--plan")
    assert code == 0
    assert "nothing is trained" in out
    assert not Path("reproduced").exists()


def test_an_unknown_figure_gets_one_line_that_helps(gobi_command):
    code, _, err = gobi_command("reproduce", "ablations")
    assert code == 1
    assert "did you mean ablation" in err


@pytest.mark.parametrize(("task", "told"), [("hopper", "hopper_hop"), ("no", "pendulum_swingup, hopper_hop")])
def test_a_task_that_is_none_gets_those_of_the_study(gobi_command, task, told):
    code, _, err = gobi_command("reproduce", "dmc", "--plan", "--tasks", task)
    assert code == 1
    assert f"unknown task of this study '{task}'" in err
    assert told in err
    assert "MiniGrid" not in err


def test_rewards_are_listed_with_what_they_read_and_their_options(gobi_command):
    code, out, _ = gobi_command("rewards")
    assert code == 0
    for name in registry.REWARDS:
        assert f"\n{name} " in out
    assert "full grid (privileged)" in out
    assert "alpha=0.5" in out
    on_control = out.partition("on control tasks")[2]
    assert "gobi: credit=arrival, codes=simhash, bits=50" in on_control
    assert "re3: k=3, form=over_std" in on_control
