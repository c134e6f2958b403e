"""`gobi reproduce` on control tasks: a small study from the state, stopped, taken up, and concluded again."""

from __future__ import annotations

import csv
import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workers_here import Here

from gobi.cli import bars, crew, packs
from gobi.errors import GobiError
from gobi.reproduce import STUDIES, timing
from gobi.reproduce.study import Study, crossed
from gobi.training import card, checkpoints, folder, metrics
from gobi.training.control import assembly, loop, recipes
from gobi.training.pack import Listener
from gobi.training.stopping import Stopped, Stopping

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


def trained(place: Path) -> dict[str, Any]:
    """What two runs of the same agent have in common: nothing that takes time."""
    return {
        name: [str(value) for value in values]
        for name, values in metrics.read(place / "metrics.csv").items()
        if "second" not in name
    }


AT_ONCE = ["reproduce", "tiny", "--seeds", "1", "--processes", "2"]


def stop_after(rows: int, monkeypatch) -> None:
    """Ctrl-C in the parent once so many rows were heard of."""
    real, heard = bars.Bars.row, []

    def row(self, *words):
        real(self, *words)
        heard.append(self.name)

    def why(self):
        self.asked = len(heard) >= rows
        return Stopped() if self.asked else None

    monkeypatch.setattr(bars.Bars, "row", row)
    monkeypatch.setattr(Stopping, "why", why)
    # A run as short as these may be over soon after.
    monkeypatch.setattr(crew, "LOOK_SECONDS", 0.005)


def test_runs_in_processes_of_their_own_learn_the_same_are_stopped_taken_up_and_concluded(
    gobi_command, monkeypatch
):
    assert gobi_command("reproduce", "tiny", "--seeds", "1", "--out", "alone")[0] == 0
    code, out, _ = gobi_command(*AT_ONCE, "--plan")
    assert "2 runs in 2 packs, 2 at once; about" in out
    assert "if none slows another down, and each is as fast as" in out
    assert not Path("reproduced").exists()

    code, out, err = gobi_command(*AT_ONCE, "--minutes", "1e-9")
    assert code == 0, err
    assert "the time is up" in out
    assert "Left: 2 runs" in out
    # Nothing is begun for which there is no time.
    assert not Path("reproduced").exists()

    with monkeypatch.context() as patch:
        stop_after(1, patch)
        code, out, _ = gobi_command(*AT_ONCE)
    assert code == 130
    assert "the same command goes on" in out
    assert all(list((PLACE / name / "checkpoints").iterdir()) for name in ("re3", "none"))

    code, out, err = gobi_command(*AT_ONCE)
    assert code == 0, err
    assert "cartpole_balance/re3: finished after" in err
    for name in ("re3", "none"):
        assert trained(PLACE / name) == trained(Path("alone/cartpole_balance") / name)
        assert (PLACE / name / "curves.png").is_file()
        assert json.loads((PLACE / name / "card.json").read_text())["finished"]
    assert Path("reproduced/tiny/figure.png").is_file()
    # The command is the parent's.
    assert json.loads((PLACE / "re3" / "card.json").read_text())["command"] == card.command_line()


