"""Generalised advantages against sums over all later steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.agents.ppo import gae

STEPS, ENVS = 9, 4

advantages = jax.jit(gae)


def drawn(seed, ends=0.25):
    random = np.random.default_rng(seed)
    rewards = random.normal(size=(STEPS, ENVS)).astype(np.float32)
    values = random.normal(size=(STEPS + 1, ENVS)).astype(np.float32)
    discounts = np.where(random.random((STEPS, ENVS)) < ends, 0.0, 0.9).astype(np.float32)
    return rewards, values, discounts


def by_hand(rewards, values, discounts, gae_lambda):
    """Each step's sum of all later errors, as equation 16 writes it, up to the episode's end."""
    sums = np.zeros((STEPS, ENVS))
    for e in range(ENVS):
        for t in range(STEPS):
            weight = 1.0
            for later in range(t, STEPS):
                follows = discounts[later, e] * values[later + 1, e] if discounts[later, e] else 0.0
                sums[t, e] += weight * (rewards[later, e] + follows - values[later, e])
                weight *= gae_lambda * discounts[later, e]
    return sums


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gae_lambda", [0.0, 0.7, 1.0])
def test_advantages_are_the_weighted_sums_of_later_errors(seed, gae_lambda):
    rewards, values, discounts = drawn(seed)
    ours = advantages(rewards, values, discounts, jnp.float32(gae_lambda))
    np.testing.assert_allclose(ours, by_hand(rewards, values, discounts, gae_lambda), rtol=1e-5, atol=1e-5)


def test_nothing_after_an_end_reaches_what_came_before():
    rewards, values, discounts = drawn(0, ends=0)
    discounts[4] = 0
    before = advantages(rewards, values, discounts, jnp.float32(0.95))
    # What stands in row 5 is the value of the next episode's first observation.
    rewards[5:], values[5:] = 100, -100
    after = advantages(rewards, values, discounts, jnp.float32(0.95))
    np.testing.assert_array_equal(before[:5], after[:5])
    assert np.all(np.asarray(before[5:]) != np.asarray(after[5:]))


def test_the_last_step_is_followed_by_the_value_of_the_state_after_it():
    rewards, values, discounts = drawn(1, ends=0)
    ours = advantages(rewards, values, discounts, jnp.float32(0.95))
    np.testing.assert_allclose(ours[-1], rewards[-1] + 0.9 * values[-1] - values[-2], rtol=1e-5, atol=1e-6)


def test_with_lambda_one_and_right_values_there_is_no_advantage():
    rewards, values, discounts = drawn(2)
    for t in reversed(range(STEPS)):
        values[t] = rewards[t] + discounts[t] * values[t + 1]
    ours = advantages(rewards, values, discounts, jnp.float32(1.0))
    np.testing.assert_allclose(ours, np.zeros((STEPS, ENVS)), atol=1e-5)
