"""The simulator imagines exactly what playing would show, and nothing beyond an episode's end."""

from __future__ import annotations

import copy
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.minigrid import make, numbered_levels, oracle
from gobi.envs.minigrid.state import nth
from gobi.errors import GobiError
from gobi.worlds import Simulator

ACTIONS = range(6)
env = make("MiniGrid-DoorKey-5x5-v0")
step = jax.jit(env.step)


def imagined(world: Simulator, states):
    rows = len(np.atleast_1d(states.direction))
    keys = jax.random.split(jax.random.key(0), rows)
    found = jax.jit(lambda states: world.imagine((), keys, {"state": states}))(states)
    return jax.tree.map(np.asarray, found)


def alone(state):
    return jax.tree.map(lambda part: part[None], state)


def played(state, sequence):
    """The last view of a sequence of actions, and whether the episode ended before the last of them."""
    over = False
    for number, action in enumerate(sequence):
        state, timestep = step(state, jnp.int32(action))
        if number < len(sequence) - 1:
            over = over or bool(timestep.done)
    return np.asarray(timestep.observation), not over


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_number_of_predictions_is_that_of_all_action_sequences(steps):
    assert Simulator(env, steps=steps).predictions == sum(6**k for k in range(1, steps + 1))


def test_a_tree_of_two_steps_is_what_playing_each_sequence_shows():
    world = Simulator(env, steps=2)
    levels = numbered_levels(env, seed=3, start=0, count=2)
    views, valid = imagined(world, levels)
    sequences = [(a,) for a in ACTIONS] + list(itertools.product(ACTIONS, ACTIONS))
    for row in range(2):
        for place, sequence in enumerate(sequences):
            view, reachable = played(nth(levels, row), sequence)
            np.testing.assert_array_equal(views[row, place], view)
            assert valid[row, place] == reachable


def test_one_step_is_what_deep_copies_of_faramas_environment_show():
    task = make("MiniGrid-KeyCorridorS3R3-v0")
    levels = numbered_levels(task, seed=1, start=0, count=3)
    views, _ = imagined(Simulator(task), levels)
    for row in range(3):
        farama = oracle.to_farama(nth(levels, row), oracle.new_farama(task))
        for action in ACTIONS:
            expected = copy.deepcopy(farama).step(action)[0]["image"]
            np.testing.assert_array_equal(views[row, action], expected)


def test_the_view_that_ends_an_episode_is_valid_and_what_follows_it_is_not(sketch):
    state = sketch("#####", "#>G.#", "#...#", "#####")
    _, valid = imagined(Simulator(env, steps=2), alone(state))
    forward = 2
    assert valid[0, :6].all()
    children = valid[0, 6:].reshape(6, 6)
    assert not children[forward].any()
    assert np.delete(children, forward, axis=0).all()


def test_nothing_is_imagined_after_the_last_step_of_the_time_limit(sketch):
    state = sketch("#####", "#>..#", "#####", step_count=env.spec.max_steps - 1)
    _, valid = imagined(Simulator(env, steps=3), alone(state))
    assert valid[0, :6].all()
    assert not valid[0, 6:].any()


def test_fewer_actions_give_fewer_predictions(sketch):
    state = sketch("#####", "#>..#", "#####")
    everything, _ = imagined(Simulator(env), alone(state))
    some, valid = imagined(Simulator(env, actions=(2, 0)), alone(state))
    np.testing.assert_array_equal(some[0], everything[0, [2, 0]])
    assert valid.shape == (1, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"steps": 0}, "at least one step"), ({"actions": (7,)}, "0 .. 6"), ({"steps": 6}, "fewer steps")],
)
def test_impossible_trees_are_refused(options, message):
    with pytest.raises(GobiError, match=message):
        Simulator(env, **options)


def test_it_reads_the_state_and_learns_nothing():
    world = Simulator(env)
    assert world.reads == {"state"}
    assert world.init(jax.random.key(0), env.spec, 4) == ()
