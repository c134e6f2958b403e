"""Runs that are trained together are what they would be alone, whatever happens to the process."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import gobi
from gobi.errors import GobiError
from gobi.training import (
    assembly,
    beforehand,
    card,
    checkpoints,
    metrics,
    pack,
    recipes,
    run,
    sweep,
    trained,
    world_model,
)
from gobi.training.folder import Folder, Plan, Run
from gobi.training.loop import knobs, loop
from gobi.training.recipe import Recipe
from gobi.training.stopping import Stopped, Stopping
from gobi.training.trainer import Trainer
from gobi.worlds import from_settings

TASK = "MiniGrid-DoorKey-5x5-v0"
INTEGERS = ("episodes", "distinct", "length", "cells", "levels_repeated")
"""What the first rollout decides, whoever is trained beside."""


def tiny(**changes) -> Recipe:
    """Twenty updates of a few milliseconds each; a table that has to grow."""
    settings = {
        "learner": "impala",
        "reward": "count",
        "frames": 20 * 4 * 10,
        "num_envs": 4,
        "unroll": 10,
        "count_room": 16,
        "bank": 512,
        "snapshots": 2,
        "pretrain_frames": 300,
        "pretrain_epochs": 1,
    }
    return recipes.compact(recipes.recipe(TASK), **{**settings, **changes})


PLANS = {
    "plain": Plan(tiny(), (3, 4)),
    "strong": Plan(tiny(coefficient=0.5, entropy_cost=0.01, learning_rate=3e-3), (3,)),
    "fading": Plan(tiny(decay=1e-3, clip=0.0, discount=0.9), (5,)),
}


def begun(place: Path, names=tuple(PLANS)) -> list[Run]:
    runs = [(Folder(place / name), PLANS[name]) for name in names]
    for folder, plan in runs:
        run.begin(folder, plan)
    return runs


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> list[Run]:
    """Three runs of four agents in one pack that was never stopped."""
    runs = begun(tmp_path_factory.mktemp("together"))
    pack.go(runs)
    return runs


def saved(one: Run) -> list[np.ndarray]:
    """Everything that a run's last checkpoint holds."""
    folder, plan = one
    last = checkpoints.latest(folder.checkpoints)
    assert last is not None
    shapes = Trainer(plan.recipe).shapes(plan.seeds, checkpoints.facts(last)["grown"])
    leaves = jax.tree.leaves(checkpoints.load(last, shapes))
    keys = jax.dtypes.prng_key
    return [np.asarray(jax.random.key_data(x) if jax.numpy.issubdtype(x.dtype, keys) else x) for x in leaves]


def same(one: list[Run], other: list[Run]) -> None:
    """Bit for bit."""
    for a, b in zip(one, other, strict=True):
        assert metrics.compare(a[0].metrics, b[0].metrics) == []
        for x, y in zip(saved(a), saved(b), strict=True):
            np.testing.assert_array_equal(x, y)


def test_each_run_has_the_files_of_a_run_of_its_own(together):
    for folder, plan in together:
        rows = metrics.read(folder.metrics)
        assert sorted(set(rows["seed"])) == list(plan.seeds)
        assert rows["frames"].max() == plan.recipe.updates * plan.recipe.frames_per_update
        told = card.read(folder.card)
        assert told.finished
        assert told.seeds == plan.seeds
        assert told.recipe_digest == plan.recipe.digest
        assert told.beside == 4 - len(plan.seeds)
        assert len(list(folder.snapshots.glob("*.safetensors"))) == 2
        assert run.finished(folder, run.planned(folder))
        assert trained.load(folder.path).seeds == plan.seeds


def test_the_numbers_of_a_run_are_its_own(together):
    for folder, plan in together:
        rows = metrics.read(folder.metrics)
        first = rows["frames"] == rows["frames"].min()
        np.testing.assert_allclose(rows["coefficient"][first], plan.recipe.coefficient, rtol=0.05)
        np.testing.assert_allclose(rows["learning_rate"][first], plan.recipe.learning_rate, rtol=0.1)


def test_a_run_in_a_pack_does_what_it_does_alone(together, tmp_path):
    """The same whole numbers from the first rollout."""
    (alone,) = begun(tmp_path, ["strong"])
    run.go(*alone)
    packed = next(one for one in together if one[1] is alone[1])
    mine, theirs = metrics.read(alone[0].metrics), metrics.read(packed[0].metrics)
    first = mine["frames"] == mine["frames"].min()
    for column in INTEGERS:
        np.testing.assert_array_equal(mine[column][first], theirs[column][first])
    np.testing.assert_allclose(mine["bonus"][first], theirs["bonus"][first], rtol=1e-5)