def test_a_folder_in_which_somebody_trains_does_not_keep_the_others_from_training(gobi_command, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(1, patch)
        assert gobi_command(*AT_ONCE, "--arms", "re3")[0] == 130
    with folder.alone(folder.Folder(PLACE / "re3")):
        code, _, err = gobi_command(*AT_ONCE)
    assert code == 1
    assert f"cartpole_balance/re3: error: {PLACE / 're3'} is being trained in by another process" in err
    assert "the same command tries again" in err.splitlines()[-1]
    assert json.loads((PLACE / "none" / "card.json").read_text())["finished"]


def test_nor_do_a_folder_that_cannot_be_begun_and_curves_that_cannot_be_drawn(gobi_command, monkeypatch):
    def undrawn(place):
        raise GobiError("no ink")

    monkeypatch.setattr(packs, "draw_curves", undrawn)
    (PLACE / "re3").mkdir(parents=True)
    (PLACE / "re3" / "notes.txt").touch()
    code, out, err = gobi_command(*AT_ONCE)
    assert code == 1
    assert f"cartpole_balance/re3: error: the output folder {PLACE / 're3'} is already in use" in err
    assert f"no curves of {PLACE / 'none'}: no ink" in out
    assert json.loads((PLACE / "none" / "card.json").read_text())["finished"]


def long_run(name: str) -> folder.Folder:
    """One that would take hours."""
    place = folder.Folder(Path(name))
    given = {**TINY, "frames": 10**8, "reward": "none"}
    folder.begin(place, folder.Plan(recipes.recipe(TASK, **given), (0,)))
    return place


class Ear(Listener):
    """Does something when it first hears of a row."""

    def __init__(self, does: Callable[[], None]):
        self.does, self.heard = does, False

    def row(self, frames, total, row, steps_per_second):
        if not self.heard:
            self.does()
        self.heard = True


def test_a_run_whose_parent_is_killed_saves_itself_and_ends(gobi_command):
    place = long_run("long")
    child = crew.Child(place)
    while pickle.load(child._process.stdout)[0] != "row":
        pass
    # Nobody hears it any more, and only then its input ends: what it tells meanwhile must not break it.
    child._process.stdout.close()
    first = rows = len(metrics.read(place.metrics)["frames"])
    while rows < first + 2:
        assert child._process.poll() is None
        time.sleep(0.05)
        rows = len(metrics.read(place.metrics)["frames"])
    child.stop()
    try:
        assert child._process.wait(120) == 0
    finally:
        child.kill()
    saved = checkpoints.available(place.checkpoints)[-1]
    assert 600 * rows <= int(saved.name) < 10**8


def test_a_run_that_is_killed_is_told_of(gobi_command):
    team = crew.Crew(2, Stopping(lambda _: None))
    ear = Ear(lambda: next(iter(team._working)).kill())
    ((_, ended),) = team.train([long_run("long")], lambda _: ear)
    assert ear.heard
    assert ended.trouble == "its process was killed by signal 9; if memory ran out, take fewer --processes"


def test_an_error_in_the_parent_saves_the_runs_beside_the_one_that_it_is_of(gobi_command):
    def fail():
        while not other.heard:
            time.sleep(0.05)
        raise ValueError("nobody listens")

    ears = {long_run("one"): Ear(fail), long_run("other"): (other := Ear(lambda: None))}
    team = crew.Crew(2, Stopping(lambda _: None))
    with pytest.raises(ValueError, match="nobody listens"):
        list(team.train(list(ears), ears.get))
    assert not team._working
    for place in ears:
        assert checkpoints.available(place.checkpoints)


class Broken:
    """A crew of which one run breaks, and for the other there is no time."""

    def __init__(self, at_once, stopping):
        pass

    def train(self, runs, begin):
        one, other = runs
        yield one, crew.Ended(trouble="lost")
        yield other, crew.Ended()


def test_a_run_that_broke_is_told_of_also_when_the_time_is_up(tmp_path, monkeypatch):
    monkeypatch.setattr(packs, "Crew", Broken)
    plan = folder.Plan(recipes.recipe(TASK, **TINY), (0,))
    runs = [(folder.Folder(tmp_path / name), plan) for name in ("one", "other")]
    with pytest.raises(GobiError, match="one: lost; the time is up, 1 run left to train: the same command"):
        packs.train_at_once(runs, 2)


def test_a_child_that_is_killed_in_the_middle_of_a_message_was_killed(monkeypatch):
    half = pickle.dumps(("say", ("a message",)))[:12]
    code = f"import os; os.write(1, {half!r}); os.kill(os.getpid(), 9)"
    monkeypatch.setattr(crew, "_SERVE", code)
    child = crew.Child(folder.Folder(Path("anywhere")))
    assert "killed by signal 9" in child.listen(Listener()).trouble
    child.close()


def test_where_nothing_is_known_of_the_time_only_that_is_said(gobi_command):
    words = ["--set", "precision=bfloat16", "--tasks", "pendulum_swingup", "--arms", "re3", "none"]
    code, out, err = gobi_command("reproduce", "dmc", *words, "--processes", "2", "--plan")
    assert code == 0, err
    assert "2 at once; how long is not known: nothing like it has been trained" in " ".join(out.split())


def test_grids_have_no_processes_of_their_own(gobi_command):
    code, _, err = gobi_command("reproduce", "decay", "--processes", "2")
    assert (code, err.count("\n")) == (1, 1)
    assert "--processes is for studies on control tasks" in err


def test_frames_that_are_given_twice_are_refused(gobi_command):
    words = ["--frames", "4000", "--set", "frames=5000", "--tasks", "pendulum_swingup"]
    code, _, err = gobi_command("reproduce", "dmc", "--plan", *words)
    assert (code, err.count("\n")) == (1, 1)
    assert "frames is given twice: --set frames=5000 and --frames 4000" in err


@pytest.mark.parametrize("study", ["dmc", "dmc-search"])
def test_from_the_state_every_run_has_the_reward_of_its_arm(gobi_command, study):
    """A recipe from the state has one of its own, where a search names only what it varies."""
    code, out, _ = gobi_command("reproduce", study, "--set", "observations=state", "--plan", "--seeds", "1")
    assert code == 0
    rows = [line for line in out.splitlines() if line.endswith(tuple(f"pack {n}" for n in range(1, 30)))]
    assert len(rows) == len(STUDIES[study].arms)
    for row, arm in zip(rows, STUDIES[study].arms, strict=True):
        assert f"reward={arm.reward}," in row
