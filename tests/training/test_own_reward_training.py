"""`gobi train --reward FILE.py:CLASS` on a grid: a reward defined here, from training to comparison."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gobi.training import metrics, pack, run, trained

TINY = [
    "--set", "num_envs=4", "--set", "unroll=5", "--set", "bank=512", "--set", "snapshots=0", "--frames", "40",
]  # fmt: skip

TURNER = """
class Turner:
    \"\"\"Pays for turning left, which is action 0.\"\"\"

    def __init__(self, size: float = 1.0):
        self.size = size

    def init(self, key, spec, num_envs):
        return self.size

    def step(self, state, transition):
        return state, state * (transition.action == 0)
"""


@pytest.fixture
def train(gobi_command):
    """Trains with a reward of that text, in an empty folder."""

    def one(text: str, *words: str, out: str = "mine") -> tuple[int, str, str]:
        Path("turner.py").write_text(text)
        return gobi_command(
            "train", "DoorKey-5x5", "--reward", "turner.py:Turner", "--out", out, *TINY, *words
        )

    return one


def test_a_reward_of_one_s_own_is_trained_with_and_shown_by_card_and_comparison(train, gobi_command):
    code, out, err = train(TURNER, "--set", "coefficient=0.5", "--set", "reward_options=size=4")
    assert code == 0, err
    assert "reward turner.py:Turner@" in out
    recipe, card = (json.loads(Path(f"mine/{name}.json").read_text()) for name in ("recipe", "card"))
    assert card["reward"] == recipe["reward"]
    assert recipe["reward"].startswith("turner.py:Turner@")
    assert (recipe["coefficient"], recipe["decay"]) == (0.5, 0.0)
    rows = metrics.read(Path("mine/metrics.csv"))
    # Before anything is learned, one of seven actions, times four.
    assert 0 < rows["bonus"].mean() < 2
    np.testing.assert_allclose(rows["coefficient"], 0.5)

    assert train(TURNER, "--set", "coefficient=0.25", out="other")[0] == 0
    # Whoever looks at a run need not have the file any more.
    Path("turner.py").unlink()
    assert trained.load(Path("mine")).recipe.reward == recipe["reward"]
    code, out, err = gobi_command("compare", "mine", "other", "--out", "page")
    assert code == 0, err
    assert recipe["reward"] in out
    assert "coefficient=0.25" in out
    assert recipe["reward"] in Path("page/comparison.html").read_text()


def test_a_run_is_taken_up_again_with_the_same_file_only(train, gobi_command, monkeypatch):
    log = pack._Pack._log

    def interrupted(self, row, took):
        log(self, row, took)
        self.stopping.asked = True

    monkeypatch.setattr(pack._Pack, "_log", interrupted)
    assert train(TURNER)[0] == 130
    monkeypatch.setattr(pack._Pack, "_log", log)

    file = Path("turner.py")
    file.write_text(TURNER.replace("== 0", "== 1"))
    code, _, err = gobi_command("resume", "mine")
    assert (code, err.count("\n")) == (1, 1)
    assert "turner.py has changed since the run was started" in err

    file.unlink()
    code, _, err = gobi_command("resume", "mine")
    assert (code, err.count("\n")) == (1, 1)
    assert "the file of the reward turner.py:Turner@" in err
    assert "is missing" in err

    file.write_text(TURNER)
    assert gobi_command("resume", "mine")[0] == 0
    assert run.finished(run.Folder(Path("mine")), run.planned(run.Folder(Path("mine"))))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TURNER.replace("state * (transition.action == 0)", "0.0"), "the bonus must have shape [2]"),
        (TURNER.replace("transition.action", "transition.actions"), "fails at its first steps: AttributeErr"),
        (TURNER.replace("def step", "def stepp"), "has no method step(state, transition)"),
        (TURNER.replace("class Turner", "class Turned"), "did you mean Turned"),
        (
            TURNER.replace("class Turner:", 'class Turner:\n    reads = ("panoramas",)'),
            "did you mean panorama",
        ),
    ],
)
def test_a_mistake_gets_one_line_before_anything_is_written(train, text, told):
    code, _, err = train(text)
    assert (code, err.count("\n")) == (1, 1)
    assert told in err
    assert not Path("mine").exists()


def test_a_bonus_that_is_not_a_number_stops_the_run(train):
    code, _, err = train(TURNER, "--set", "reward_options=size=nan")
    assert (code, err.count("\n")) == (1, 1)
    assert "became nan before frame 20" in err