def test_weights_after_some_updates_are_those_of_a_run_alone():
    """Bonus and rewards reach the weights by the agent's own numbers, and by no others'."""
    each = [tiny(coefficient=c, learning_rate=r) for c, r in ((0.01, 1e-4), (0.1, 3e-4))]
    both = Trainer(each[0], agents=each)
    progress, _ = both.advance(both.start((3, 3)))
    for place, recipe in enumerate(each):
        alone = Trainer(recipe)
        expected, _ = alone.advance(alone.start((3,)))
        for mine, theirs in zip(
            jax.tree.leaves(expected.state.policy), jax.tree.leaves(progress.state.policy), strict=True
        ):
            np.testing.assert_allclose(mine[0], theirs[place], atol=1e-5)
    first, second = jax.tree.leaves(progress.state.policy)[0]
    assert not np.array_equal(first, second)


def test_a_pack_that_was_stopped_goes_on_bit_for_bit(together, tmp_path):
    runs = begun(tmp_path)
    with pytest.raises(run.Stopped):
        pack.go(runs, _StopAfter(7))
    assert not any(run.finished(*one) for one in runs)
    pack.go(runs)
    same(together, runs)


class _StopAfter(pack.Listener):
    def __init__(self, row: int):
        self.left = row

    def row(self, frames, total, row, steps_per_second):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_pack_whose_time_is_up_is_saved_and_says_so(tmp_path):
    runs = begun(tmp_path)
    with pytest.raises(run.OutOfTime):
        pack.go(runs, stopping=Stopping(print, until=time.monotonic()))
    assert all(len(checkpoints.available(folder.checkpoints)) == 1 for folder, _ in runs)


SCRIPT = """
import sys
from pathlib import Path
from gobi.training import pack, run
folders = [run.Folder(Path(word)) for word in sys.argv[1:]]
runs = [(folder, run.planned(folder)) for folder in folders]
for one in pack.packs(one for one in runs if not run.finished(*one)):
    pack.go(one, checkpoint_seconds=0.0)
"""


def test_a_pack_that_was_killed_again_and_again_is_the_same_bit_for_bit(together, tmp_path):
    """Checkpoints are written after every row, so that kills fall between those of two runs."""
    runs = begun(tmp_path)
    kills, moments = 0, np.random.default_rng(0)
    while not all(run.finished(*one) for one in runs):
        words = [str(folder.path) for folder, _ in runs]
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, *words], stderr=subprocess.PIPE)
        reached = _rows(runs)
        while process.poll() is None and _rows(runs) < reached + 4:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.1))
        if process.poll() is None and kills < 2:
            process.send_signal(signal.SIGKILL)
            kills += 1
        _, complaint = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), complaint.decode()
    assert kills == 2
    same(together, runs)


def _rows(runs: list[Run]) -> int:
    file = runs[0][0].metrics
    return file.read_bytes().count(b"\n") if file.exists() else 0


def test_runs_that_were_left_one_checkpoint_apart_meet_at_the_one_before(together, tmp_path, monkeypatch):
    """The process dies between the checkpoints of two runs."""
    runs = begun(tmp_path)
    real, calls = checkpoints.save, []

    def dying(folder, tree, facts, keep=2):
        calls.append(folder)
        if len(calls) == 3 * len(runs) - 1:
            raise SystemError("killed")
        return real(folder, tree, facts, keep)

    monkeypatch.setattr(checkpoints, "save", dying)
    with pytest.raises(SystemError):
        pack.go(runs, checkpoint_seconds=0.0)
    monkeypatch.undo()
    newest = [checkpoints.available(folder.checkpoints)[-1].name for folder, _ in runs]
    assert newest[0] > newest[1] == newest[2]
    assert pack.packs(runs) == [runs]
    pack.go(runs)
    same(together, runs)


def test_a_run_of_a_pack_can_go_on_alone_and_is_a_pack_of_its_own_then(tmp_path):
    runs = begun(tmp_path)
    with pytest.raises(run.OutOfTime):
        pack.go(runs, stopping=Stopping(print, until=time.monotonic()))
    run.go(*runs[1], checkpoint_seconds=0.0)
    assert [run.finished(*one) for one in runs] == [False, True, False]
    assert pack.packs(runs) == [[runs[0], runs[2]], [runs[1]]]
    with pytest.raises(GobiError, match="checkpoint in common"):
        pack.go(runs)
    pack.go([runs[0], runs[2]])
    assert all(run.finished(*one) for one in runs)
    assert (
        metrics.read(runs[1][0].metrics)["frames"].max() == metrics.read(runs[0][0].metrics)["frames"].max()
    )


