"""`gobi train gym/ID`: the host loop, as a user meets it; on tasks so short that nothing is learned."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gobi.cli.advising import Advising
from gobi.cli.bars import bars
from gobi.envs.host import Step
from gobi.errors import GobiError
from gobi.training import metrics, run
from gobi.training.folder import alone
from gobi.training.host import loop, recipes
from gobi.training.host import trained as hosted
from gobi.training.host.recipe import HostRecipe
from gobi.training.host.record import Diary
from gobi.training.pack import Listener

pytest.importorskip("gymnasium")

TINY = ["--frames", "96", "--set", "num_envs=3", "--set", "unroll=8", "--set", "units=8"]
SMALL: dict[str, Any] = {"frames": 96, "num_envs": 3, "unroll": 8, "units": 8}
LEARNERS: dict[str, dict[str, Any]] = {
    "impala": {"learner": "impala"},
    "ppo": {"learner": "ppo", "epochs": 2, "minibatches": 3},
}
learners = pytest.mark.parametrize("changes", LEARNERS.values(), ids=list(LEARNERS))

MINE = """
class Mine:
    def init(self, key, spec, num_envs):
        assert spec.observation_shape == (4,)
        return 0

    def step(self, state, transition):
        return state + 1, transition.action * 1.0
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "gym/CartPol-v1"], "Gymnasium cannot make the task 'CartPol-v1'"),
        (["train", "gym/"], "written gym/ID"),
        (["train", "gym/CartPole-v1", "--reward", "gobbi"], "did you mean gobi"),
        (["train", "gym/CartPole-v1", "--world", "real"], "world is a setting of grids"),
        (
            ["train", "gym/CartPole-v1", "--observations", "state"],
            "observations is a setting of control tasks",
        ),
        (["train", "DoorKey-5x5", "--set", "passes=2"], "passes is a setting of Gymnasium's tasks"),
        (["train", "gym/CartPole-v1", "--network", "paper"], "must be one of feedforward, recurrent"),
        (["train", "gym/CartPole-v1", "--recipe", "as_coded"], "unknown recipe for Gymnasium's tasks"),
        (["train", "gym/CartPole-v1", "--set", "units=0"], "units must be at least 1"),
        (["train", "gym/CartPole-v1", "--reward", "nowhere.py:Mine"], "nowhere.py:Mine is missing"),
        (["recipe", "gym/CartPole-v1", "--set", "unrol=8"], "did you mean unroll"),
        (["train", "gym/CartPole-v1", "--set", "minibatches=3"], "cannot be split into minibatches=3"),
        (["train", "gym/CartPole-v1", "--set", "epochs=0"], "epochs must be at least 1"),
        (["train", "gym/CartPole-v1", "--set", "passes=2"], "passes is not a setting of the learner ppo"),
        (["train", "gym/CartPole-v1", "--learner", "pp"], "did you mean ppo"),
    ],
)
def test_wrong_input_gets_one_line_that_helps(gobi_command, words, told):
    code, _, err = gobi_command(*words)
    assert code != 0
    assert told in err
    assert err.count("\n") == 1
    assert not Path("runs").exists()


