"""`gobi reproduce` on control tasks: a small study from the state, stopped, taken up, and concluded again."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workers_here import Here

from gobi.reproduce import STUDIES, timing
from gobi.reproduce.study import Study, crossed
from gobi.training import metrics
from gobi.training.control import assembly, loop
from gobi.training.stopping import Stopping

TASK = "dmc/cartpole_balance"
PLACE = Path("reproduced/tiny/cartpole_balance")
TINY: dict[str, Any] = {
    "observations": "state",
    # An episode of 1000 environment steps is one of 50 agent steps then.
    "action_repeat": 20,
    "frames": 1200,
    "evaluate_every": 600,
    "evaluation_episodes": 1,
    "random_steps": 20,
    "batch": 8,
    "hidden": 16,
    "capacity": 100,
}


@pytest.fixture(autouse=True)
def tiny_study(monkeypatch):
    """Two runs of two seeds each, in this process."""
    arms = {name: {"reward": name, **TINY} for name in ("re3", "none")}
    monkeypatch.setitem(STUDIES, "tiny", Study("RE3 and nothing", "", crossed([TASK], arms), seeds=2))
    monkeypatch.setattr(assembly, "Worker", Here)


def after(steps: int, happens: Callable[[Stopping], None], monkeypatch) -> None:
    """Something happens after so many agent steps."""
    real, left = loop._Run._step, [steps]

    def step(self):
        real(self)
        left[0] -= 1
        if left[0] == 0:
            happens(self.stopping)

    monkeypatch.setattr(loop._Run, "_step", step)


def ctrl_c(stopping: Stopping) -> None:
    stopping.asked = True


def time_is_up(stopping: Stopping) -> None:
    stopping.until = 0.0


def test_a_study_is_planned_trained_interrupted_taken_up_and_concluded(gobi_command, monkeypatch):
    code, out, _ = gobi_command("reproduce", "tiny", "--plan")
    assert code == 0
    assert "cartpole_balance/re3" in out
    assert "2 runs in 2 packs" in out
    assert "as fast as on two CPU cores" in out
    assert not Path("reproduced").exists()

    with monkeypatch.context() as patch:
        # In the middle of the first run.
        after(35, ctrl_c, patch)
        code, out, _ = gobi_command("reproduce", "tiny")
    assert code == 130
    assert "the same command goes on" in out
    assert [path.name for path in PLACE.iterdir()] == ["re3"]
    assert not json.loads((PLACE / "re3" / "card.json").read_text())["finished"]

    with monkeypatch.context() as patch:
        after(10, time_is_up, patch)
        code, out, err = gobi_command("reproduce", "tiny", "--minutes", "60", "--arms", "re3")
    assert code == 0, err
    assert "the time is up" in out
    assert "Left: 1 run (cartpole_balance/re3)" in out

    code, out, err = gobi_command("reproduce", "tiny")
    assert code == 0, err
    for name in ("re3", "none"):
        rows = metrics.read(PLACE / name / "metrics.csv")
        assert rows["frames"].tolist() == [600, 600, 1200, 1200]
        assert rows["seed"].tolist() == [0, 1, 0, 1]
        assert (PLACE / name / "curves.png").is_file()
        assert json.loads((PLACE / name / "card.json").read_text())["finished"]
    assert "The paper claims nothing here" in out
    with Path("reproduced/tiny/table.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(row["task"], row["arm"], row["seeds"]) for row in table] == [
        ("cartpole_balance", "re3", "2"),
        ("cartpole_balance", "none", "2"),
    ]
    assert [row["at 50k"] for row in table] == ["-", "-"]
    assert all(float(row["area"].split()[0]) > 0 for row in table)
    written = {path.name for path in Path("reproduced/tiny").iterdir()}
    assert {"figure.png", "table.csv", "summary.md", "comparison"} <= written
    page = Path("reproduced/tiny/comparison/comparison.html").read_text()
    assert "thousand frames" in page
    assert "success" not in Path("reproduced/tiny/comparison/comparison.csv").read_text()

    code, out, _ = gobi_command("reproduce", "tiny", "--plan")
    assert out.count("finished before") == 2
    assert "done" in next(
        line for line in gobi_command("reproduce", "--list")[1].splitlines() if line.startswith("tiny")
    )
    # Two rows would tell too little of a pace.
    monkeypatch.setattr(timing, "FEWEST_ROWS", 2)
    code, out, _ = gobi_command("reproduce", "tiny", "--plan", "--seed", "2", "--out", "reproduced")
    assert "as fast as earlier runs on this device" in out

    code, _, err = gobi_command("reproduce", "tiny", "--frames", "1800")
    assert code == 1
    assert "holds another run (frames: 1200 -> 1800)" in err

    code, out, err = gobi_command("reproduce", "tiny", "--from", "reproduced", "--out", "again")
    assert code == 0, err
    assert Path("again/kept/table.csv").read_text() == Path("reproduced/tiny/table.csv").read_text()
    assert Path("again/kept/figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_that_breaks_does_not_keep_the_others_from_training(gobi_command, monkeypatch):
    real = loop._Run._told

    def broken(self):
        if self.recipe.reward == "re3":
            self.record.check([{"bonus": float("nan")} for _ in self.seeds])
        return real(self)

    monkeypatch.setattr(loop._Run, "_told", broken)
    code, _, err = gobi_command("reproduce", "tiny", "--seeds", "1")
    assert code == 1
    assert "cartpole_balance/re3" in err
    assert "--arms" in err
    assert json.loads((PLACE / "none" / "card.json").read_text())["finished"]


@pytest.mark.parametrize("study", ["dmc", "dmc-search"])
def test_from_the_state_every_run_has_the_reward_of_its_arm(gobi_command, study):
    """A recipe from the state has one of its own, where a search names only what it varies."""
    code, out, _ = gobi_command("reproduce", study, "--set", "observations=state", "--plan", "--seeds", "1")
    assert code == 0
    rows = [line for line in out.splitlines() if line.endswith(tuple(f"pack {n}" for n in range(1, 30)))]
    assert len(rows) == len(STUDIES[study].arms)
    for row, arm in zip(rows, STUDIES[study].arms, strict=True):
        assert f"reward={arm.reward}," in row