def test_a_damaged_checkpoint_stops_a_study_only_if_it_is_the_newest(tmp_path):
    runs = begun(tmp_path)[:2]
    for folder, plan in runs:
        for frames in (40, 80):
            facts = {"frames": frames, "grown": [], "recipe": plan.recipe.to_json(), "seeds": plan.seeds}
            checkpoints.save(folder.checkpoints, {}, facts)
    older, newest = checkpoints.available(runs[0][0].checkpoints)
    (older / checkpoints.FACTS).write_text("{}")
    assert pack.packs(runs) == [runs]
    (newest / checkpoints.FACTS).write_text("{}")
    with pytest.raises(GobiError, match=rf"{newest.name}/facts.json is truncated"):
        pack.packs(runs)


def test_runs_whose_memories_grew_otherwise_meet_where_they_had_not(tmp_path, monkeypatch):
    """Though both have a checkpoint of the later name."""
    runs = begun(tmp_path)[:2]
    early, late = (640, "[]", None), (1280, "[]", None)
    grown = (1280, "[['lifelong']]", None)
    known = {
        runs[0][0]: {early: tmp_path / "a640", late: tmp_path / "a1280"},
        runs[1][0]: {early: tmp_path / "b640", grown: tmp_path / "b1280"},
    }
    monkeypatch.setattr(pack, "_places", known.__getitem__)
    assert pack.packs(runs) == [runs]
    found = pack._Pack(runs, pack.Listener(), 1.0, Stopping(print))._find(None)
    assert [path.name for path in found if path] == ["a640", "b640"]


def test_the_world_of_a_pack_is_what_each_run_would_train_alone():
    """Whatever they differ in: so it is trained once."""
    one = tiny(reward="gobi", pretrain_frames=100)
    other = one.changed(**{name: 0.5 for name in sweep.swept(one)})
    made = [world_model.pretrain(recipe, gobi.make(TASK), lambda *_: None).network for recipe in (one, other)]
    for x, y in zip(*map(jax.tree.leaves, made), strict=True):
        np.testing.assert_array_equal(x, y)


def test_agents_of_a_pack_share_their_world_and_each_folder_has_it(tmp_path, monkeypatch):
    plans = [Plan(tiny(reward="gobi", coefficient=size), (0,)) for size in (0.01, 0.02)]
    runs = [(Folder(tmp_path / str(number)), plan) for number, plan in enumerate(plans)]
    for one in runs:
        run.begin(*one)
    made = from_settings(assembly.model_settings(plans[0].recipe), jax.random.key(0))
    monkeypatch.setattr(world_model, "pretrain", lambda *_: world_model.Pretrained(made, 300, None))
    with pytest.raises(run.OutOfTime):
        pack.go(runs, stopping=Stopping(print, until=time.monotonic()))
    assert len({beforehand.checksum(folder.path) for folder, _ in runs}) == 1
    assert {card.read(folder.card).pretraining_frames for folder, _ in runs} == {300}


def test_a_folder_that_lacks_the_world_gets_that_of_another(tmp_path):
    """A kill while it was being written into the folders, one after the other."""
    recipe = tiny(reward="gobi", world_mode="online")
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
    world_model.load_or_train(folders[1], recipe, gobi.make(TASK), lambda *_: None)
    before = beforehand.checksum(folders[1])
    assert [beforehand.checksum(folder) for folder in folders] == [None, before, None]
    beforehand.shared(folders, recipe, gobi.make(TASK), lambda *_: None)
    assert {beforehand.checksum(folder) for folder in folders} == {before}


def test_memories_of_all_runs_grow_together(together):
    grown = [checkpoints.facts(checkpoints.available(one.checkpoints)[-1])["grown"] for one, _ in together]
    assert grown[0] == grown[1] == grown[2] == [["lifelong"]] * len(grown[0])
    assert grown[0]


def test_options_of_a_reward_that_its_state_holds_are_each_runs_own():
    options = [f"size=small,beta={beta},threshold={threshold}" for beta, threshold in ((0.5, 0.5), (1, 0.25))]
    each = [tiny(reward="ec", reward_options=text) for text in options]
    assert sweep.same_program(each[0]) == sweep.same_program(each[1])
    assert sweep.same_program(each[0]) != sweep.same_program(each[0].changed(reward_options="near=4"))
    progress = Trainer(each[0], agents=each).start((3, 3))
    np.testing.assert_array_equal(progress.state.reward.beta, [0.5, 1.0])
    np.testing.assert_array_equal(progress.state.reward.threshold, [0.5, 0.25])