def test_without_gymnasium_the_extra_is_named(gobi_command, monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    code, _, err = gobi_command("train", "gym/CartPole-v1")
    assert code == 1
    assert err == (
        "gobi: error: this needs the package 'gymnasium', which is not installed: "
        "pip install 'gobi[gymnasium]'\n"
    )


@learners
def test_a_run_is_trained_stopped_resumed_evaluated_drawn_and_compared(gobi_command, monkeypatch, changes):
    """With a reward of one's own."""
    Path("mine.py").write_text(MINE)
    words = ["train", "gym/CartPole-v1", "--reward", "mine.py:Mine", "--seeds", "2", "--out", "mine", *TINY]
    words += [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    real = loop._Run._row

    def interrupted(self, begun):
        self.stopping.asked = True
        return real(self, begun)

    monkeypatch.setattr(loop._Run, "_row", interrupted)
    code, out, err = gobi_command(*words)
    assert (code, "gobi resume mine" in out) == (130, True), err
    monkeypatch.setattr(loop._Run, "_row", real)
    code, out, err = gobi_command("resume", "mine")
    assert code == 0, err
    assert "new episodes begin" in err
    rows = metrics.read(Path("mine/metrics.csv"))
    assert rows["frames"].tolist() == [24, 24, 48, 48, 72, 72, 96, 96]
    assert ((rows["bonus"] > 0) & (rows["bonus"] < 1)).all()
    assert rows["episodes"].max() > 0
    assert np.isfinite(rows["value_loss"]).all()
    card = json.loads(Path("mine/card.json").read_text())
    assert card["reward"].startswith("mine.py:Mine@")
    assert (card["world"], card["frames"], "gymnasium" in card["versions"]) == ("none", 96, True)
    assert gobi_command("resume", "mine")[1] == "mine is finished: 96 frames\n"

    Path("mine.py").unlink()
    code, out, err = gobi_command("evaluate", "mine", "--episodes", "3", "--seed", "1")
    assert code == 0, err
    assert "3 new starts" in out
    (score,) = json.loads(Path("mine/evaluation-sampled-000000000096.json").read_text())["scores"]
    assert score["mean_return"] == score["mean_length"] > 5
    assert gobi_command("plot", "mine", "--out", "curves.png")[0] == 0
    code, out, err = gobi_command("compare", "mine", "--out", "page")
    assert code == 0, err
    assert card["reward"] in out
    code, _, err = gobi_command("watch", "mine")
    assert (code, "on grids only" in err, err.count("\n")) == (1, True, 1)


def trained_in(folder: Path, recipe: HostRecipe, seed: int = 0) -> run.Folder:
    place, plan = run.Folder(folder), run.Plan(recipe, (seed,))
    run.begin(place, plan)
    run.go(place, plan)
    return place


@learners
def test_vectors_of_actions_are_learned_from_with_memory(tmp_path, changes):
    recipe = recipes.recipe("gym/Pendulum-v1", reward="none", network="recurrent", **SMALL, **changes)
    rows = metrics.read(trained_in(tmp_path, recipe).metrics)
    assert np.isfinite(rows["policy_loss"]).all()
    # A Gaussian of standard deviation exp(-0.5).
    np.testing.assert_allclose(rows["entropy"], -0.5 + 0.5 * np.log(2 * np.pi * np.e), atol=0.05)


@learners
def test_runs_and_the_episodes_played_after_them_depend_on_their_seeds_alone(tmp_path, changes):
    recipe = recipes.recipe("gym/CartPole-v1", reward="none", **SMALL, **changes)
    one, other = (trained_in(tmp_path / name, recipe) for name in ("one", "other"))
    assert metrics.compare(one.metrics, other.metrics) == []
    assert metrics.compare(one.metrics, trained_in(tmp_path / "third", recipe, seed=1).metrics)

    agents = hosted.load(one.path)
    ((returns, lengths, successes),) = hosted.play(agents, 5, num_envs=2)
    ((again, *_),) = hosted.play(agents, 5, num_envs=5)
    np.testing.assert_array_equal(returns, again)
    np.testing.assert_array_equal(returns, lengths)
    assert np.isnan(successes).all()
    assert len(set(returns.tolist())) > 1
    with pytest.raises(GobiError, match="no agent of seed 7"):
        hosted.load(one.path, [7])


class Heard(Listener):
    """Keeps what it is told."""

    def __init__(self):
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def test_a_folder_in_which_another_process_trains_is_refused(tmp_path):
    recipe = recipes.recipe("gym/CartPole-v1", **SMALL, **LEARNERS["ppo"])
    folder, plan = run.Folder(tmp_path / "run"), run.Plan(recipe, (0,))
    run.begin(folder, plan)
    with alone(folder), pytest.raises(GobiError, match="run is being trained in by another process"):
        run.go(folder, plan)


def test_in_a_pipe_there_is_a_line_now_and_then(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("gobi.cli.bars.time.monotonic", lambda: now[0])
    row = {name: np.array([0.5]) for name in ("return", "success", "bonus")}
    with bars() as shown:
        for seconds in (1, 29, 31, 45, 60, 62):
            now[0] = seconds
            shown.row(seconds * 100, 10_000, row if seconds > 31 else {}, 99.6)
    assert capsys.readouterr().err.splitlines() == [
        "3,100 of 10,000 frames, 100/s",
        "6,200 of 10,000 frames, return 0.500 success 50% bonus 0.500 100/s",
    ]


def test_advice_on_the_bonus_is_given_once_after_the_first_hundred_thousand_frames(tmp_path):
    heard = Heard()
    listener = Advising(heard, run.Folder(tmp_path), 0.1)
    row = {
        "bonus": 2.0, "bonus_share": 0.5, "coefficient": 0.1, "length": 50.0, "return": 1.0, "success": 1.0,
        "episodes": 400.0,
    }  # fmt: skip
    arrays = {name: np.array([value, value]) for name, value in row.items()}
    for frames in (50_000, 99_000, 101_000, 150_000):
        listener.row(frames, 200_000, arrays, 1.0)
        assert len(heard.said) == (frames > 100_000)
    assert "an episode's bonus is 10 and a rewarded episode earns 1 (100 of 100" in heard.said[0]
    assert heard.said[0].startswith("advice: after 101,000 frames")
    assert heard.said[0].endswith("Try the coefficient 0.003 instead of 0.1, or a decay.")

    silent = Advising(heard, run.Folder(tmp_path), 0.1)
    silent.row(101_000, 200_000, {**arrays, "bonus_share": np.zeros(2)}, 1.0)
    (tmp_path / "checkpoints" / "000000120000").mkdir(parents=True)
    (tmp_path / "checkpoints" / "000000120000" / "manifest.json").touch()
    resumed = Advising(heard, run.Folder(tmp_path), 0.1)
    resumed.row(130_000, 200_000, arrays, 1.0)
    assert len(heard.said) == 1


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"return": -200.0}, "none of 97 episodes had a reward above 0"),
        ({"return": -200.0, "success": 0.5}, "none of 97 episodes had a reward above 0"),
        ({"return": -3.0, "gain": 2.0, "rewarded": 10 / 97}, "earns 19.4 (10 of 97 were rewarded)"),
        ({"return": 0.5, "success": 50 / 97}, "earns 0.97 (50 of 97 were rewarded)"),
        # One episode in 400, of four seeds: that is no reason to believe that all were rewarded.
        ({"return": 0.00236, "success": 0.0025}, "earns 0.944 (1 of 97 were rewarded)"),
        ({"return": 0.00236, "success": 0.0}, "(1 of 97 were rewarded)"),
        ({"return": 0.5}, "earns 0.5 (97 of 97 were rewarded)"),
        ({"return": 0.5, "success": np.nan}, "earns 0.5 (97 of 97 were rewarded)"),
    ],
)
def test_penalties_and_episodes_without_a_reward_are_not_taken_for_rewarded_ones(tmp_path, told, words):
    heard = Heard()
    row = {"bonus": 0.01, "bonus_share": 0.1, "coefficient": 0.01, "length": 200.0, "episodes": 97.0, **told}
    arrays = {name: np.array([value]) for name, value in row.items()}
    Advising(heard, run.Folder(tmp_path), 0.1).row(100_000, 200_000, arrays, 1.0)
    assert words in heard.said[0]


