"""The agents of a run: found, told apart by their seeds, and refused where there are none."""

from __future__ import annotations

import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import EMPTY, add_checkpoint, add_snapshot, made_run, policies

from gobi.envs.minigrid import Queue
from gobi.errors import GobiError
from gobi.training import run, trained


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = made_run(tmp_path_factory.mktemp("runs") / "three", seeds=(5, 6, 7), frames=100)
    add_checkpoint(path, 300)
    add_snapshot(path, 100)
    add_snapshot(path, 50)
    return path


@pytest.fixture
def copied(folder, tmp_path) -> Path:
    """A run of one's own, to break."""
    return Path(shutil.copytree(folder, tmp_path / "run"))


def same(one, other) -> bool:
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, one, other)))


def row(tree, number: int):
    return jax.tree.map(lambda part: part[number], tree)


def test_the_newest_checkpoint_gives_the_agents_of_all_seeds(folder):
    agents = trained.load(folder)
    assert (agents.seeds, agents.frames, agents.env.spec.id) == ((5, 6, 7), 300, EMPTY)
    assert same(agents.policy, policies(folder, 300))
    assert same(agents.actor(6), row(policies(folder, 300), 1))


def test_an_earlier_checkpoint_is_found_by_its_name(folder):
    agents = trained.load(folder, checkpoint="000000000100")
    assert agents.frames == 100
    assert same(agents.policy, policies(folder, 100))


def test_single_seeds_can_be_chosen_and_are_looked_at_on_the_same_levels(folder):
    everything = policies(folder, 300)
    one, two = trained.load(folder, seed=6), trained.load(folder, seed=(7, 5))
    assert same(row(one.policy, 0), row(everything, 1))
    assert two.seeds == (7, 5)
    assert same(row(two.policy, 0), row(everything, 2))
    assert same(two.actor(5), row(everything, 0))
    assert one.level_seed == two.level_seed == trained.load(folder).level_seed


def test_agents_act_in_the_precision_that_they_were_trained_with(tmp_path):
    agents = trained.load(made_run(tmp_path / "run", precision="bfloat16"))
    assert {leaf.dtype for leaf in jax.tree.leaves(agents.policy)} == {jnp.dtype("float32")}
    assert {leaf.dtype for leaf in jax.tree.leaves(agents.actor(0))} == {jnp.dtype("bfloat16")}


def test_a_checkpoint_brings_its_own_recipe(copied):
    file = run.Folder(copied).recipe
    file.write_text(file.read_text().replace("Empty-5x5", "Empty-8x8"))
    assert trained.load(copied).env.spec.id == EMPTY


def test_other_parts_of_the_checkpoint_can_be_read_for_one_seed(folder):
    like = Queue(*[jnp.int32(0)] * 4)
    assert int(trained.part(trained.load(folder), 6, ".state.lanes.queue", like).taken) == 6


def test_snapshots_are_the_first_seeds_policy_oldest_first(folder):
    found = trained.snapshots(folder)
    assert [path.stem for path in found] == ["000000000050", "000000000100"]
    agent = trained.load_snapshot(folder, found[0])
    assert (agent.seeds, agent.frames) == ((5,), 50)
    assert same(agent.actor(5), row(policies(folder, 50), 0))
    assert agent.level_seed == trained.load(folder).level_seed


def test_a_snapshot_that_was_not_written_to_its_end_is_left_out(copied):
    (copied / "snapshots" / "000000000100.json").unlink()
    assert [path.stem for path in trained.snapshots(copied)] == ["000000000050"]


@given(first=st.integers(0, 2**31 - 1), count=st.integers(1, 20))
def test_the_levels_to_look_at_are_never_those_of_a_training_seed(first, count):
    seeds = tuple(seed % 2**31 for seed in range(first, first + count))
    number = trained.new_levels(seeds)
    assert 0 <= number < 2**31
    assert number not in seeds
    assert trained.new_levels((*seeds, number)) not in (*seeds, number)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    for call in (trained.load, trained.snapshots):
        with pytest.raises(GobiError, match=r"nowhere is not the folder of a run: it has no recipe\.json"):
            call(tmp_path / "nowhere")


def test_a_run_before_its_first_checkpoint_is_refused(copied):
    shutil.rmtree(copied / "checkpoints")
    with pytest.raises(GobiError, match=r"has no checkpoint yet.*gobi resume"):
        trained.load(copied)


def test_a_seed_that_the_run_does_not_have_is_refused_with_those_it_has(folder):
    with pytest.raises(GobiError, match="no agent of seed 8 in this run: it has 5, 6, 7"):
        trained.load(folder, seed=8)
    with pytest.raises(GobiError, match="no agent of seed 8"):
        trained.load(folder).actor(8)


def test_a_damaged_checkpoint_is_refused_and_the_one_before_offered(copied):
    arrays = copied / "checkpoints" / "000000000300" / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(GobiError, match=r"truncated.*--checkpoint 000000000100"):
        trained.load(copied)
