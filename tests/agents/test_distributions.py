"""Action distributions against scipy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from gobi.agents import distributions
from gobi.types import Spec

DISCRETE = Spec("three", (1,), "float32", num_actions=3, max_steps=1)
VECTORS = Spec("pairs", (1,), "float32", num_actions=0, max_steps=1, action_size=2)


def test_gaussians_are_scipy_s():
    mean, log_std = np.array([[0.3, -1.0]], np.float32), np.array([[-0.5, 0.4]], np.float32)
    outputs, action = jnp.concatenate([mean, log_std], axis=1), jnp.array([[0.1, 0.2]])
    expected = stats.norm.logpdf(action, mean, np.exp(log_std)).sum(-1)
    np.testing.assert_allclose(distributions.log_probability(outputs, action), expected, rtol=1e-5)
    expected = stats.norm.entropy(mean, np.exp(log_std)).sum(-1)
    np.testing.assert_allclose(distributions.entropy(outputs, continuous=True), expected, rtol=1e-5)
    noise = distributions.noise(jax.random.key(0), VECTORS, 1, 4000)[0]
    sampled = distributions.sample(jnp.tile(outputs, (4000, 1)), noise)
    np.testing.assert_allclose(np.mean(sampled, axis=0), mean[0], atol=0.08)
    np.testing.assert_allclose(np.std(sampled, axis=0), np.exp(log_std)[0], rtol=0.05)
    np.testing.assert_array_equal(distributions.mode(outputs, continuous=True), mean)


def test_categorical_ones_are_scipy_s():
    outputs = jnp.log(jnp.array([[0.2, 0.7, 0.1]]))
    actions = jnp.array([1], jnp.int32)
    np.testing.assert_allclose(distributions.log_probability(outputs, actions), np.log([0.7]), rtol=1e-5)
    np.testing.assert_allclose(
        distributions.entropy(outputs, continuous=False), [stats.entropy([0.2, 0.7, 0.1])], rtol=1e-5
    )
    noise = distributions.noise(jax.random.key(0), DISCRETE, 1, 4000)[0]
    sampled = distributions.sample(jnp.tile(outputs, (4000, 1)), noise)
    np.testing.assert_allclose(np.bincount(sampled) / 4000, [0.2, 0.7, 0.1], atol=0.03)
    np.testing.assert_array_equal(distributions.mode(outputs, continuous=False), [1])
