"""A run is one and the same whether it is stopped or not, and what goes wrong is told."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from gobi.errors import GobiError
from gobi.memory import table
from gobi.training import checkpoints, metrics, recipes, run
from gobi.training.folder import alone
from gobi.training.recipe import Recipe
from gobi.training.trainer import Trainer

TASK = "MiniGrid-DoorKey-5x5-v0"


def tiny(**changes) -> Recipe:
    """Two dozen updates, with a world model that is learned while training."""
    settings = {
        "frames": 24 * 8 * 10,
        "num_envs": 8,
        "unroll": 10,
        "world_mode": "finetuned",
        "pretrain_frames": 500,
        "pretrain_epochs": 1,
        "count_room": 32,
        "bank": 512,
        "snapshots": 2,
    }
    return recipes.compact(recipes.recipe(TASK), **{**settings, **changes})


def weights(folder: run.Folder, plan: run.Plan) -> list[np.ndarray]:
    """Everything that the last checkpoint holds."""
    last = checkpoints.latest(folder.checkpoints)
    assert last is not None
    trainer = Trainer(plan.recipe, _network(folder, plan))
    shapes = trainer.shapes(plan.seeds, checkpoints.facts(last)["grown"])
    tree = checkpoints.load(last, shapes)
    return [np.asarray(jax.random.key_data(x) if _is_key(x) else x) for x in jax.tree.leaves(tree)]


def _is_key(leaf) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _network(folder: run.Folder, plan: run.Plan):
    from gobi.training import world_model

    if not world_model.needed(plan.recipe):
        return None
    import gobi

    return world_model.load_or_train(folder.path, plan.recipe, gobi.make(TASK), lambda *_: None).network


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[run.Folder, run.Plan]:
    """A run of two seeds that was never stopped."""
    folder = run.Folder(tmp_path_factory.mktemp("runs") / "whole")
    plan = run.Plan(tiny(coefficient=0.01), (3, 4))
    run.begin(folder, plan)
    # On a busy machine it may take longer than the time between two checkpoints; there shall be one.
    run.go(folder, plan, checkpoint_seconds=math.inf)
    return folder, plan


class StopAfter(run.Listener):
    """Sends a signal to its own process when a row was written."""

    def __init__(self, row: int, number: int = signal.SIGTERM):
        self.left, self.number = row, number

    def row(self, frames, total, row, steps_per_second):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


def same(one: run.Folder, other: run.Folder, plan: run.Plan) -> None:
    assert metrics.compare(one.metrics, other.metrics) == []
    for a, b in zip(weights(one, plan), weights(other, plan), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_run_writes_what_it_promises(whole):
    folder, plan = whole
    rows = metrics.read(folder.metrics)
    assert sorted(set(rows["seed"])) == [3, 4]
    assert rows["frames"].max() == plan.recipe.updates * plan.recipe.frames_per_update
    card = json.loads(folder.card.read_text())
    assert card["finished"]
    assert (card["privileged"], card["peeks"]) == (["panorama"], 3 * card["frames"])
    assert json.loads(folder.recipe.read_text())["task"] == TASK
    assert len(list(folder.snapshots.glob("*.safetensors"))) == 2
    assert 1 <= len(checkpoints.available(folder.checkpoints)) <= 2
    assert (folder.path / "world_report.json").is_file()
    assert run.finished(folder, plan)


def test_the_table_grew_and_nothing_was_dropped_after_it_had(whole):
    folder, _ = whole
    facts = checkpoints.facts(checkpoints.latest(folder.checkpoints))
    assert ["lifelong"] in facts["grown"]
    rows = metrics.read(folder.metrics)
    late = rows["frames"] > 1600
    assert rows["dropped"][late].max() == rows["dropped"][late].min()


def test_a_run_whose_memory_is_as_large_as_it_may_be_goes_on_and_says_so_once(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "growth", lambda buckets: 1)
    said = []
    listener = run.Listener()
    monkeypatch.setattr(listener, "say", said.append)
    folder, plan = run.Folder(tmp_path / "full"), run.Plan(tiny(reward="count", count_room=8), (0, 1))
    run.begin(folder, plan)
    run.go(folder, plan, listener)
    assert run.finished(folder, plan)
    assert len(said) == 1
    assert "as large as it may be" in said[0]
    assert metrics.read(folder.metrics)["dropped"].max() > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_was_stopped_and_resumed_is_the_same_bit_for_bit(whole, tmp_path, number):
    reference, plan = whole
    folder = run.Folder(tmp_path / "stopped")
    run.begin(folder, plan)
    with pytest.raises(run.Stopped):
        run.go(folder, plan, StopAfter(7, number))
    assert not run.finished(folder, plan)
    run.go(folder, run.planned(folder))
    same(reference, folder, plan)


def test_a_stopped_run_goes_on_imitating_what_it_has_kept(tmp_path):
    short = {"frames": 12 * 8 * 20, "num_envs": 8, "unroll": 20, "bank": 256, "count_room": 1024}
    plan = run.Plan(recipes.compact(recipes.recipe("MiniGrid-Empty-5x5-v0", reward="count"), **short), (0,))
    reference, folder = run.Folder(tmp_path / "whole"), run.Folder(tmp_path / "stopped")
    for place in (reference, folder):
        run.begin(place, plan)
    run.go(reference, plan)
    with pytest.raises(run.Stopped):
        run.go(folder, plan, StopAfter(6))
    advantage = metrics.read(folder.metrics)["imitation_advantage"]
    assert advantage[:6].max() > 0
    run.go(folder, run.planned(folder))
    assert metrics.compare(reference.metrics, folder.metrics) == []


def test_a_seed_alone_writes_the_rows_that_it_has_beside_another(whole, tmp_path):
    reference, plan = whole
    alone = run.Plan(plan.recipe, plan.seeds[1:])
    folder = run.Folder(tmp_path / "alone")
    run.begin(folder, alone)
    run.go(folder, alone)
    both, one = metrics.read(reference.metrics), metrics.read(folder.metrics)
    mine = both["seed"] == plan.seeds[1]
    first = one["frames"] == one["frames"].min()
    for name in ("episodes", "growth", "distinct", "cells"):
        np.testing.assert_allclose(both[name][mine][: first.sum()], one[name][first], rtol=1e-5)


SCRIPT = """
import sys
from pathlib import Path
from gobi.training import run
folder = run.Folder(Path(sys.argv[1]))
run.go(folder, run.planned(folder), checkpoint_seconds=0.0)
"""


def test_a_run_that_was_killed_again_and_again_is_the_same_bit_for_bit(whole, tmp_path):
    """Checkpoints are written after every row, so that many of the kills fall into the writing of one."""
    reference, plan = whole
    folder = run.Folder(tmp_path / "killed")
    run.begin(folder, plan)
    shutil.copy(reference.path / "world.safetensors", folder.path)
    shutil.copy(reference.path / "world.json", folder.path)
    kills, moments = 0, np.random.default_rng(0)
    while not run.finished(folder, plan):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder.path)], stderr=subprocess.PIPE)
        reached = _rows(folder)
        while process.poll() is None and _rows(folder) < reached + 8:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.05))
        if process.poll() is None and kills < 3:
            process.send_signal(signal.SIGKILL)
            kills += 1
        _, complaint = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), complaint.decode()
    assert kills == 3
    same(reference, folder, plan)


def _rows(folder: run.Folder) -> int:
    return folder.metrics.read_bytes().count(b"\n") if folder.metrics.exists() else 0


def test_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "something").write_text("mine")
    with pytest.raises(GobiError, match="already in use"):
        run.begin(run.Folder(tmp_path), run.Plan(tiny(), (0,)))


def test_a_folder_in_which_another_process_trains_is_refused(whole):
    """As when `gobi resume` is said in a second window."""
    folder, plan = whole
    with alone(folder), pytest.raises(GobiError, match="whole is being trained in by another process"):
        run.go(folder, plan)
    with alone(folder):
        pass


def test_a_changed_recipe_is_refused_with_the_difference(whole, tmp_path):
    reference, plan = whole
    folder = run.Folder(tmp_path / "changed")
    shutil.copytree(reference.path, folder.path)
    folder.recipe.write_text(plan.recipe.changed(coefficient=0.02).to_json())
    with pytest.raises(GobiError, match=re.escape("coefficient: 0.01 -> 0.02")):
        run.go(folder, run.planned(folder))


def test_an_altered_checkpoint_is_refused(whole, tmp_path):
    reference, _ = whole
    folder = run.Folder(tmp_path / "altered")
    shutil.copytree(reference.path, folder.path)
    arrays = next(folder.checkpoints.glob("*/arrays.safetensors"))
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1
    arrays.write_bytes(content)
    with pytest.raises(GobiError, match="altered"):
        run.go(folder, run.planned(folder))


def test_going_back_to_an_altered_checkpoint_leaves_the_newer_one(whole, tmp_path):
    reference, _ = whole
    folder = run.Folder(tmp_path / "altered")
    shutil.copytree(reference.path, folder.path)
    (older,) = checkpoints.available(folder.checkpoints)
    newer = shutil.copytree(older, folder.checkpoints / "000000999999")
    arrays = older / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(GobiError, match="truncated"):
        run.go(folder, run.planned(folder), checkpoint=older.name)
    assert checkpoints.available(folder.checkpoints) == [older, newer]


def test_what_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(GobiError, match="not the folder of a run"):
        run.planned(run.Folder(tmp_path))


def test_a_loss_that_is_not_a_number_stops_the_run_and_is_named(tmp_path):
    folder = run.Folder(tmp_path / "nan")
    plan = run.Plan(tiny(reward="none", learning_rate=1e30, max_grad_norm=1e30), (0,))
    run.begin(folder, plan)
    with pytest.raises(GobiError, match=r"seed 0: the .* became (nan|inf)"):
        run.go(folder, plan, checkpoint_seconds=0.0)
    assert all(np.isfinite(metrics.read(folder.metrics)["policy_loss"]))


def test_a_full_disk_stops_the_run_with_the_checkpoint_before_it_intact(tmp_path, monkeypatch):
    folder = run.Folder(tmp_path / "full")
    plan = run.Plan(tiny(reward="none"), (0,))
    run.begin(folder, plan)
    real, calls = checkpoints.write_synced, []

    def full(path: Path, content: bytes) -> None:
        calls.append(path)
        if len(calls) > 4:
            raise OSError(28, "No space left on device", str(path))
        real(path, content)

    monkeypatch.setattr(checkpoints, "write_synced", full)
    with pytest.raises(GobiError, match="the disk is full"):
        run.go(folder, plan, checkpoint_seconds=0.0)
    monkeypatch.undo()
    assert checkpoints.latest(folder.checkpoints) is not None
    run.go(folder, plan)
    assert run.finished(folder, plan)
