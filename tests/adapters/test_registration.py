"""Gymnasium finds our tasks by name."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from gobi.adapters import registration
from gobi.adapters.single import Plain
from gobi.adapters.vector import Vector
from gobi.envs.minigrid.registry import TASKS

gymnasium = pytest.importorskip("gymnasium")
env_checker = pytest.importorskip("gymnasium.utils.env_checker")

TASK = "gobi/MiniGrid-MultiRoom-N2-S4-v0"


def test_all_tasks_are_registered():
    names = [name for name in gymnasium.registry if name.startswith("gobi/")]
    assert sorted(names) == sorted(registration.registered_name(task) for task in TASKS)
    assert "gobi/MiniGrid-DoorKey-5x5-v0" in names
    assert "gobi/MultiRoom-N2-S4-noisy-v0" in names


def test_registering_twice_changes_nothing():
    before = gymnasium.spec(TASK)
    registration.register()
    assert gymnasium.spec(TASK) is before


def test_one_environment_is_made_by_name_and_passes_gymnasiums_checks():
    pytest.importorskip("minigrid")
    env = gymnasium.make(TASK)
    assert isinstance(env.unwrapped, Plain)
    # With a spec, the checks also make it anew, draw it and close it twice.
    env_checker.check_env(env.unwrapped)


def test_a_vector_is_made_by_name_and_is_ours():
    env = gymnasium.make_vec(TASK, num_envs=3, autoreset_mode="SameStep", seed=4)
    assert isinstance(env, Vector)
    assert env.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.SAME_STEP
    assert env.reset(seed=0)[0].shape == (3, 7, 7, 3)
    again = gymnasium.make_vec(env.spec)
    assert again.num_envs == 3
    np.testing.assert_array_equal(again.reset(seed=0)[0], env.reset(seed=0)[0])


def test_gymnasiums_own_vectors_take_our_environments_too():
    env = gymnasium.make_vec(TASK, num_envs=2, vectorization_mode="sync")
    observations, _ = env.reset(seed=0)
    assert observations.shape == (2, 7, 7, 3)
    env.step(env.action_space.sample())


def test_the_name_is_known_after_an_import_of_the_adapter():
    script = f"import gymnasium, gobi.adapters.gymnasium; print(gymnasium.spec('{TASK}').id)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == TASK, done.stderr
