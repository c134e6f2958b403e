"""The commands: what they print, what they write, and one clear line for whatever goes wrong."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import gobi
from gobi import cli
from gobi.cli import doctor as doctor_module
from gobi.envs.dmc import rendering
from gobi.envs.dmc import tasks as control
from gobi.envs.dmc.rendering import Trial
from gobi.envs.minigrid import PAPER_TASKS, TASKS, MiniGrid, ceilings
from gobi.errors import GobiError

EMPTY = "MiniGrid-Empty-5x5-v0"


def is_one_error_line(text: str) -> bool:
    return text.startswith("gobi: error: ") and text.endswith("\n") and text.count("\n") == 1


def without(monkeypatch, *modules: str) -> None:
    """Makes packages look as if they were not installed."""
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)


# Help and version


def test_help_has_one_line_for_each_command(gobi_command):
    code, out, _ = gobi_command("--help")
    assert code == 0
    for name in cli.COMMANDS:
        (line,) = (line for line in out.splitlines() if line.startswith(f"  {name} "))
        assert line.endswith(".")
    assert gobi_command() == gobi_command("-h") == (code, out, "")


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_each_command_explains_its_flags(gobi_command, name):
    code, out, err = gobi_command(name, "--help")
    assert (code, err) == (0, "")
    assert f"usage: gobi {name}" in out


def test_version(gobi_command):
    assert gobi_command("--version") == (0, f"gobi {gobi.__version__}\n", "")


# tasks


def test_tasks_lists_every_task_whole_and_marks_the_twelve_of_the_paper(gobi_command):
    code, out, _ = gobi_command("tasks")
    assert code == 0
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[1 : 1 + len(TASKS)]}
    assert list(rows) == list(TASKS)
    assert [name for name, row in rows.items() if row[0] == "yes"] == list(PAPER_TASKS)
    assert rows["MiniGrid-KeyCorridorS4R3-v0"][1:4] == ["10x10", "480", "7"]


@pytest.mark.parametrize("installed", [True, False])
def test_tasks_lists_the_control_tasks_with_and_without_the_extra(gobi_command, monkeypatch, installed):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: found(name) if installed or name != "dm_control" else None
    )
    _, out, _ = gobi_command("tasks")
    rows = {line.split()[0]: line.split()[1:4] for line in out.splitlines() if line.startswith("dmc/")}
    assert list(rows) == list(control.TASKS)
    assert rows["dmc/hopper_hop"] == ["yes", "500", "4"]
    assert ("pip install 'gobi[dmc]'" in out) != installed


def test_tasks_as_csv_can_be_read_by_a_program(gobi_command):
    _, out, _ = gobi_command("tasks", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["id"] for row in rows] == [*TASKS, *control.TASKS]
    for row in rows[len(TASKS) :]:
        assert (row["max_steps"], row["actions"], row["width"]) == ("500", "0", "")
        assert int(row["action_size"]) == control.ABOUT[row["id"]].actions
    for row in rows[: len(TASKS)]:
        task = TASKS[row["id"]]
        assert (int(row["width"]), int(row["height"])) == task.generator.size
        assert int(row["max_steps"]) == task.generator.max_steps
        assert row["version"] == task.version


def test_tasks_shows_the_ceilings_that_are_known_and_a_dash_for_the_others(gobi_command, monkeypatch):
    ceiling = SimpleNamespace(levels=500, counted=900, solvable_share=0.932, best_return=0.8768)
    monkeypatch.setattr(ceilings, "known", lambda: {EMPTY: ceiling})
    _, out, _ = gobi_command("tasks")
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.startswith("MiniGrid")}
    assert rows[EMPTY][-2:] == ["93.2%", "0.877"]
    assert rows["MiniGrid-Empty-8x8-v0"][-2:] == ["-", "-"]
    assert "measured on 900 levels (solvable) and 500 levels (return)" in out


# doctor


def test_doctor_finds_this_installation_in_order(gobi_command):
    code, out, err = gobi_command("doctor")
    assert (code, err) == (0, "")
    assert re.search(rf"^jax +{re.escape(metadata.version('jax'))} +ok$", out, re.MULTILINE)
    assert re.search(r"^minigrid .* ok$", out, re.MULTILINE)
    assert "self-check: ok" in out


def test_doctor_says_how_to_get_a_missing_extra(gobi_command, monkeypatch):
    monkeypatch.setitem(doctor_module.EXTRAS, "wandb", ("a-package-nobody-has",))
    code, out, _ = gobi_command("doctor")
    assert code == 0
    assert re.search(r"^wandb .*pip install 'gobi\[wandb\]'$", out, re.MULTILINE)


def test_doctor_says_what_draws_the_frames_of_control_tasks(gobi_command, monkeypatch):
    card = Trial("egl", "NVIDIA H200/PCIe/SSE2", "")
    monkeypatch.setattr(rendering, "choose", lambda: "egl")
    monkeypatch.setattr(rendering, "attempt", lambda backend: card)
    _, out, _ = gobi_command("doctor")
    assert "frames of control tasks: ok, drawn by NVIDIA H200/PCIe/SSE2 (MUJOCO_GL=egl)\n" in out


def test_doctor_says_how_to_get_frames_of_control_tasks(gobi_command, monkeypatch):
    def nothing_draws() -> str:
        raise GobiError(rendering.complaint(Trial("egl", "", "no EGL")))

    monkeypatch.setattr(rendering, "choose", nothing_draws)
    code, out, _ = gobi_command("doctor")
    assert code == 0
    assert re.search(r"^frames of control tasks: .*apt-get install libegl1 ", out, re.MULTILINE)
    monkeypatch.setitem(doctor_module.EXTRAS, "dmc", ("dm_control_nobody_has",))
    _, out, _ = gobi_command("doctor")
    assert "frames of control tasks: need dm_control_nobody_has: pip install 'gobi[dmc]'\n" in out


def test_doctor_knows_the_packages_of_every_extra():
    declared: dict[str, set[str]] = {}
    for line in metadata.requires("gobi") or []:
        if extra := re.search(r"extra == ['\"](\w+)['\"]", line):
            package = re.split(r"[\s<>=!~;\[]", line)[0]
            declared.setdefault(extra[1], set()).add(package.lower().replace("_", "-"))
    for extra, packages in doctor_module.EXTRAS.items():
        if extra.startswith("cuda"):
            assert declared[extra] == {"jax"}
        else:
            assert declared[extra] == {name.lower().replace("_", "-") for name in packages}
    assert set(declared) - set(doctor_module.EXTRAS) == {"docs", "test", "dev"}


def test_doctor_fails_when_a_required_package_does_not_load(gobi_command, monkeypatch):
    without(monkeypatch, "safetensors")
    code, out, err = gobi_command("doctor")
    assert code == 1
    assert "does not load" in out
    assert is_one_error_line(err)
    assert "package safetensors" in err


def test_doctor_fails_when_the_game_is_not_the_right_one(gobi_command, monkeypatch):
    monkeypatch.setattr(MiniGrid, "_reward", lambda self, state: np.float32(0.5))
    code, out, err = gobi_command("doctor")
    assert code == 1
    assert "self-check: FAILED" in out
    assert is_one_error_line(err)


# play


@pytest.mark.parametrize("suffix", ["gif", "mp4", "png"])
def test_play_records_the_solution_and_says_what_happened(gobi_command, tmp_path, suffix):
    code, out, err = gobi_command("play", "Empty-5x5", "--policy", "solver", "--out", f"film.{suffix}")
    assert (code, err) == (0, "")
    assert f"{EMPTY}, level 0 of seed 0, solver policy: 5 steps, return 0.955, solved\n" in out
    assert f"wrote film.{suffix}" in out
    assert (tmp_path / f"film.{suffix}").stat().st_size > 500


def test_play_stops_at_max_frames(gobi_command, tmp_path):
    _, out, _ = gobi_command("play", EMPTY, "--max-frames", "3", "--out", "film.gif", "--policy", "solver")
    assert "2 steps, return 0.000, not solved; the film stops at --max-frames 3" in out
    with Image.open(tmp_path / "film.gif") as gif:
        assert gif.n_frames == 3


def test_play_is_the_same_for_the_same_seed_and_another_for_another(gobi_command, tmp_path):
    for name, seed in [("a", "1"), ("b", "1"), ("c", "2")]:
        words = ("--policy", "biased", "--seed", seed, "--max-frames", "20", "--out", f"{name}.gif")
        assert gobi_command("play", EMPTY, *words)[0] == 0
    films = [(tmp_path / f"{name}.gif").read_bytes() for name in "abc"]
    assert films[0] == films[1] != films[2]


def test_play_never_overwrites_unless_told_to(gobi_command, tmp_path):
    (tmp_path / "film.png").write_text("precious")
    words = ("play", EMPTY, "--max-frames", "1", "--out", "film.png")
    code, _, err = gobi_command(*words)
    assert code == 1
    assert is_one_error_line(err)
    assert "film.png is there already" in err
    assert (tmp_path / "film.png").read_text() == "precious"
    assert gobi_command(*words, "--overwrite")[0] == 0
    with Image.open(tmp_path / "film.png") as picture:
        assert picture.size == (160, 160)


def test_play_without_the_extra_names_it_before_any_work_is_done(gobi_command, monkeypatch, tmp_path):
    without(monkeypatch, "minigrid")
    monkeypatch.setattr(cli.play, "numbered_level", lambda *_: pytest.fail("a level was made"))
    code, _, err = gobi_command("play", EMPTY, "--out", "film.gif")
    assert code == 1
    assert is_one_error_line(err)
    assert "'minigrid', which is not installed: pip install 'gobi[minigrid]'" in err
    assert not list(tmp_path.iterdir())


# demo


def test_demo_counts_and_draws(gobi_command, tmp_path):
    code, out, err = gobi_command("demo", "Empty-5x5", "--num-envs", "4", "--steps", "1500")
    assert (code, err) == (0, "")
    folder = tmp_path / "runs" / "demo"
    assert {path.name for path in folder.iterdir()} == {"level.png", "episode.gif", "summary.json"}
    result = json.loads((folder / "summary.json").read_text())
    assert result["task"] == EMPTY
    assert result["steps"] == 1536
    # Every episode lasts 100 steps at the most, and each lane has one that has not ended yet.
    assert 1536 / 100 - 4 <= result["episodes"] <= 1536 / 5
    assert 0 < result["successes"] < result["episodes"]
    assert 0.1 <= result["mean_return"] * result["episodes"] / result["successes"] <= 0.955
    assert result["levels_used"] == result["episodes"] + 4
    assert result["levels_distinct"] + result["levels_repeated"] == result["levels_used"]
    assert re.search(r"^steps +1,536$", out, re.MULTILINE)
    for path in folder.iterdir():
        assert str(path.relative_to(tmp_path)) in out


def test_demo_without_the_extra_still_counts_and_names_it(gobi_command, monkeypatch, tmp_path):
    without(monkeypatch, "minigrid", "minigrid.envs")
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    (tmp_path / "runs" / "demo" / "something").touch()
    code, out, _ = gobi_command("demo", "Empty-5x5", "--num-envs", "4", "--steps", "100")
    assert code == 0
    assert "no pictures: this needs the package 'minigrid'" in out
    assert [path.name for path in (tmp_path / "runs" / "demo-2").iterdir()] == ["summary.json"]


def test_demo_refuses_a_folder_that_holds_something(gobi_command, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").touch()
    code, _, err = gobi_command("demo", "--out", "mine")
    assert code == 1
    assert is_one_error_line(err)
    assert "mine is already in use" in err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["precious"]


# Wrong input

PLAY = ("play", EMPTY, "--out", "film.gif")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ply",), "unknown command 'ply'; did you mean play"),
        (("--steps",), "unknown command '--steps'"),
        (("play",), "missing TASK, --out PATH (see gobi play --help)"),
        (("play", EMPTY), "missing --out PATH"),
        (("play", EMPTY, "--out"), "missing value for argument"),
        ((*PLAY, "--seed", "one"), "--seed: invalid literal for int() with base 10: 'one'"),
        ((*PLAY, "--polcy", "random"), "--polcy, random; did you mean --policy?"),
        ((*PLAY, "--policy", "best"), "invalid choice 'best' for argument '--policy'"),
        ((*PLAY, "another"), "unrecognized options: another"),
        (("tasks", "--cvs"), "did you mean --csv?"),
        (("doctor", "who"), "who"),
        (("train", "--out", "a\0b"), r"null byte in it: 'a\x00b'"),
    ],
)
def test_a_line_that_makes_no_sense_is_exit_code_2(gobi_command, tmp_path, words, expected):
    code, out, err = gobi_command(*words)
    assert (code, out) == (2, "")
    assert is_one_error_line(err)
    assert expected in err
    assert not set(err) & set("│╭╰─")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("play", "KeyCoridorS3R3", "--out", "film.gif"), "did you mean MiniGrid-KeyCorridorS3R3-v0"),
        (
            ("play", "ObstructedMaze-1Q", "--out", "film.gif"),
            "could be any of MiniGrid-ObstructedMaze-1Q-v0,",
        ),
        (("play", EMPTY, "--out", "film.avi"), "must end in one of .gif, .mp4, .png"),
        ((*PLAY, "--fps", "0"), "1 to 50 frames per second, got 0"),
        ((*PLAY, "--level", "-1"), "--level must be at least 0, got -1"),
        ((*PLAY, "--max-frames", "0"), "--max-frames must be at least 1, got 0"),
        ((*PLAY, "--seed", "-1"), "--seed must be at least 0, got -1"),
        ((*PLAY, "--seed", "2147483648"), "--seed must be at most 2147483647"),
        (("demo", "Nowhere"), "unknown task 'Nowhere'"),
        (("demo", "--num-envs", "0"), "--num-envs must be at least 1, got 0"),
        (("demo", "--steps", "0"), "--steps must be at least 1, got 0"),
    ],
)
def test_work_that_cannot_be_done_is_exit_code_1(gobi_command, tmp_path, words, expected):
    code, out, err = gobi_command(*words)
    assert (code, out) == (1, "")
    assert is_one_error_line(err)
    assert expected in err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_one_line(gobi_command, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = gobi_command("demo", "--out", "file/folder")
    assert code == 1
    assert is_one_error_line(err)
    assert "file/folder: Not a directory" in err
    assert "unexpected" not in err


@pytest.mark.parametrize("words", [("--debug", "demo", "Nowhere"), ("demo", "Nowhere", "--debug")])
def test_debug_shows_the_traceback_wherever_it_stands(words):
    with pytest.raises(GobiError, match="unknown task"):
        cli.main(words)


def test_what_nobody_foresaw_is_one_line_too(gobi_command, monkeypatch):
    def broken() -> None:
        """Breaks."""
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setitem(cli.COMMANDS, "broken", broken)
    code, _, err = gobi_command("broken")
    assert code == 1
    assert (
        err == "gobi: error: unexpected ZeroDivisionError: two lines; run again with --debug to see where\n"
    )


def test_ctrl_c_is_one_line_and_exit_code_130(gobi_command, monkeypatch):
    def slow() -> None:
        """Takes long."""
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.COMMANDS, "slow", slow)
    assert gobi_command("slow") == (130, "", "gobi: interrupted\n")


# As a program of its own


def python_m_gobi(arguments: str) -> subprocess.CompletedProcess:
    line = f"'{sys.executable}' -m gobi {arguments}"
    # In UTF-8 tyro draws other boxes than the ones that the tests above have seen.
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(line, shell=True, capture_output=True, text=True, check=False, env=env)


def test_python_m_gobi_is_the_same_program():
    ran = python_m_gobi("play Empty-5x5 --polcy random")
    assert (ran.returncode, ran.stdout) == (2, "")
    message = "missing --out PATH; unrecognized options: --polcy, random (see gobi play --help)"
    assert ran.stderr == f"gobi: error: {message}\n"


@pytest.mark.parametrize("command", ["tasks", "tasks --csv"])
def test_a_reader_that_has_gone_away_gets_no_complaint(command):
    ran = python_m_gobi(f"{command} | true")
    assert (ran.stdout, ran.stderr) == ("", "")
