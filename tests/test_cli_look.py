"""`gobi evaluate`, `gobi watch` and `gobi heatmap`: what they print and write, and what they refuse."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from made_runs import EMPTY, add_snapshot, made_run
from PIL import Image

from gobi import cli
from gobi.cli import evaluate, heatmap, watch

COMMANDS = {"evaluate": evaluate.evaluate, "watch": watch.watch, "heatmap": heatmap.heatmap}


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    for name, command in COMMANDS.items():
        monkeypatch.setitem(cli.COMMANDS, name, command)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    path = made_run(tmp_path_factory.mktemp("runs") / "run", seeds=(1, 2), reward="count")
    for frames in (100, 200):
        add_snapshot(path, frames)
    return path


@pytest.fixture
def folder(made, tmp_path) -> str:
    """A run of one's own in the working folder of the command."""
    shutil.copytree(made, tmp_path / "run")
    return "run"


def refused(answer: tuple[int, str, str], expected: str) -> None:
    code, out, err = answer
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert expected in err


def test_evaluate_tells_each_seeds_scores_on_new_levels_and_keeps_them(gobi_command, folder, tmp_path):
    code, out, err = gobi_command("evaluate", folder, "--episodes", "30")
    assert (code, err) == (0, "")
    written = json.loads((tmp_path / folder / "evaluation-sampled-000000000200.json").read_text())
    assert [score["seed"] for score in written["scores"]] == [1, 2]
    assert "30 new levels" in out
    assert f"levels of seed {1 + 2**30}" in out
    (heading,) = (line for line in out.splitlines() if line.startswith("seed"))
    assert " ".join(heading.split()) == "seed episodes success 95 % return 95 % length best known"
    (row,) = (line for line in out.splitlines() if line.split()[:2] == ["2", "30"])
    score = written["scores"][1]
    assert row.split()[2] == f"{score['success']:.1%}"
    assert 0 < score["successes"] < 30
    assert "2 seeds: success" in out
    assert "wrote run/evaluation-sampled-000000000200.json" in out


def test_evaluate_takes_single_seeds_and_greedy_actions_and_does_not_overwrite(
    gobi_command, folder, tmp_path
):
    words = ("evaluate", folder, "--episodes", "1", "--seed", "2", "--greedy")
    assert gobi_command(*words)[0] == 0
    file = tmp_path / folder / "evaluation-greedy-000000000200.json"
    written = file.read_bytes()
    assert [score["seed"] for score in json.loads(written)["scores"]] == [2]
    assert json.loads(written)["scores"][0]["return_within"] is None
    refused(gobi_command(*words), "is there already: give another --out, or --overwrite")
    assert gobi_command(*words, "--overwrite")[0] == 0
    assert file.read_bytes() == written


def test_watch_films_an_episode_and_says_what_happened(gobi_command, folder, tmp_path):
    code, out, err = gobi_command("watch", folder, "--seed", "2", "--level", "3", "--max-frames", "4")
    assert (code, err) == (0, "")
    assert f"{EMPTY}, seed 2 after 200 frames, sampled actions" in out
    assert f"new level 3 (of seed {1 + 2**30})" in out
    assert "the film stops at --max-frames 4" in out
    assert "bonus count: " in out
    with Image.open(tmp_path / folder / "episode.gif") as film:
        assert film.n_frames == 4
    refused(gobi_command("watch", folder), "episode.gif is there already")


def test_heatmap_draws_the_snapshots_and_tells_the_shares(gobi_command, folder, tmp_path):
    words = ("heatmap", folder, "--levels", "0", "5", "--episodes", "3", "--out", "here/map.png")
    code, out, err = gobi_command(*words, "--snapshots", "all")
    assert (code, err) == (0, "")
    assert (tmp_path / "here" / "map.png").exists()
    lines = (tmp_path / "here" / "map.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["100", "0"],
        ["100", "5"],
        ["200", "0"],
        ["200", "5"],
    ]
    assert sum(line.split()[:1] in (["100"], ["200"]) for line in out.splitlines()) == 4
    assert "wrote here/map.png" in out
    refused(gobi_command(*words), "here/map.png is there already")
    (tmp_path / "here" / "map.png").unlink()
    refused(gobi_command(*words), "here/map.csv is there already")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_is_no_run_is_refused(gobi_command, command):
    refused(gobi_command(command, "nowhere"), "nowhere is not the folder of a run")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_without_a_checkpoint_is_refused(gobi_command, folder, tmp_path, command):
    shutil.rmtree(tmp_path / folder / "checkpoints")
    shutil.rmtree(tmp_path / folder / "snapshots")
    refused(gobi_command(command, folder), "has no checkpoint yet")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("evaluate", "--episodes", "0"), "--episodes must be at least 1, got 0"),
        (("evaluate", "--num-envs", "0"), "--num-envs must be at least 1, got 0"),
        (("evaluate", "--seed", "3"), "no agent of seed 3 in this run: it has 1, 2"),
        (("evaluate", "--out", "scores.csv"), "must end in .json"),
        (("evaluate", "--checkpoint", "7"), "no checkpoint '7'"),
        (("watch", "--out", "film.avi"), "must end in one of .gif, .mp4, .png"),
        (("watch", "--level", "-1"), "--level must be at least 0, got -1"),
        (("watch", "--fps", "0"), "a film needs 1 to 50 frames per second"),
        (("watch", "--seed", "9"), "no agent of seed 9"),
        (("heatmap", "--out", "map.gif"), "must end in one of .png, .pdf, .svg"),
        (("heatmap", "--levels", "-2"), "--levels must be at least 0, got -2"),
        (("heatmap", "--snapshots", "0"), "--snapshots must be at least 1, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(gobi_command, folder, tmp_path, words, expected):
    before = sorted(tmp_path.rglob("*"))
    refused(gobi_command(words[0], folder, *words[1:]), expected)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("command", "module", "extra"), [("watch", "minigrid", "minigrid"), ("heatmap", "matplotlib", "plot")]
)
def test_a_missing_extra_is_named_in_one_line(gobi_command, folder, monkeypatch, command, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    refused(gobi_command(command, folder), f"pip install 'gobi[{extra}]'")
