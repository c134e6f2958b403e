"""The environment keeps its contract: pure, deterministic, and never resetting by itself."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gobi
from gobi.envs.minigrid import DoorKey, make, oracle
from gobi.envs.minigrid.rules import FORWARD, LEFT, RIGHT

EMPTY, DOORKEY, CORRIDOR = "MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0", "MiniGrid-KeyCorridorS3R3-v0"


def test_the_spec_says_what_a_learner_must_know():
    spec = gobi.make(CORRIDOR).spec
    assert (spec.id, spec.observation_shape, spec.num_actions, spec.max_steps) == (
        CORRIDOR,
        (7, 7, 3),
        7,
        270,
    )


def test_a_task_made_by_hand_is_named_after_its_sizes():
    assert gobi.make(DoorKey(9)).spec.id == "gobi/DoorKey-9x9"


def test_environments_of_the_same_task_are_equal_and_can_be_static_arguments():
    assert make(DOORKEY) == make(DOORKEY)
    assert hash(make(DOORKEY)) == hash(make(DOORKEY))
    assert make(DOORKEY) != make(CORRIDOR)
    shown = jax.jit(lambda env, state: env.full_grid(state), static_argnums=0)
    state, _ = make(EMPTY).reset(jax.random.key(0))
    assert shown(make(EMPTY), state).shape == (5, 5, 3)


def test_a_reset_gives_a_level_and_its_first_observation(compiled):
    state, timestep = compiled(DOORKEY, "reset")(jax.random.key(0))
    assert int(state.step_count) == 0
    assert timestep.reward == 0
    assert not timestep.done
    np.testing.assert_array_equal(timestep.observation, compiled(DOORKEY, "observe")(state))
    assert timestep.observation.dtype == jnp.uint8


def test_the_same_key_resets_to_the_same_level_and_other_keys_to_others(compiled):
    reset = compiled(DOORKEY, "reset")
    assert eqx.tree_equal(reset(jax.random.key(7)), reset(jax.random.key(7)))
    levels = [bytes(np.asarray(reset(jax.random.key(number))[0].grid)) for number in range(20)]
    assert len(set(levels)) > 3


def test_resets_can_be_batched():
    env = make(DoorKey(5))
    keys = jax.random.split(jax.random.key(0), 8)
    states, timesteps = jax.jit(jax.vmap(env.reset))(keys)
    assert states.grid.shape == (8, 5, 5)
    assert timesteps.observation.shape == (8, 7, 7, 3)


def test_a_step_leaves_the_state_it_was_given_alone_and_always_gives_the_same(compiled):
    state, _ = compiled(EMPTY, "reset")(jax.random.key(0))
    before = jax.tree.map(np.array, state)
    one, other = (compiled(EMPTY, "step")(state, jnp.int32(FORWARD)) for _ in range(2))
    assert eqx.tree_equal(one, other)
    assert eqx.tree_equal(before, state)


def test_the_observation_of_a_step_is_the_view_of_the_state_it_leads_to(compiled):
    state, _ = compiled(DOORKEY, "reset")(jax.random.key(1))
    for action in (RIGHT, FORWARD, LEFT, FORWARD):
        state, timestep = compiled(DOORKEY, "step")(state, jnp.int32(action))
        np.testing.assert_array_equal(timestep.observation, compiled(DOORKEY, "observe")(state))


def test_walking_to_the_goal_of_an_empty_room_pays_by_the_clock_and_the_game_goes_on(compiled):
    step = compiled(EMPTY, "step")
    state, _ = compiled(EMPTY, "reset")(jax.random.key(0))
    for action in (FORWARD, FORWARD, RIGHT, FORWARD):
        state, timestep = step(state, jnp.int32(action))
        assert not timestep.done
        assert timestep.reward == 0
    state, timestep = step(state, jnp.int32(FORWARD))
    assert timestep.terminated
    assert timestep.reward == np.float32(1 - 0.9 * 5 / 100)
    after, timestep = step(state, jnp.int32(LEFT))
    assert int(after.step_count) == 6
    assert tuple(np.asarray(after.position)) == (3, 3)
    assert not timestep.terminated


def test_doing_nothing_runs_out_of_steps_exactly_at_the_limit(compiled):
    env = make(EMPTY)
    state, _ = env.reset(jax.random.key(0))
    actions = jnp.full(env.spec.max_steps + 5, LEFT, jnp.int32)
    _, timesteps = jax.jit(functools.partial(jax.lax.scan, env.step))(state, actions)
    np.testing.assert_array_equal(timesteps.truncated, np.arange(1, 106) >= 100)
    assert not timesteps.terminated.any()
    assert not timesteps.reward.any()


@pytest.mark.parametrize("task", [EMPTY, CORRIDOR, "MiniGrid-MultiRoom-N6-v0"])
def test_the_reward_is_faramas_to_the_last_bit_at_every_step(sketch, task):
    env, farama, expected = make(task), oracle.new_farama(make(task)), []
    for farama.step_count in range(1, env.spec.max_steps + 1):
        expected.append(np.float32(farama._reward()))
    before_the_goal = sketch("####", "#>G#", "####")

    def reward_after(steps):
        state = eqx.tree_at(lambda state: state.step_count, before_the_goal, steps)
        return env.step(state, jnp.int32(FORWARD))[1].reward

    rewards = jax.jit(jax.vmap(reward_after))(jnp.arange(env.spec.max_steps, dtype=jnp.int32))
    assert rewards.dtype == jnp.float32
    np.testing.assert_array_equal(rewards, expected)