def test_what_needs_another_program_is_another_pack(tmp_path):
    plans = [
        Plan(tiny(), (0, 1)),
        Plan(tiny(decay=0.1), (0, 1)),
        Plan(tiny(unroll=5), (0, 1)),
        Plan(tiny(coefficient=1.0), (0, 1), deterministic=True),
        Plan(tiny(coefficient=0.0, clip=0.0), (7,)),
    ]
    runs = [(Folder(tmp_path / str(number)), plan) for number, plan in enumerate(plans)]
    first, second, shorter, strict, third = runs
    assert pack.packs(runs) == [[first, second, third], [shorter], [strict]]
    assert pack.packs([first, second, third], most=4) == [[first, second], [third]]
    assert pack.packs([first], most=1) == [[first]]
    with pytest.raises(GobiError, match="make a pack"):
        pack.go([first, shorter])


def test_a_loss_that_is_not_a_number_names_the_run(tmp_path):
    plans = {"good": 1e-3, "bad": 1e30}
    runs = [
        (Folder(tmp_path / name), Plan(tiny(reward="none", learning_rate=rate, max_grad_norm=1e30), (0,)))
        for name, rate in plans.items()
    ]
    for one in runs:
        run.begin(*one)
    with pytest.raises(GobiError, match=r"seed 0: the .* became (nan|inf) .*bad"):
        pack.go(runs)


PPO = {
    "learner": "ppo",
    "core": "mingru",
    "epochs": 2,
    "minibatches": 2,
    "values": "two",
    "scale_bonus": True,
}


@pytest.mark.parametrize(
    ("learner", "field"),
    [(name, field) for name, more in (("impala", {}), ("ppo", PPO)) for field in sweep.swept(tiny(**more))],
)
def test_what_is_swept_is_an_argument_of_the_program_and_nothing_else(learner, field):
    one = tiny(**(PPO if learner == "ppo" else {}))
    other = one.changed(**{field: 0.25})
    assert sweep.same_program(one) == sweep.same_program(other)
    env = Trainer(one).env
    assert loop(env, one) == loop(env, other)
    changed = jax.tree.map(lambda a, b: bool(a != b), knobs(one), knobs(other))
    assert sum(jax.tree.leaves(changed)) == 1


def test_every_number_that_may_be_swept_is_some_learners():
    assert {*sweep.swept(tiny()), *sweep.swept(tiny(**PPO))} == {*sweep.SWEPT}


def test_ppo_in_a_pack_and_stopped_on_the_way_ends_bit_for_bit_as_alone(tmp_path):
    plans = {"few": Plan(tiny(**PPO), (3,)), "many": Plan(tiny(**PPO, clip_ratio=0.1, extrinsic=5.0), (4,))}

    def runs(place: str) -> list[Run]:
        made = [(Folder(tmp_path / place / name), plan) for name, plan in plans.items()]
        for folder, plan in made:
            run.begin(folder, plan)
        return made

    whole, halves = runs("whole"), runs("halves")
    pack.go(whole)

    class Soon(Stopping):
        """Stops after the third row."""

        rows = 0

        def why(self) -> Stopped | None:
            self.rows += 1
            return Stopped() if self.rows == 3 else None

    with pytest.raises(Stopped):
        pack.go(halves, stopping=Soon(lambda text: None))
    pack.go(halves)
    same(whole, halves)
    rows = metrics.read(whole[0][0].metrics)
    assert (rows["bonus_scale"] > 0).all()
    assert np.isfinite(rows["kl"]).all()


def test_the_length_of_the_rates_schedule_is_swept_too():
    one, other = tiny(), tiny(schedule_frames=30_000_000)
    assert sweep.same_program(one) == sweep.same_program(other)
    changed = jax.tree.map(lambda a, b: bool(a != b), knobs(one), knobs(other))
    assert changed.frames
    assert sum(jax.tree.leaves(changed)) == 1


def test_all_else_in_a_recipe_is_not_swept():
    one = tiny()
    for field in dataclasses.fields(Recipe):
        if field.name in ("frames", "num_envs", "unroll", "bank", "steps", "hash_bits", "pretrain_frames"):
            other = one.changed(**{field.name: getattr(one, field.name) + 1})
            assert sweep.same_program(one) != sweep.same_program(other)
