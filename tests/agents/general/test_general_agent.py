"""The learner for any task: distributions against scipy, networks by spec, values in units of their scale."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gobi.agents.general import Hyper, Unroll, build, distributions, init, learn
from gobi.agents.general.learner import Scale, _rescaled
from gobi.agents.general.networks import reads
from gobi.types import Spec

BANDIT = Spec("bandit", (1,), "float32", num_actions=3, max_steps=1)
AIMING = Spec("aiming", (1,), "float32", num_actions=0, max_steps=1, action_size=2)
HYPER = Hyper(*map(jnp.float32, (0.99, 0.0, 0.5, 1.0)))


def test_gaussians_are_scipy_s():
    mean, log_std = np.array([[0.3, -1.0]], np.float32), np.array([[-0.5, 0.4]], np.float32)
    outputs, action = jnp.concatenate([mean, log_std], axis=1), jnp.array([[0.1, 0.2]])
    expected = stats.norm.logpdf(action, mean, np.exp(log_std)).sum(-1)
    np.testing.assert_allclose(distributions.log_probability(outputs, action), expected, rtol=1e-5)
    expected = stats.norm.entropy(mean, np.exp(log_std)).sum(-1)
    np.testing.assert_allclose(distributions.entropy(outputs, continuous=True), expected, rtol=1e-5)
    drawn = distributions.draw(jnp.tile(outputs, (4000, 1)), jax.random.key(0), continuous=True)
    np.testing.assert_allclose(np.std(drawn, axis=0), np.exp(log_std)[0], rtol=0.05)
    np.testing.assert_array_equal(distributions.likeliest(outputs, continuous=True), mean)


def test_discrete_ones_are_scipy_s():
    outputs = jnp.log(jnp.array([[0.2, 0.7, 0.1]]))
    actions = jnp.array([1], jnp.int32)
    np.testing.assert_allclose(distributions.log_probability(outputs, actions), np.log([0.7]), rtol=1e-5)
    np.testing.assert_allclose(
        distributions.entropy(outputs, continuous=False), [stats.entropy([0.2, 0.7, 0.1])], rtol=1e-5
    )
    drawn = distributions.draw(jnp.tile(outputs, (4000, 1)), jax.random.key(0), continuous=False)
    np.testing.assert_allclose(np.bincount(drawn) / 4000, [0.2, 0.7, 0.1], atol=0.03)


@pytest.mark.parametrize(
    ("shape", "dtype", "classes", "kind"),
    [
        ((4,), "float32", 0, "numbers"),
        ((1,), "int32", 500, "symbols"),
        ((9, 9, 2), "uint8", 5, "symbols"),
        ((40,), "int32", 100_000, "numbers"),
        ((7, 7, 3), "uint8", 0, "cells"),
        ((42, 42, 3), "uint8", 0, "pixels"),
    ],
)
def test_every_kind_of_observation_has_a_network(shape, dtype, classes, kind):
    spec = Spec("any", shape, dtype, num_actions=4, max_steps=9, classes=classes)
    assert reads(spec) == kind

    def looked(key):
        policy = build(spec, key, "feedforward", units=8)
        return policy(jnp.ones((2, *shape), dtype), jnp.ones(2, bool), policy.initial(2))

    outputs, values, carry = jax.eval_shape(looked, jax.random.key(0))
    assert (outputs.shape, values.shape, carry) == ((2, 4), (2,), ())


def test_a_recurrent_policy_remembers_until_an_episode_begins():
    policy = build(BANDIT, jax.random.key(0), "recurrent", units=8)
    seen = jnp.ones((3, 2, 1)) * jnp.arange(3)[:, None, None]
    first = jnp.array([[True, True], [False, False], [False, True]])
    outputs, values, carries = jax.jit(type(policy).unroll)(policy, seen, first, policy.initial(2))
    carry, stepped, look = policy.initial(2), [], jax.jit(type(policy).__call__)
    for now, begins in zip(seen, first, strict=True):
        *told, carry = look(policy, now, begins, carry)
        stepped.append(told)
    np.testing.assert_allclose(outputs, jnp.stack([one for one, _ in stepped]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(carries[0].cell[-1], carry[0].cell, rtol=1e-5)
    assert not np.allclose(values[2, 0], values[2, 1])


def test_another_scale_leaves_what_values_are_worth():
    learner = init(build(BANDIT, jax.random.key(0), units=8))
    scale = Scale(jnp.float32(40), jnp.float32(2000), jnp.float32(3))
    other = _rescaled(learner, scale)

    def worth(learner):
        _, values, _ = learner.policy(jnp.array([[0.5], [-0.5]]), jnp.ones(2, bool), ())
        return learner.scale.plain(values)

    np.testing.assert_allclose(worth(learner), worth(other), rtol=1e-4, atol=1e-4)
    assert float(other.scale.spread) == 20


@pytest.mark.parametrize(("spec", "size"), [(BANDIT, 1000.0), (AIMING, 0.1)], ids=["bandit", "aiming"])
def test_the_better_action_is_found_whatever_the_rewards_size(spec, size):
    """One step an episode: the last of three actions pays, or aiming at (0.5, -0.5) does."""
    learner = init(build(spec, jax.random.key(0), units=8))
    seen, first = jnp.ones((9, 16, 1)), jnp.ones((9, 16), bool)
    ends = jnp.ones((8, 16), bool)
    target = jnp.array([0.5, -0.5])

    def update(learner, key):
        outputs, _, _ = learner.policy.unroll(seen[:8], first[:8], ())
        actions = distributions.draw(outputs, key, spec.action_size > 0)
        right = actions == 2 if spec.num_actions else -jnp.abs(actions - target).sum(-1)
        unroll = Unroll(seen, first, actions, size * right, ends, ~ends, seen[:8], ())
        learner, metrics = learn(learner, unroll, HYPER, jnp.float32(5e-3), passes=2)
        return learner, metrics["value"]

    learner, values = jax.lax.scan(update, learner, jax.random.split(jax.random.key(1), 150))
    outputs, _, _ = learner.policy(seen[0], first[0], ())
    best = distributions.likeliest(outputs, spec.action_size > 0)
    if spec.num_actions:
        assert (best == 2).all()
        np.testing.assert_allclose(values[-1], size, rtol=0.1)
    else:
        np.testing.assert_allclose(best[0], target, atol=0.15)


def test_a_cut_episode_is_worth_what_would_have_followed():
    """Every step pays 1 and every episode is cut off at once: with a discount of 0.5 that is worth 2."""
    learner = init(build(BANDIT, jax.random.key(0), units=8))
    seen, first = jnp.ones((9, 4, 1)), jnp.ones((9, 4), bool)
    ends, actions = jnp.ones((8, 4), bool), jnp.zeros((8, 4), jnp.int32)
    hyper = Hyper(*map(jnp.float32, (0.5, 0.0, 0.5, 1.0)))

    @jax.jit
    def learned(cut):
        def update(learner, _):
            unroll = Unroll(seen, first, actions, jnp.ones((8, 4)), ends, cut, seen[:8], ())
            learner, metrics = learn(learner, unroll, hyper, jnp.float32(1e-2), passes=4)
            return learner, metrics["value"]

        return jax.lax.scan(update, learner, length=200)[1][-1]

    np.testing.assert_allclose(learned(ends), 2.0, atol=0.05)
    np.testing.assert_allclose(learned(~ends), 1.0, atol=0.05)
