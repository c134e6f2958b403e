"""Losses and gradients of an update against NumPy in float64 and finite differences."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from rad_cases import VECTORS, N, batch_of, begun, compiled

from gobi.agents.rad import Learner

KEY = jax.random.key(5)


class Plain:
    """Soft actor-critic on vectors in NumPy and float64, with the noise of each draw given."""

    def __init__(self, learner: Learner):
        self.learner = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), learner)
        self.temperature = np.exp(self.learner.log_temperature)

    def policy(self, observation, noise, actor=None):
        """Action and log probability, from the density of tanh(u) by the change of variables."""
        layers = [(layer.weight, layer.bias) for layer in (actor or self.learner.actor).trunk.layers]
        mean, log_std = np.split(forward(observation, layers), 2, axis=-1)
        std = np.exp(-10 + 6 * (np.tanh(log_std) + 1))
        u = mean + std * noise
        normal = np.exp(-0.5 * noise**2) / (std * np.sqrt(2 * np.pi))
        return np.tanh(u), np.sum(np.log(normal / (1 - np.tanh(u) ** 2)), axis=-1)

    def values(self, critic, observation, action):
        x = np.concatenate([observation, action], axis=-1)
        return np.stack(
            [
                forward(x, [(layer.weight[head], layer.bias[head]) for layer in critic.heads.layers])[:, 0]
                for head in range(2)
            ]
        )

    def aim(self, batch, reward, noise):
        after = np.asarray(batch.frames[:, 1], np.float64)
        action, log_prob = self.policy(after, noise)
        soft = self.values(self.learner.target, after, action).min(0) - self.temperature * log_prob
        return reward + 0.99 * np.where(batch.terminated, 0, soft)

    def critic_loss(self, critic, batch, aim):
        values = self.values(critic, np.asarray(batch.frames[:, 0], np.float64), batch.action)
        return np.mean((values[0] - aim) ** 2) + np.mean((values[1] - aim) ** 2)

    def actor_loss(self, actor, critic, batch, noise):
        before = np.asarray(batch.frames[:, 0], np.float64)
        action, log_prob = self.policy(before, noise, actor)
        return np.mean(self.temperature * log_prob - self.values(critic, before, action).min(0)), log_prob


def forward(x, layers):
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight + bias, 0)
    return x @ layers[-1][0] + layers[-1][1]


def slope(loss, weights, place, step=1e-5):
    """The derivative of a loss by one entry of an array that it reads, by central differences."""
    kept = weights[place]
    weights[place] = kept + step
    above = loss()
    weights[place] = kept - step
    below = loss()
    weights[place] = kept
    return (above - below) / (2 * step)


def noise_of(part: int) -> np.ndarray:
    """What an update with KEY draws: 1 for the actions after, 2 for the actor's own."""
    return np.asarray(jax.random.normal(jax.random.split(KEY, 3)[part], (N, 2)))


def first_gradient(adam: Any, weights: Any) -> Any:
    """The gradient of a first update: after it Adam's first moment, one vector, is a tenth of that."""
    return ravel_pytree(weights)[1](adam[0].mu / 0.1)


def test_the_critic_descends_the_slope_that_numpy_finds():
    learner, batch = begun(VECTORS), batch_of(VECTORS)
    state, metrics = compiled()(learner, KEY, batch, batch.reward)
    plain = Plain(learner)
    aim = plain.aim(batch, np.asarray(batch.reward), noise_of(1))
    critic = plain.learner.critic
    assert float(metrics["target_value"]) == pytest.approx(aim.mean(), rel=1e-4)
    assert float(metrics["critic_loss"]) == pytest.approx(plain.critic_loss(critic, batch, aim), rel=1e-4)
    gradient = first_gradient(state.critic_adam, state.critic)
    for layer, place in ((0, (0, 1, 2)), (0, (1, 4, 7)), (1, (0, 3, 3)), (2, (1, 5, 0))):
        weights = critic.heads.layers[layer].weight
        expected = slope(lambda: plain.critic_loss(critic, batch, aim), weights, place)
        assert float(gradient.heads.layers[layer].weight[place]) == pytest.approx(
            expected, rel=1e-3, abs=1e-5
        )


def test_the_actor_descends_the_slope_that_numpy_finds_with_the_critic_just_learned():
    learner, batch = begun(VECTORS), batch_of(VECTORS)
    state, metrics = compiled()(learner, KEY, batch, batch.reward)
    plain, noise = Plain(learner), noise_of(2)
    critic = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), state.critic)
    actor = plain.learner.actor
    expected, log_prob = plain.actor_loss(actor, critic, batch, noise)
    assert float(metrics["actor_loss"]) == pytest.approx(expected, rel=1e-4)
    assert float(metrics["policy_entropy"]) == pytest.approx(-log_prob.mean(), rel=1e-4)
    gradient = first_gradient(state.actor_adam, state.actor)
    for layer, place in ((0, (1, 2)), (1, (3, 3)), (2, (5, 0)), (2, (5, 3))):
        weights = actor.trunk.layers[layer].weight
        found = slope(lambda: plain.actor_loss(actor, critic, batch, noise)[0], weights, place)
        assert float(gradient.trunk.layers[layer].weight[place]) == pytest.approx(found, rel=1e-3, abs=1e-5)
