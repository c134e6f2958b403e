"""`gobi reproduce` trains runs together, stops when its time is up, and goes on."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from gobi.cli import packs
from gobi.cli.train import choose
from gobi.reproduce import STUDIES
from gobi.reproduce.study import Arm, Cell, Study
from gobi.training import pack
from gobi.training.folder import Folder, Plan, begin

TASK = "MiniGrid-DoorKey-5x5-v0"
TINY = {"num_envs": 4, "unroll": 5, "bank": 512, "snapshots": 1, "frames": 60}
PLACE = Path("reproduced/tiny/DoorKey-5x5")


@pytest.fixture
def tiny_search(monkeypatch) -> Study:
    """Four runs of two agents each: two programs."""
    arms = [
        Arm(
            f"{reward}-{size}",
            TASK,
            {"reward": reward, "coefficient": size, **TINY},
            cell=Cell(reward, str(size), "0"),
        )
        for reward in ("none", "count")
        for size in (0.1, 0.2)
    ]
    study = Study("how much", "", tuple(arms), seeds=2, axes=("lambda", "rho"))
    monkeypatch.setitem(STUDIES, "tiny", study)
    return study


def test_runs_of_one_program_are_trained_together_and_the_grid_is_kept(gobi_command, tiny_search):
    code, out, err = gobi_command("reproduce", "tiny")
    assert code == 0, err
    assert "4 runs in 2 packs" in out
    assert "pack 1 of 2: 2 runs, 4 agents side by side" in out
    for arm in tiny_search.arms:
        folder = PLACE / arm.name
        assert {"metrics.csv", "curves.png", "checkpoints", "snapshots"} <= {p.name for p in folder.iterdir()}
        assert json.loads((folder / "card.json").read_text())["beside"] == 2
    with Path("reproduced/tiny/grid.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["method"], row["lambda"]) for row in rows] == [
        ("none", "0.1"), ("none", "0.2"), ("count", "0.1"), ("count", "0.2"),
    ]  # fmt: skip
    # In so few frames hardly anything is learned. Where nothing is, no cell is the best; see test_grid.py.
    for method in ("none", "count"):
        best = sum(row["best"] == "1" for row in rows if row["method"] == method)
        assert best == (0 if f"no best of {method} on DoorKey-5x5: " in out else 1)
    assert Path("reproduced/tiny/grid.png").exists()
    code, out, _ = gobi_command("evaluate", str(PLACE / "count-0.2"), "--episodes", "2")
    assert code == 0


def test_the_rest_is_trained_when_the_time_was_up(gobi_command, tiny_search):
    """So little time that it is up after the first interval."""
    code, out, err = gobi_command("reproduce", "tiny", "--rewards", "count", "--minutes", "1e-6")
    assert code == 0, err
    assert "the time is up" in out
    assert "Left: 2 runs (DoorKey-5x5/count-0.1, DoorKey-5x5/count-0.2)" in out
    assert not Path("reproduced/tiny/grid.csv").exists()
    code, out, err = gobi_command("reproduce", "tiny", "--rewards", "count")
    assert code == 0, err
    assert "none" not in {path.name.partition("-")[0] for path in PLACE.iterdir()}
    code, out, _ = gobi_command("reproduce", "tiny", "--rewards", "count", "--plan")
    assert out.count("finished before") == 2


def test_ctrl_c_saves_the_pack_and_the_same_command_goes_on(gobi_command, tiny_search, monkeypatch):
    real = pack._Pack._log

    def interrupted(self, row, took):
        real(self, row, took)
        self.stopping.asked = True

    monkeypatch.setattr(pack._Pack, "_log", interrupted)
    code, out, _ = gobi_command("reproduce", "tiny", "--rewards", "none")
    assert code == 130
    assert "the same command goes on" in out
    monkeypatch.setattr(pack._Pack, "_log", real)
    kept = [len(list((PLACE / name / "checkpoints").iterdir())) for name in ("none-0.1", "none-0.2")]
    assert kept == [1, 1]
    code, _, err = gobi_command("reproduce", "tiny", "--rewards", "none")
    assert code == 0, err


def test_ctrl_c_in_a_packs_last_interval_keeps_the_next_one_from_beginning(
    gobi_command, tiny_search, monkeypatch
):
    real = pack._Pack._log

    def interrupted(self, row, took):
        real(self, row, took)
        self.stopping.asked = self.records[0].updates >= self.recipe.updates

    monkeypatch.setattr(pack._Pack, "_log", interrupted)
    code, _, _ = gobi_command("reproduce", "tiny")
    assert code == 130
    assert sorted(path.name for path in PLACE.iterdir()) == ["none-0.1", "none-0.2"]


def test_a_run_that_breaks_does_not_keep_the_others_from_training(gobi_command, tiny_search, monkeypatch):
    real = pack._Pack._log

    def broken(self, row, took):
        if self.recipe.reward == "none":
            row = row | {"loss": row["loss"] * np.nan}
        real(self, row, took)

    monkeypatch.setattr(pack._Pack, "_log", broken)
    code, _, err = gobi_command("reproduce", "tiny")
    assert code == 1
    assert "none-0.1" in err
    assert "--arms" in err
    assert json.loads((PLACE / "count-0.2" / "card.json").read_text())["finished"]


def test_a_folder_with_fewer_seeds_says_how_to_go_on(gobi_command, tiny_search):
    begin(Folder(PLACE / "none-0.1"), Plan(choose(TASK, "gobi", tiny_search.arms[0].settings), (0,)))
    code, _, err = gobi_command("reproduce", "tiny")
    assert code == 1
    assert "none-0.1 holds this run with seed 0, not seeds 0 to 1: " in err
    assert "--seeds 1 goes on with it" in err
    assert "--seed 1 --seeds 1 with another --out in reproduced trains the rest" in err
    assert err.count("\n") == 1
    code, _, err = gobi_command("reproduce", "tiny", "--seeds", "1", "--plan")
    assert code == 0, err
    code, _, err = gobi_command("reproduce", "tiny", "--seed", "5", "--plan")
    assert code == 1
    assert "--seed 0 --seeds 1 goes on with it" in err
    assert "trains the rest" not in err


def test_what_is_kept_of_another_run_is_left_alone(gobi_command, tiny_search):
    """Such as its curves without the checkpoints."""
    folder = PLACE / "none-0.1"
    folder.mkdir(parents=True)
    for name in ("recipe.json", "metrics.csv"):
        (folder / name).write_text("{}")
    code, _, _ = gobi_command("reproduce", "tiny", "--plan")
    assert code == 0
    code, _, err = gobi_command("reproduce", "tiny")
    assert code == 1
    assert "already in use" in err
    assert sorted(path.name for path in folder.iterdir()) == ["metrics.csv", "recipe.json"]


def test_a_folder_whose_run_was_killed_while_it_began_is_begun_again(gobi_command, tiny_search):
    (PLACE / "none-0.1").mkdir(parents=True)
    (PLACE / "none-0.1" / "recipe.json").write_text("{}")
    code, _, err = gobi_command("reproduce", "tiny", "--arms", "none-0.1")
    assert code == 0, err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rewards", "ride"], "no runs with the reward 'ride': it has none, count"),
        (["--rewards", "none", "--arms", "count-0.1"], "none of the study's runs"),
        (["--minutes", "-1"], "--minutes must be at least 0"),
        (["--minutes", "nan"], "--minutes must be at least 0, got nan"),
        (["--seeds", "5000000000"], "--seeds must be at most 10000, got 5000000000"),
        (["--together", "-1"], "--together must be at least 0"),
        (["--seed", "2147483646", "--seeds", "3"], "--seed must be at most"),
        (["--from", ".", "--arms", "none-0.1"], "--from takes the runs that it finds"),
    ],
)
def test_wrong_words_get_one_line_that_helps(gobi_command, tiny_search, words, told):
    code, _, err = gobi_command("reproduce", "tiny", *words)
    assert code != 0
    assert told in err
    assert err.count("\n") == 1
    assert not Path("reproduced").exists()


@pytest.mark.parametrize(("seconds", "text"), [(5, "5 seconds"), (600, "10 minutes"), (7200, "2.0 hours")])
def test_times_are_told_as_people_do(seconds, text):
    assert packs.duration(float(seconds)) == text
