"""Both learners on tasks of one step whose answer is known: integers and vectors, rewards of any size."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.agents import distributions
from gobi.agents.impala.impala import IMPALA
from gobi.agents.learner import Rollout, Weights
from gobi.agents.ppo import PPO
from gobi.types import Spec

BANDIT = Spec("bandit", (1,), "float32", num_actions=3, max_steps=1)
AIMING = Spec("aiming", (1,), "float32", num_actions=0, max_steps=1, action_size=2)
STEPS, ENVS = 8, 16
TARGET = jnp.array([0.5, -0.5])

SCALED_IMPALA = IMPALA("feedforward", "bootstrap", units=8, passes=2, scale_values=True, standardise=True)
SCALED_PPO = PPO("feedforward", "lstm", "bootstrap", 2, 2, "one", False, False, units=8, scale_rewards=True)
LEARNERS = {"impala": SCALED_IMPALA, "ppo": SCALED_PPO}


def rollout(learner, spec, policy, key, rewards, truncated) -> Rollout:
    """Episodes of one step each; `rewards` of the actions taken."""
    seen, first = jnp.ones((STEPS + 1, ENVS, 1)), jnp.ones((STEPS + 1, ENVS), bool)
    noise, carry = learner.noise(key, spec, STEPS, ENVS), learner.initial_carry(policy, ENVS)

    def step(carry, inputs):
        action, noted, carry = learner.act(policy, *inputs[:2], carry, inputs[2])
        return carry, (action, noted)

    after, (actions, noted) = jax.lax.scan(step, carry, (seen[:-1], first[:-1], noise))
    return Rollout(
        observations=seen,
        first=first,
        actions=actions,
        noted=noted,
        rewards=rewards(actions),
        bonus=jnp.zeros((STEPS, ENVS)),
        weights=Weights(*map(jnp.float32, (1, 0, jnp.inf))),
        terminated=jnp.full((STEPS, ENVS), not truncated),
        truncated=jnp.full((STEPS, ENVS), truncated),
        last_observations=seen[:-1],
        carry=carry,
        next_carry=after,
    )


@functools.partial(jax.jit, static_argnames=("name", "spec", "rewards", "truncated", "updates"))
def trained(name, spec, rewards, truncated=False, rate=5e-3, updates=200, **numbers):
    """The policy after some updates, and the last of what was logged."""
    learner, keys = LEARNERS[name], jax.random.split(jax.random.key(1), updates)
    hyper = learner.Hyper(**{"entropy_cost": 0.0, **numbers})

    def update(state, key):
        acting, learning = jax.random.split(key)
        played = rollout(learner, spec, state[0], acting, rewards, truncated)
        policy, optimiser, metrics = learner.learn(
            *state, played, hyper, jnp.float32(rate), learning, longest=1
        )
        return (policy, optimiser), metrics["value"]

    state = learner.init(jax.random.key(0), spec, ENVS)
    (policy, optimiser), values = jax.lax.scan(update, state, keys)
    outputs, _, _ = policy(jnp.ones((1, 1)), jnp.ones(1, bool), policy.initial(1))
    return outputs, values[-1], optimiser


def paid_for_the_last(actions):
    return 1000.0 * (actions == 2)


def paid_for_aim(actions):
    return -0.1 * jnp.abs(actions - TARGET).sum(-1)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_better_of_three_actions_is_found_though_it_pays_a_thousand(name):
    outputs, value, optimiser = trained(name, BANDIT, paid_for_the_last)
    assert (distributions.mode(outputs, continuous=False) == 2).all()
    # PPO divides rewards by the deviation of their sum, IMPALA scales values.
    worth = value * optimiser.rewards.deviation if name == "ppo" else value
    np.testing.assert_allclose(worth, 1000, rtol=0.1)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_vector_is_aimed_though_a_miss_costs_a_tenth(name):
    outputs, _, _ = trained(name, AIMING, paid_for_aim, max_grad_norm=1.0)
    np.testing.assert_allclose(distributions.mode(outputs, continuous=True)[0], TARGET, atol=0.15)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(("truncated", "worth"), [(True, 2.0), (False, 1.0)])
def test_a_cut_episode_is_worth_what_would_have_followed(name, truncated, worth):
    """Every step pays 1 and ends its episode: cut off, with a discount of 0.5, that is worth 2."""
    numbers = {"discount": 0.5, "max_grad_norm": 1.0}
    _, value, _ = trained(
        name, BANDIT, lambda actions: jnp.ones(actions.shape), truncated, rate=1e-2, **numbers
    )
    np.testing.assert_allclose(value, worth, atol=0.05)
