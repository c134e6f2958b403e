"""The scale of the bonus: numpy's deviation of all discounted sums so far."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.agents.ppo.return_scale import first_scale

STEPS, ENVS, DISCOUNT = 11, 3, 0.9

scaled = jax.jit(lambda scale, *inputs: scale.scaled(*inputs))


def drawn(count=4, ends=0.15, seed=0):
    """Rollouts one after another, the later ones larger."""
    random = np.random.default_rng(seed)
    bonus = random.exponential(size=(count, STEPS, ENVS)) * (1 + np.arange(count)[:, None, None])
    return bonus.astype(np.float32), random.random((count, STEPS, ENVS)) < ends


def all_sums(bonus, ends):
    """The discounted sum at every step of every rollout, as one long walk through each environment."""
    walks, over = bonus.reshape(-1, ENVS).astype(np.float64), ends.reshape(-1, ENVS)
    sums, total = np.zeros_like(walks), np.zeros(ENVS)
    for t in range(len(walks)):
        total = walks[t] + DISCOUNT * total
        sums[t] = total
        total = np.where(over[t], 0.0, total)
    return sums


@pytest.mark.parametrize("ends", [0.0, 0.15, 1.0])
def test_the_bonus_is_divided_by_the_deviation_of_all_sums_so_far(ends):
    bonus, over = drawn(ends=ends)
    sums, scale = all_sums(bonus, over), first_scale(ENVS)
    for n in range(len(bonus)):
        scale, ours = scaled(scale, bonus[n], over[n], jnp.float32(DISCOUNT))
        deviation = np.std(sums[: (n + 1) * STEPS])
        np.testing.assert_allclose(scale.deviation, deviation, rtol=1e-5)
        np.testing.assert_allclose(ours, bonus[n] / deviation, rtol=1e-5)
    assert scale.count == sums.size
    np.testing.assert_allclose(scale.mean, sums.mean(), rtol=1e-5)


def test_a_sum_goes_on_in_the_next_rollout_and_begins_anew_after_an_end():
    bonus, over = np.ones((1, STEPS, ENVS), np.float32), np.zeros((1, STEPS, ENVS), bool)
    over[0, -1, 0] = True
    scale, _ = scaled(first_scale(ENVS), bonus[0], over[0], jnp.float32(DISCOUNT))
    sum_of_all = (1 - DISCOUNT**STEPS) / (1 - DISCOUNT)
    np.testing.assert_allclose(scale.sums, [0.0, sum_of_all, sum_of_all], rtol=1e-5)


def test_the_size_of_the_bonus_does_not_matter():
    bonus, over = drawn()
    small, large = first_scale(ENVS), first_scale(ENVS)
    for n in range(len(bonus)):
        small, ours = scaled(small, bonus[n], over[n], jnp.float32(DISCOUNT))
        large, theirs = scaled(large, 1000 * bonus[n], over[n], jnp.float32(DISCOUNT))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_no_bonus_stays_none():
    nothing = np.zeros((STEPS, ENVS), np.float32)
    scale, ours = scaled(first_scale(ENVS), nothing, nothing > 0, jnp.float32(DISCOUNT))
    np.testing.assert_array_equal(ours, nothing)
    assert np.isfinite(scale.deviation)
