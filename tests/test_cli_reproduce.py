"""`gobi reproduce` and `gobi rewards` as a user meets them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

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


def test_the_plan_of_the_illustration_draws_nothing(gobi_command):
    code, out, _ = gobi_command("reproduce", "illustration", "--plan")
    assert code == 0
    assert "nothing is trained" in out
    assert not Path("reproduced").exists()


def test_an_unknown_figure_gets_one_line_that_helps(gobi_command):
    code, _, err = gobi_command("reproduce", "ablations")
    assert code == 1
    assert "did you mean ablation" in err


def test_rewards_are_listed_with_what_they_read_and_their_options(gobi_command):
    code, out, _ = gobi_command("rewards")
    assert code == 0
    for name in registry.REWARDS:
        assert f"\n{name} " in out
    assert "full grid (privileged)" in out
    assert "alpha=0.5" in out
