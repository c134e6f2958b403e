"""Damaged files of a run on a control task: what is told, and that nothing else is lost with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from workers_here import After, Here

from gobi.errors import GobiError
from gobi.training import checkpoints, run
from gobi.training.control import assembly, loop, recipes
from gobi.training.stopping import Stopped

SEED = 3


@pytest.fixture(autouse=True, scope="module")
def _in_this_process():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "Worker", Here)
        yield


@pytest.fixture(scope="module")
def plan() -> run.Plan:
    recipe = recipes.recipe(
        "dmc/cartpole_balance", observations="state", reward="none", action_repeat=20, frames=800,
        evaluate_every=800, evaluation_episodes=1, random_steps=40, batch=4, hidden=8, capacity=16,
    )  # fmt: skip
    return run.Plan(recipe, (SEED,))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, plan) -> run.Folder:
    """A run with two checkpoints."""
    folder = run.Folder(tmp_path_factory.mktemp("stopped") / "run")
    run.begin(folder, plan)
    for _ in range(2):
        with pytest.raises(Stopped):
            loop.go(folder, plan, stopping=After(12))
    return folder


@pytest.fixture
def folder(stopped, tmp_path) -> run.Folder:
    """A copy to do damage in."""
    return run.Folder(Path(shutil.copytree(stopped.path, tmp_path / "run")))


def pieces(folder: run.Folder, checkpoint: Path) -> list[Path]:
    """The files of frames that a checkpoint needs."""
    needed = checkpoints.facts(checkpoint)["replay"][0]
    return [folder.replay / f"seed-{SEED}" / piece["name"] for piece in needed]


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damaged", ["arrays", "frames"])
def test_going_back_to_a_damaged_checkpoint_leaves_the_newer_one(folder, plan, damaged):
    older, newer = checkpoints.available(folder.checkpoints)
    alter(older / "arrays.safetensors" if damaged == "arrays" else pieces(folder, older)[0])
    with pytest.raises(GobiError, match="is altered"):
        loop.go(folder, plan, checkpoint=older.name)
    assert checkpoints.available(folder.checkpoints) == [older, newer]
    if damaged == "arrays":
        loop.go(folder, plan)
        assert run.finished(folder, plan)


def test_where_frames_are_altered_the_checkpoint_before_is_offered_and_works(folder, plan):
    older, newer = checkpoints.available(folder.checkpoints)
    alter(next(path for path in pieces(folder, newer) if path not in pieces(folder, older)))
    with pytest.raises(GobiError, match=f"altered.*; gobi resume .* --checkpoint {older.name} goes on from"):
        loop.go(folder, plan)
    loop.go(folder, plan, checkpoint=older.name)
    assert run.finished(folder, plan)


def test_a_checkpoint_that_needs_the_same_altered_frames_is_not_offered(folder, plan):
    older, newer = checkpoints.available(folder.checkpoints)
    alter(next(path for path in pieces(folder, newer) if path in pieces(folder, older)))
    with pytest.raises(GobiError, match=f"is altered.*; the checkpoint before, .*{older.name}, needs it too"):
        loop.go(folder, plan)
