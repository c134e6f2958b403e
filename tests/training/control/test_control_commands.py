"""The commands on control tasks, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gobi.errors import GobiError
from gobi.training import metrics, trained
from gobi.training.control import recipes

TASK = "dmc/cartpole_balance"
FROM_STATE = ["train", "dmc/hopper_hop", "--observations", "state"]
TINY = [
    "--observations", "state", "--frames", "1200", "--set", "action_repeat=20", "--set", "evaluate_every=600",
    "--set", "evaluation_episodes=2", "--set", "random_steps=10", "--set", "batch=8", "--set", "hidden=16",
    "--set", "capacity=100",
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "dmc/hoper_hop"], "did you mean dmc/hopper_hop"),
        (["train", "dmc/hopper_hop", "--reward", "re4"], "did you mean re3"),
        (["train", "dmc/hopper_hop", "--reward", "noveld"], "unknown reward for control tasks 'noveld'"),
        (["train", "dmc/hopper_hop", "--set", "hiden=8"], "did you mean hidden"),
        (["train", "dmc/hopper_hop", "--recipe", "as_coded"], "unknown recipe for control tasks 'as_coded'"),
        (["train", "dmc/hopper_hop", "--world", "real"], "world is a setting of grids"),
        (["train", "dmc/hopper_hop", "--network", "paper"], "network is a setting of grids"),
        (["train", "dmc/hopper_hop", "--set", "unroll=5"], "unroll is a setting of grids"),
        (
            ["train", "dmc/hopper_hop", "--set", "credit=departure"],
            "credit is an option of rewards (gobi, r1): write --set reward_options=credit=departure",
        ),
        (["train", "DoorKey-5x5", "--observations", "state"], "observations is a setting of control tasks"),
        (["train", "--observations", "state"], "observations is a setting of control tasks"),
        (
            [*FROM_STATE, "--reward", "gobi", "--set", "hashed=reconstructed"],
            "hashed=reconstructed is for a world of pictures",
        ),
        # What only the task's own observations can tell is found before anything is written, too.
        ([*FROM_STATE, "--reward", "icm", "--set", "reward_options=frames=3"], "frames=3 is for pictures"),
        (["train", "dmc/hopper_hop", "--set", "crop=3"], "crop must be between 15 and the picture's side"),
        (
            ["train", "dmc/hopper_hop", "--set", "batch=512", "--set", "capacity=100"],
            "must hold a batch of 512",
        ),
        (["recipe", "dmc/hopper_hop", "--set", "observations=smell"], "must be one of pixels, state"),
        (["train", "dmc/hopper_hop", "--frames", "0"], "frames must be at least 1"),
        (["train", "dmc/hopper_hop", "--set", "task=dmc/walker_run"], "--set cannot change the task"),
        (["train", "dmc/hopper_hop", "--set", "reward_options=kk=1"], "unknown option of gobi 'kk'"),
        (["recipe", "dmc/nothing_at_all"], "unknown control task"),
        (["recipe", "DoorKey-5x5", "--observations", "state"], "observations is a setting of control tasks"),
        (
            [*FROM_STATE, "--set", "observations=pixels"],
            "observations is given twice: --set observations=pixels",
        ),
        ([*FROM_STATE, "--set", "stack=1"], "stack=1 is for pictures"),
    ],
)
def test_wrong_input_gets_one_line_that_helps(gobi_command, words, told):
    code, out, err = gobi_command(*words)
    assert code != 0
    assert told in err
    assert err.count("\n") == 1
    assert not Path("runs").exists(), out


def test_a_recipe_is_printed_whole_and_can_be_read_again(gobi_command):
    words = ["--set", "observations=state", "--set", "frames=1e5", "--set", "hidden=64"]
    code, out, _ = gobi_command("recipe", "dmc/pendulum_swingup", *words)
    assert code == 0
    expected = recipes.recipe("pendulum_swingup", observations="state", frames=100_000, hidden=64)
    assert json.loads(out) == json.loads(expected.to_json())
    flags = ["--observations", "state", "--reward", "gobi"]
    expected = recipes.recipe("pendulum_swingup", observations="state", reward="gobi")
    assert json.loads(gobi_command("recipe", "dmc/pendulum_swingup", *flags)[1]) == json.loads(
        expected.to_json()
    )


def test_a_run_is_trained_resumed_evaluated_drawn_and_compared(gobi_command):
    """With environments in processes of their own."""
    code, out, err = gobi_command("train", TASK, "--reward", "none", "--seeds", "2", "--out", "mine", *TINY)
    assert code == 0, err
    assert f"{TASK} from the state, reward none, recipe gobi, seeds 0 to 1, 1,200 frames" in out
    assert "in training" in out
    assert "note: the world model" not in out
    assert "mine/curves.png" in out
    assert len(metrics.read(Path("mine/metrics.csv"))["return"]) == 4

    code, out, _ = gobi_command("resume", "mine")
    assert (code, "mine is finished: 1,200 frames" in out) == (0, True)

    code, out, err = gobi_command("evaluate", "mine", "--episodes", "2", "--seed", "1")
    assert code == 0, err
    assert "2 new starts, none of those of training" in out
    (score,) = json.loads(Path("mine/evaluation-greedy-000000001200.json").read_text())["scores"]
    assert (score["seed"], score["episodes"], score["mean_length"]) == (1, 2, 1000)
    assert 0 < score["mean_return"] <= 1000

    code, out, err = gobi_command("plot", "mine", "--out", "curves.png")
    assert code == 0, err
    code, out, err = gobi_command("compare", "mine", "--out", "page")
    assert code == 0, err
    assert "cartpole_balance" in Path("page/comparison.html").read_text()

    with pytest.raises(GobiError, match="looks at runs on grids only"):
        trained.load(Path("mine"))


def test_a_run_too_short_for_a_lesson_of_the_world_says_so(gobi_command):
    words = ["--reward", "gobi", "--set", "world_prefill=60", "--set", "world_batch=2", *TINY]
    code, out, err = gobi_command("train", TASK, "--out", "short", *words)
    assert code == 0, err
    assert "note: the world model learns from 1,200 frames on; in a shorter run nothing is imagined" in out