def test_advice_is_on_the_coefficient_that_was_set_and_not_on_what_its_decay_has_left(tmp_path):
    heard = Heard()
    row = {"bonus": 2.0, "bonus_share": 0.5, "coefficient": 0.1, "length": 50.0, "return": 1.0}
    arrays = {name: np.array([value]) for name, value in {**row, "success": 1.0, "episodes": 400.0}.items()}
    Advising(heard, run.Folder(tmp_path), 0.4).row(100_000, 200_000, arrays, 1.0)
    assert "an episode's bonus is 10 and" in heard.said[0]
    assert "Try the coefficient 0.01 instead of 0.4" in heard.said[0]


def test_a_bonus_is_paid_once_for_all_frames_of_an_action(tmp_path):
    heard = Heard()
    row = {"bonus": 0.01, "bonus_share": 0.1, "coefficient": 0.01, "return": 0.5, "episodes": 97.0}
    for repeat in (1, 4):
        arrays = {name: np.array([value]) for name, value in {**row, "length": 200.0 * repeat}.items()}
        Advising(heard, run.Folder(tmp_path), 0.1, repeat=repeat).row(100_000, 200_000, arrays, 1.0)
    assert heard.said[0] == heard.said[1]


def test_a_diary_tells_gains_from_what_steps_cost():
    diary, over = Diary(), np.array([False, True])
    diary.begin(1)
    for number, reward in enumerate([-1.0, -1.0, -1.0, 5.0]):
        seen, yes = np.zeros((1, 2), np.float32), np.ones(1, bool)
        done = over[[number % 2]]
        diary.add(
            Step(seen, np.zeros(1, np.int32), seen, np.array([reward], np.float32), done, ~yes, yes,
                 np.full(1, np.nan))
        )  # fmt: skip
    means = diary.means()
    assert (means["return"], means["gain"], means["rewarded"]) == (1.0, 2.5, 0.5)


def test_what_is_said_beside_the_bars_is_one_line_in_a_pipe(capsys):
    with bars() as shown:
        shown.say("many words " * 50)
    assert capsys.readouterr().err.count("\n") == 1
