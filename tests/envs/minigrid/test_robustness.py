"""What a user's own loop may do to us: donate states, switch JAX's settings, pass plain Python numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.minigrid import Stepper, has_room, make, make_bank, refill
from gobi.envs.minigrid.bank import Queue, take

SMALL = "MiniGrid-DoorKey-5x5-v0"


def test_the_state_of_a_reset_can_be_donated():
    env = make(SMALL)
    state, _ = env.reset(jax.random.key(0))
    moved, _ = jax.jit(env.step, donate_argnums=0)(state, jnp.int32(0))
    assert int(moved.step_count) == 1


def test_lanes_can_be_donated():
    env = make(SMALL)
    bank, stepper = make_bank(env, 0), Stepper(env, 3)
    lanes, _ = stepper.reset(bank)
    lanes, _ = jax.jit(stepper.step, donate_argnums=1)(bank, lanes, jnp.zeros(3, jnp.int32))
    assert np.all(np.asarray(lanes.states.step_count) == 1)


def test_an_action_may_be_a_plain_number():
    env = make(SMALL)
    state, _ = env.reset(jax.random.key(0))
    turned, _ = env.step(state, 1)
    assert int(turned.direction) == (int(state.direction) + 1) % 4


def test_a_full_bank_is_left_as_it_is():
    env = make(SMALL)
    bank, stepper = make_bank(env, 0), Stepper(env, 3)
    lanes, _ = stepper.reset(bank)
    assert not has_room(env, bank, lanes.queue)
    same, queue = jax.jit(refill, static_argnums=0)(env, bank, lanes.queue)
    assert int(same.next_chunk) == int(bank.next_chunk)
    assert int(queue.fresh) == int(lanes.queue.fresh)


def test_counts_stop_at_the_largest_number_instead_of_turning_negative():
    most = 2**31 - 1
    almost = Queue(jnp.int32(0), jnp.int32(0), taken=jnp.int32(most - 2), repeated=jnp.int32(most - 3))
    after = take(almost, jnp.int32(5), capacity=8)
    assert int(after.taken) == most
    assert int(after.repeated) == most


@pytest.mark.parametrize("setting", ["JAX_ENABLE_X64=1", "JAX_DEFAULT_PRNG_IMPL=rbg"])
def test_levels_do_not_depend_on_the_settings_of_jax(setting):
    name, value = setting.split("=")
    code = """
from gobi.envs.minigrid import make, numbered_levels
for task in ("MultiRoom-N2-S4", "KeyCorridorS3R2", "ObstructedMaze-1Dlhb", "DoorKey-5x5"):
    levels = numbered_levels(make(task), 3, 0, 8)
    print(task, levels.grid.dtype, int(levels.grid.astype("int32").sum()), levels.position.tolist())
"""
    plain, changed = (
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **extra},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for extra in ({}, {name: value})
    )
    assert plain == changed
    assert plain.count("uint16") == 4
