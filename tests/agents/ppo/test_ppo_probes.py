"""PPO on probe environments: it learns the values and policies that are known to be right."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import probes
import pytest
from ppo_cases import learner, made, optimiser, weights

from gobi.agents.learner import Rollout
from gobi.agents.ppo import Hyper

STEPS, ENVS, UPDATES, RATE = 10, 16, 250, 0.01
DISCOUNT, BONUS_DISCOUNT = 0.9, 0.8


def played(who, env, policy, lanes, key, as_bonus):
    """A rollout in all lanes; what the probe pays is the task's reward or the bonus."""
    carry = lanes[3]

    def step(lanes, inputs):
        states, observation, first, carry = lanes
        noise, key = inputs
        action, noted, carry = who.act(policy, observation, first, carry, noise)
        states, after = jax.vmap(env.step)(states, action)
        fresh, start = jax.vmap(env.reset)(jax.random.split(key, ENVS))
        states = jax.tree.map(lambda new, old: jnp.where(after.done, new, old), fresh, states)
        following = jnp.where(after.done[:, None], start.observation, after.observation)
        return (states, following, after.done, carry), (observation, first, action, noted, after)

    drawn, key = jax.random.split(key)
    noise = who.noise(drawn, env.spec, STEPS, ENVS)
    lanes, (seen, first, actions, noted, after) = jax.lax.scan(
        step, lanes, (noise, jax.random.split(key, STEPS))
    )
    return lanes, Rollout(
        observations=jnp.concatenate([seen, lanes[1][None]]),
        first=jnp.concatenate([first, lanes[2][None]]),
        actions=actions,
        noted=noted,
        rewards=jnp.where(as_bonus, 0.0, after.reward),
        bonus=jnp.where(as_bonus, after.reward, 0.0),
        weights=weights(),
        terminated=after.terminated,
        truncated=after.truncated,
        last_observations=after.observation,
        carry=carry,
        next_carry=lanes[3],
    )


@functools.partial(jax.jit, static_argnums=0)
def trained(who, env, as_bonus=False):
    policy_key, start_key, key = jax.random.split(jax.random.key(0), 3)
    policy = made(policy_key, core=who.core, values=who.num_values, inputs=2, actions=2, units=16)
    hyper = Hyper(discount=DISCOUNT, bonus_discount=BONUS_DISCOUNT, entropy_cost=0.01)

    def update(running, inputs):
        policy, kept, lanes = running
        key, rate = inputs
        acting, learning = jax.random.split(key)
        lanes, rollout = played(who, env, policy, lanes, acting, as_bonus)
        policy, kept, told = who.learn(policy, kept, rollout, hyper, rate, learning, probes.LONGEST)
        return (policy, kept, lanes), told

    rates = RATE * (1 - jnp.arange(UPDATES) / UPDATES)
    running = policy, optimiser(policy, ENVS), probes.start(env, policy, ENVS, start_key)
    (policy, _, _), told = jax.lax.scan(update, running, (jax.random.split(key, UPDATES), rates))
    return policy, told


PLAIN = learner(epochs=2, minibatches=2, timeouts="bootstrap")
ENDING = learner(epochs=2, minibatches=2, timeouts="bootstrap", bonus_ends=True)


@pytest.mark.parametrize("as_bonus", [False, True], ids=["task", "bonus"])
def test_the_action_that_pays_is_taken(as_bonus):
    env = probes.choice()
    policy, told = trained(PLAIN, env, as_bonus)
    for cue in (0, 1):
        assert probes.along(env, policy, cue)[0][0, cue] > 0.95
    assert told["entropy"][-1] < 0.3 < 0.5 < told["entropy"][0]


@pytest.mark.parametrize("as_bonus", [False, True], ids=["task", "bonus"])
def test_what_was_shown_at_the_start_is_remembered_to_the_end(as_bonus):
    env = probes.recall(length=5)
    policy, _ = trained(PLAIN, env, as_bonus)
    for cue in (0, 1):
        assert probes.along(env, policy, cue)[0][-1, cue] > 0.9


def test_a_late_reward_is_discounted_by_the_steps_to_it_and_the_bonus_has_no_value():
    env = probes.delayed(length=5)
    policy, _ = trained(PLAIN, env)
    _, values = probes.along(env, policy)
    np.testing.assert_allclose(values[:, 0], DISCOUNT ** np.arange(4, -1, -1), atol=0.08)
    np.testing.assert_allclose(values[:, 1], np.zeros(5), atol=0.08)


@pytest.mark.parametrize(
    ("who", "value"),
    [(PLAIN, 1 / (1 - BONUS_DISCOUNT)), (ENDING, 1 + BONUS_DISCOUNT)],
    ids=["goes on", "ends"],
)
def test_the_value_of_a_steady_bonus_goes_on_over_ends_unless_it_ends_with_them(who, value):
    env = probes.constant(length=2)
    policy, _ = trained(who, env, True)
    assert probes.along(env, policy)[1][0, 1] == pytest.approx(value, rel=0.08)


def test_a_time_out_is_worth_what_the_policy_thinks_of_one_more_step():
    """It is never there: what it thinks need not be right, but all that it learns must agree with it."""
    env = probes.constant(length=4, timeout=True)
    policy, _ = trained(PLAIN, env)
    _, values, _ = policy.unroll(env.seen[:5, 0, None], jnp.arange(5)[:, None] == 0, policy.initial(1))
    left = np.arange(4, 0, -1)
    expected = (1 - DISCOUNT**left) / (1 - DISCOUNT) + DISCOUNT**left * float(values[4, 0, 0])
    np.testing.assert_allclose(values[:4, 0, 0], expected, rtol=0.05)
    assert values[0, 0, 0] > 1.5 * (1 - DISCOUNT**4) / (1 - DISCOUNT)
