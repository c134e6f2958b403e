"""Lanes play the same game as a single environment, and one that ends goes on with its next level."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.minigrid import DoorKey, Stepper, fixed_levels, make, positions
from gobi.errors import GobiError

LANES, STEPS = 4, 40


@dataclasses.dataclass(frozen=True)
class ShortEpisodes(DoorKey):
    """DoorKey with so few steps that every lane ends several times."""

    @property
    def max_steps(self) -> int:
        return 13


class History(NamedTuple):
    """Every step of every lane, on the host: [step, lane, ...]."""

    first: Any
    before: Any
    after: Any
    step: Any
    done: Any
    actions: Any


env = make(ShortEpisodes(5))
stepper = Stepper(env, LANES)


@pytest.fixture(scope="module")
def bank():
    return fixed_levels(env, seed=1, count=50)


@pytest.fixture(scope="module")
def history(bank) -> History:
    rng = np.random.default_rng(0)
    chosen = rng.choice(7, (STEPS, LANES), p=[0.1, 0.1, 0.3, 0.15, 0.1, 0.2, 0.05])

    def unrolled(bank, actions):
        def update(lanes, actions):
            after, step = stepper.step(bank, lanes, actions)
            return after, (lanes, after, step)

        lanes, observation = stepper.reset(bank)
        # Lanes that have played for longer end earlier: not all at once.
        clocks = 3 * jnp.arange(LANES, dtype=jnp.int32)
        lanes = eqx.tree_at(lambda all_: all_.states.step_count, lanes, clocks)
        before, after, steps = jax.lax.scan(update, lanes, actions)[1]
        return observation, before, after, steps, steps.done, actions

    return History(*jax.tree.map(np.asarray, jax.jit(unrolled)(bank, jnp.asarray(chosen, jnp.int32))))


def at(tree, *index):
    return jax.tree.map(lambda array: array[index], tree)


def test_lanes_start_at_the_banks_first_levels_and_see_them(bank, history):
    start = at(history.before.states, 0)
    levels = at(bank.levels, slice(LANES))
    np.testing.assert_array_equal(start.grid, levels.grid)
    np.testing.assert_array_equal(start.position, levels.position)
    np.testing.assert_array_equal(history.first, bank.views[:LANES])


def test_every_lane_goes_step_by_step_as_a_single_environment_goes(history):
    step = jax.jit(env.step)
    for time, lane in np.ndindex(STEPS, LANES):
        state = jax.tree.map(jnp.asarray, at(history.before.states, time, lane))
        after, timestep = step(state, jnp.int32(history.actions[time, lane]))
        got = at(history.step, time, lane)
        np.testing.assert_array_equal(got.last_observation, timestep.observation)
        assert got.reward == timestep.reward
        assert got.terminated == timestep.terminated
        assert got.truncated == timestep.truncated
        if not timestep.done:
            assert eqx.tree_equal(at(history.after.states, time, lane), after)
            np.testing.assert_array_equal(got.observation, timestep.observation)


def test_lanes_that_end_stand_at_the_start_of_the_next_levels_in_the_order_of_the_lanes(bank, history):
    following = LANES
    done = history.done
    for time, lane in np.argwhere(done):
        assert eqx.tree_equal(at(history.after.states, time, lane), at(bank.levels, following))
        np.testing.assert_array_equal(history.step.observation[time, lane], bank.views[following])
        following += 1
    assert following > LANES + 10
    assert int(history.after.queue.taken[-1]) == following
    assert len(set(np.argwhere(done)[:, 0])) > 5


def test_the_last_observation_of_an_episode_is_not_the_next_ones_first(history):
    done = history.done
    differs = (history.step.observation != history.step.last_observation).any(axis=(2, 3, 4))
    assert differs[done].mean() > 0.8
    assert not differs[~done].any()


def test_a_lane_is_done_when_terminated_or_truncated(history):
    np.testing.assert_array_equal(history.done, history.step.terminated | history.step.truncated)
    assert history.step.truncated.any()


def test_a_new_episode_starts_its_clock_at_zero_with_empty_hands(history):
    states, done = history.after.states, history.done
    assert not states.step_count[done].any()
    assert not states.carrying[done].any()
    assert history.before.states.carrying[done].any()


def test_a_step_is_its_two_halves(bank, history):
    lanes = jax.tree.map(jnp.asarray, at(history.before, 20))
    actions = jnp.asarray(history.actions[20])

    @jax.jit
    def halves(bank, lanes, actions):
        states, timestep = stepper.advance(lanes, actions)
        return states, *stepper.restart(bank, lanes, states, timestep)

    states, after, observation = halves(bank, lanes, actions)
    assert eqx.tree_equal(after, at(history.after, 20))
    np.testing.assert_array_equal(observation, history.step.observation[20])
    np.testing.assert_array_equal(states.step_count, lanes.states.step_count + 1)


def test_positions_are_the_agents(history):
    lanes = jax.tree.map(jnp.asarray, at(history.after, -1))
    np.testing.assert_array_equal(positions(lanes), history.after.states.position[-1])


def test_there_may_be_more_lanes_than_levels(bank):
    few = fixed_levels(env, seed=1, count=3)
    lanes, observation = Stepper(env, 8).reset(few)
    np.testing.assert_array_equal(observation, few.views[np.arange(8) % 3])
    assert (int(lanes.queue.taken), int(lanes.queue.distinct)) == (8, 3)


def test_the_wrong_number_of_actions_is_refused_naming_both_shapes(bank):
    lanes, _ = stepper.reset(bank)
    with pytest.raises(GobiError, match=r"\(4,\).*\(5,\)"):
        stepper.step(bank, lanes, jnp.zeros(5, jnp.int32))


@pytest.mark.parametrize(
    ("actions", "named"),
    [(jnp.zeros((LANES, 1), jnp.int32), r"\(4, 1\)"), (jnp.zeros(LANES), "float32"), (jnp.int32(0), r"\(\)")],
)
def test_actions_of_a_wrong_shape_or_type_are_refused_without_a_type_checker_too(bank, actions, named):
    lanes, _ = stepper.reset(bank)
    unchecked = inspect.unwrap(Stepper.advance)
    with pytest.raises(GobiError, match=rf"integers of shape \(4,\).*{named}"):
        unchecked(stepper, lanes, actions)


@pytest.mark.parametrize("num_envs", [0, -1])
def test_a_stepper_without_lanes_is_refused(num_envs):
    with pytest.raises(GobiError, match=f"num_envs={num_envs}"):
        Stepper(env, num_envs)
