"""The formulas of soft actor-critic against densities and means worked out in NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gobi.agents.rad import losses


def test_the_log_probability_of_an_action_is_the_slope_of_its_distribution():
    mean, log_std = np.array([[0.3, -1.2], [0.0, 0.8]]), np.array([[-0.5, 0.2], [-2.0, 0.0]])
    noise = np.array([[0.4, -1.1], [1.5, -0.2]])
    unsquashed = mean + np.exp(log_std) * noise
    action, wide = np.tanh(unsquashed), 1e-6

    def below(threshold):
        return stats.norm.cdf(np.arctanh(threshold), mean, np.exp(log_std))

    density = (below(action + wide) - below(action - wide)) / (2 * wide)
    log_prob = losses.squashed_log_prob(*(jnp.float32(part) for part in (unsquashed, noise, log_std)))
    np.testing.assert_allclose(log_prob, np.log(density).sum(-1), rtol=1e-5)


def test_the_log_probability_stays_finite_where_tanh_is_one():
    unsquashed, noise, log_std = jnp.float32([[30.0]]), jnp.zeros((1, 1)), jnp.zeros((1, 1))
    # 1 - tanh(u)^2 -> 4 exp(-2u)
    expected = -0.5 * np.log(2 * np.pi) - (np.log(4) - 60)
    np.testing.assert_allclose(losses.squashed_log_prob(unsquashed, noise, log_std), [expected], rtol=1e-6)


def test_drawn_actions_are_distributed_as_their_log_probabilities_say():
    mean, log_std = jnp.full((20_000, 1), 0.4), jnp.full((20_000, 1), -0.3)
    action, log_prob = losses.squashed_sample(jax.random.key(0), mean, log_std)
    drawn = np.arctanh(np.asarray(action[:, 0], np.float64))
    assert stats.kstest(drawn, stats.norm(0.4, np.exp(-0.3)).cdf).pvalue > 1e-3
    density = stats.norm.pdf(drawn, 0.4, np.exp(-0.3)) / (1 - np.tanh(drawn) ** 2)
    np.testing.assert_allclose(log_prob, np.log(density), atol=1e-3)


def test_gradients_flow_through_a_drawn_action():
    key, log_std = jax.random.key(0), jnp.zeros((1, 1))
    slope = jax.grad(lambda mean: losses.squashed_sample(key, mean, log_std)[0].sum())(jnp.zeros((1, 1)))
    action = losses.squashed_sample(key, jnp.zeros((1, 1)), log_std)[0]
    np.testing.assert_allclose(slope, 1 - action**2, rtol=1e-5)


def test_the_target_takes_the_smaller_value_and_nothing_after_a_true_end():
    target = losses.bellman_target(
        reward=jnp.float32([1, 2, 3]),
        terminated=jnp.array([False, True, False]),
        next_values=jnp.float32([[10, 10, 10], [20, 20, 5]]),
        next_log_prob=jnp.float32([2, 2, -4]),
        temperature=jnp.float32(0.5),
        discount=0.9,
    )
    np.testing.assert_allclose(target, [1 + 0.9 * (10 - 1), 2, 3 + 0.9 * (5 + 2)], rtol=1e-6)


def test_the_critic_s_loss_is_the_sum_of_two_mean_squared_errors():
    loss = losses.critic_loss(jnp.float32([[1, 2], [5, 5]]), jnp.float32([0, 4]))
    assert float(loss) == pytest.approx((1 + 4) / 2 + (25 + 1) / 2)


def test_the_actor_s_loss_weighs_entropy_against_the_smaller_value():
    loss = losses.actor_loss(jnp.float32([[1, 9], [5, 2]]), jnp.float32([3, -1]), jnp.float32(0.5))
    assert float(loss) == pytest.approx(((1.5 - 1) + (-0.5 - 2)) / 2)


@pytest.mark.parametrize(("log_prob", "sign"), [([3.0, 5.0], -1), ([-3.0, -5.0], 1)])
def test_the_temperature_rises_while_entropy_is_below_its_target(log_prob, sign):
    loss, slope = jax.value_and_grad(losses.temperature_loss)(jnp.log(0.2), jnp.float32(log_prob), -2.0)
    assert float(loss) == pytest.approx(0.2 * np.mean([-one + 2 for one in log_prob]))
    # The derivative by the logarithm is the loss itself; a step goes against it.
    assert float(slope) == pytest.approx(float(loss))
    assert np.sign(float(slope)) == sign


def test_a_target_goes_its_share_of_the_way():
    target, online = {"a": jnp.float32([1, 2])}, {"a": jnp.float32([3, -2])}
    np.testing.assert_allclose(losses.towards(target, online, 0.25)["a"], [1.5, 1.0])
