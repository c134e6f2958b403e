"""The world of state vectors: it learns known dynamics, and imagines what random actions lead to in them."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.errors import GobiError
from gobi.types import Spec
from gobi.worlds import StateModel
from gobi.worlds.predictor_layers import unseen
from gobi.worlds.random_actions import random_actions

SPEC = Spec("a cart", (3,), "float32", 0, max_steps=40, action_size=2)
LESSONS = 300


def moved(state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """A place far from 0, its speed, which actions change, and a number that never does."""
    place, speed, constant = np.moveaxis(state, -1, 0)
    speed = 0.9 * speed + action[..., 0] - 0.5 * action[..., 1]
    return np.stack([place + 0.1 * speed, speed, constant], axis=-1)


def play(seed: int, count: int = 32, length: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of states, and the actions that led to each."""
    rng = np.random.default_rng(seed)
    states = [np.stack([rng.normal(50, 2, count), rng.normal(0, 1, count), np.full(count, 7.0)], axis=-1)]
    actions = rng.uniform(-1, 1, (length, count, 2))
    for action in actions[1:]:
        states.append(moved(states[-1], action))
    return np.float32(np.stack(states, axis=1)), np.float32(actions.swapaxes(0, 1))


def begun(world: StateModel):
    return jax.jit(world.init, static_argnums=1)(jax.random.key(0), SPEC)


@functools.cache
def learned(steps: int = 2):
    """A model after its lessons, and what it measured in them."""
    world = StateModel(3, 2, steps=steps, actions=4, units=64, learning_rate=3e-3)
    learn, ws, told = jax.jit(world.learn), begun(world), []
    for lesson in range(LESSONS):
        ws, logged = learn(ws, jax.random.key(lesson), *map(jnp.asarray, play(lesson)))
        told.append(jax.device_get(logged))
    return world, ws, told


def test_what_actions_lead_to_is_learned():
    _, ws, told = learned()
    assert told[0]["world/error"] == 1
    assert told[-1]["world/error"] < 0.01
    assert told[-1]["world/loss"] < 0.01
    assert int(ws.learned) == LESSONS


def test_what_it_imagines_is_where_the_drawn_actions_really_lead():
    world, ws, _ = learned()
    state, key = np.float32([51.0, -0.5, 7.0]), jax.random.key(9)
    imagined = jax.jit(world.imagine)(ws, jnp.asarray(state), key)
    assert imagined.shape == (world.predictions, 3) == (8, 3)
    really, at = [], np.broadcast_to(state, (4, 3))
    for step_key in jax.random.split(key, 2):
        at = moved(at, np.asarray(random_actions(step_key, "uniform", 4, 2)))
        really.append(at)
    wanted = np.asarray(ws.standard(jnp.float32(np.concatenate(really))))
    np.testing.assert_allclose(imagined[:, :2], wanted[:, :2], atol=0.05)
    # They are apart by more than the model errs.
    assert np.ptp(wanted[:4, 1]) > 0.3
    stayed = jax.jit(world.present)(ws, jnp.asarray(state), jnp.asarray(state))
    np.testing.assert_allclose(stayed, np.asarray(ws.standard(jnp.asarray(state))))


def test_before_it_has_learned_nothing_changes():
    world = StateModel(3, 2, steps=2)
    state = jnp.array([0.5, -2.0, 1.0])
    imagined = jax.jit(world.imagine)(begun(world), state, jax.random.key(0))
    np.testing.assert_allclose(imagined, np.tile(state, (10, 1)), rtol=1e-5)


def test_with_no_steps_nothing_is_imagined_but_states_have_their_scale():
    world = StateModel(3, 2, steps=0)
    assert (world.predictions, world.needed) == (0, True)
    found = jax.jit(world.imagine)(begun(world), jnp.ones(3), jax.random.key(0))
    assert found.shape == (0, 3)


def test_what_is_kept_for_an_episode_imagines_the_same_and_can_learn_no_more():
    world, ws, _ = learned()
    kept, state, key = world.as_it_is(ws), jnp.array([50.0, 1.0, 7.0]), jax.random.key(1)
    imagine = jax.jit(world.imagine)
    np.testing.assert_array_equal(imagine(kept, state, key), imagine(ws, state, key))
    assert kept.optimiser is None


def test_the_belief_is_the_state_that_is_seen():
    world, ws, _ = learned()
    seen = jnp.array([1.0, 2.0, 3.0])
    found = world.observe(ws, world.first_belief(), jnp.ones(2), seen, jax.random.key(0))
    np.testing.assert_array_equal(found, seen)


def test_states_are_told_in_units_of_their_spread_about_their_mean():
    rng = np.random.default_rng(0)
    numbers = np.float32(rng.normal([5.0, -100.0, 3.0], [2.0, 30.0, 0.0], (60, 3)))
    # Before anything was seen they stay as they are.
    np.testing.assert_allclose(unseen(1)(jnp.asarray(numbers[:, :1])), numbers[:, :1], rtol=1e-5)
    standard = unseen(3)
    for part in (numbers[:25], numbers[25:]):
        standard = standard.noticing(jnp.asarray(part))
    np.testing.assert_allclose(standard.mean, numbers.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(standard.squares, numbers.var(axis=0), rtol=1e-4, atol=1e-5)
    told = np.asarray(standard(jnp.asarray(numbers)))
    np.testing.assert_allclose(told.std(axis=0), [1, 1, 0], atol=1e-3)
    np.testing.assert_allclose(told.mean(axis=0), 0, atol=1e-3)
    # What never changed before may go anywhere, but not so far that it would drown the others.
    np.testing.assert_allclose(standard(jnp.array([5.0, -100.0, 4.0]))[2], 10)


@pytest.mark.parametrize("draws", ["uniform", "normal"])
def test_random_actions_are_within_bounds_and_of_their_kind(draws):
    drawn = np.asarray(random_actions(jax.random.key(0), draws, 500, 3))
    assert drawn.shape == (500, 3)
    assert np.abs(drawn).max() <= 1
    # A normal one is cut off at either end in a third of all cases.
    assert (np.abs(drawn) == 1).mean() == pytest.approx(0.317 if draws == "normal" else 0, abs=0.04)


def test_what_cannot_be_is_refused():
    with pytest.raises(GobiError, match=r"states of 4 numbers and actions of 2; 'a cart' has \[3\] and 2"):
        StateModel(4, 2).init(jax.random.key(0), SPEC)
    with pytest.raises(GobiError, match="at least 1"):
        StateModel(3, 2, steps=-1)
    with pytest.raises(GobiError, match="unknown draws 'evenly'"):
        StateModel(3, 2, draws="evenly")
