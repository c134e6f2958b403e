"""`gobi train`, `resume` and `recipe` as a user meets them: mostly what wrong input gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gobi.cli import train
from gobi.training import pack, recipes, run

TINY = [
    "--set", "num_envs=4", "--set", "unroll=5", "--set", "bank=512", "--set", "snapshots=1", "--frames", "40",
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "KeyCoridorS3R3"], "did you mean MiniGrid-KeyCorridorS3R3-v0"),
        (["train", "DoorKey-5x5", "--recipe", "as_writen"], "did you mean as_written"),
        (["train", "DoorKey-5x5", "--reward", "rdn"], "did you mean rnd"),
        (["train", "DoorKey-5x5", "--set", "reward_options=alpha=1"], "fields of the recipe"),
        (
            ["train", "DoorKey-5x5", "--reward", "count", "--set", "reward_options=view=fullgrid"],
            "unknown view 'fullgrid'; did you mean full_grid?",
        ),
        (
            ["train", "DoorKey-5x5", "--set", "lifelong_options=view=fullgrid"],
            "unknown view 'fullgrid'; did you mean full_grid?",
        ),
        (
            ["train", "DoorKey-5x5", "--reward", "count", "--set", "reward_options=view=state"],
            "reads state, which is not to be had here",
        ),
        (
            ["train", "DoorKey-5x5", "--set", "hash=simhash", "--set", "lifelong_options=view=full_grid"],
            "hash=simhash codes the agent's own view",
        ),
        (
            ["train", "DoorKey-5x5", "--reward", "ride", "--set", "reward_options=counted=fullgrid"],
            "did you mean full_grid?",
        ),
        (
            ["train", "DoorKey-5x5", "--reward", "noveld", "--set", "reward_options=counted=fullgrid"],
            "counted must be one of full_grid, observation",
        ),
        (
            ["train", "gym/CartPole-v1", "--reward", "count", "--set", "reward_options=view=fullgrid"],
            "unknown view 'fullgrid'; known are observation",
        ),
        (["train", "DoorKey-5x5", "--set", "task=Empty-5x5"], "--set cannot change the task"),
        (["train", "DoorKey-5x5", "--set", "coeficient=1"], "did you mean coefficient"),
        (
            ["train", "DoorKey-5x5", "--reward", "rnd", "--set", "reward=ride"],
            "reward is given twice: --set reward=ride and --reward rnd",
        ),
        (
            ["train", "DoorKey-5x5", "--set", "beta=2"],
            "option of rewards (ec): write --set reward_options=beta=2",
        ),
        (["train", "DoorKey-5x5", "--set", "coefficient"], "FIELD=VALUE"),
        (["train", "DoorKey-5x5", "--set", "counts=mine"], "counts must be one of per_env, shared"),
        (["train", "DoorKey-5x5", "--frames", "many"], "frames must be of type int"),
        (["train", "DoorKey-5x5", "--frames", "0"], "frames must be at least 1"),
        (["train", "DoorKey-5x5", "--seed", "-1"], "--seed must be at least 0"),
        (["train", "DoorKey-5x5", "--seeds", "0"], "--seeds must be at least 1"),
        (["train", "DoorKey-5x5", "--seeds", "5000000000"], "--seeds must be at most 10000, got 5000000000"),
        (["train", "DoorKey-5x5", "--seeds", "2000000000"], "--seeds must be at most 10000"),
        (["train", "DoorKey-5x5", "--checkpoint-seconds", "nan"], "--checkpoint-seconds must be at least 0"),
        (["resume", "nowhere"], "not the folder of a run"),
        (["evaluate", "nowhere"], "nowhere"),
        (["recipe", "Nothing-At-All"], "unknown task"),
    ],
)
def test_wrong_input_gets_one_line_that_helps(gobi_command, words, told):
    code, out, err = gobi_command(*words)
    assert code != 0
    assert told in err
    assert err.count("\n") == 1
    assert not Path("runs").exists(), out


def test_a_recipe_is_printed_whole_and_can_be_read_again(gobi_command):
    code, out, _ = gobi_command("recipe", "KeyCorridorS3R3", "--recipe", "as_coded", "--set", "frames=1e6")
    assert code == 0
    expected = recipes.recipe("KeyCorridorS3R3", "as_coded", frames=1_000_000)
    assert json.loads(out) == json.loads(expected.to_json())


def test_a_run_ends_with_a_table_and_says_where_things_lie_and_is_not_run_twice(gobi_command):
    words = ["train", "DoorKey-5x5", "--reward", "count", "--seeds", "2", "--out", "mine", *TINY]
    code, out, err = gobi_command(*words)
    assert code == 0, err
    assert "seed" in out
    assert "best known" in out
    assert "mine/metrics.csv" in out
    assert json.loads(Path("mine/card.json").read_text())["privileged"] == []
    code, out, _ = gobi_command("resume", "mine")
    assert (code, "is finished" in out) == (0, True)
    code, _, err = gobi_command("train", "DoorKey-5x5", "--out", "mine", *TINY)
    assert code == 1
    assert "already in use" in err


def test_ctrl_c_saves_and_says_how_to_go_on(gobi_command, monkeypatch):
    real = pack._Pack._log

    def interrupted(self, row, took):
        real(self, row, took)
        self.stopping.asked = True

    monkeypatch.setattr(pack._Pack, "_log", interrupted)
    words = ["train", "DoorKey-5x5", "--reward", "none", "--out", "mine", *TINY]
    code, out, _ = gobi_command(*words)
    assert code == 130
    assert "gobi resume mine" in out
    monkeypatch.setattr(pack._Pack, "_log", real)
    assert gobi_command("resume", "mine")[0] == 0
    assert run.finished(run.Folder(Path("mine")), run.planned(run.Folder(Path("mine"))))


def test_a_run_that_was_stopped_before_its_first_frame_keeps_the_command_that_began_it(
    gobi_command, monkeypatch
):
    def interrupted(self):
        raise KeyboardInterrupt

    real = pack._Pack._started
    monkeypatch.setattr(pack._Pack, "_started", interrupted)
    words = ["train", "DoorKey-5x5", "--reward", "none", "--out", "mine", *TINY]
    monkeypatch.setattr("sys.argv", ["gobi", *words])
    code, out, _ = gobi_command(*words)
    assert code == 130
    assert "stopped at once: gobi resume mine goes on" in out
    assert not run.Folder(Path("mine")).card.exists()
    monkeypatch.setattr(pack._Pack, "_started", real)
    monkeypatch.setattr("sys.argv", ["gobi", "resume", "mine"])
    assert gobi_command("resume", "mine")[0] == 0
    assert json.loads(Path("mine/card.json").read_text())["command"] == "gobi " + " ".join(words)


def test_a_cpu_gets_the_compact_network_unless_told_otherwise():
    assert train.choose("DoorKey-5x5", "gobi", {}).network == "compact"
    assert train.choose("DoorKey-5x5", "gobi", {"network": "paper"}).network == "paper"
    assert train.choose("DoorKey-5x5", "as_coded", {}).network == "coded"
    assert train.choose("", "gobi", {}).network == "compact"


def test_deterministic_sets_xla_s_flag_once(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    train.make_deterministic()
    train.make_deterministic()
    import os

    assert os.environ["XLA_FLAGS"] == "--xla_dump_to=x --xla_gpu_deterministic_ops=true"
