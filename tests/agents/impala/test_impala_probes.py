"""IMPALA on probe environments: it learns the values and policies that are known to be right."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import probes
import pytest


def trained(env: probes.Probe, discount: float = 0.9, bootstrap: bool = False):
    policy, metrics = probes.train(env, jax.random.key(0), jnp.float32(discount), jnp.array(bootstrap))
    return policy, jax.tree.map(np.asarray, metrics)


def test_the_value_of_one_step_is_its_reward():
    env = probes.constant()
    policy, metrics = trained(env)
    np.testing.assert_allclose(probes.along(env, policy)[1], [1.0], atol=0.02)
    assert metrics["value_error"][-1] < 0.02 < metrics["value_error"][0]


def test_the_value_depends_on_what_is_seen():
    env = probes.omen()
    policy, _ = trained(env)
    values = [probes.along(env, policy, cue)[1][0] for cue in (0, 1)]
    np.testing.assert_allclose(values, [-1.0, 1.0], atol=0.05)


@pytest.mark.parametrize("discount", [0.5, 0.9])
def test_a_late_reward_is_discounted_by_the_steps_to_it(discount):
    env = probes.delayed(length=5)
    policy, _ = trained(env, discount)
    np.testing.assert_allclose(probes.along(env, policy)[1], discount ** np.arange(4, -1, -1), atol=0.05)


def test_the_action_that_pays_is_taken():
    env = probes.choice()
    policy, metrics = trained(env)
    for cue in (0, 1):
        chances, values = probes.along(env, policy, cue)
        assert chances[0, cue] > 0.95
        np.testing.assert_allclose(values, [1.0], atol=0.1)
    assert metrics["entropy"][-1] < 0.2 < 0.6 < metrics["entropy"][0]


def test_what_was_shown_at_the_start_is_remembered_to_the_end():
    env = probes.recall(length=5)
    policy, metrics = trained(env)
    for cue in (0, 1):
        assert probes.along(env, policy, cue)[0][-1, cue] > 0.95
    assert metrics["reward"][-50:].mean() > 0.95 / 5


def test_memory_does_not_reach_over_the_end_of_an_episode():
    env = probes.recall(length=5)
    policy, _ = trained(env)
    observations = jnp.concatenate([env.seen[:5, 1], env.seen[:5, 0]])[:, None]
    first = jnp.arange(10)[:, None] % 5 == 0
    logits, _, _ = policy.unroll(observations, first, policy.initial(1))
    np.testing.assert_allclose(jax.nn.softmax(logits)[5:, 0], probes.along(env, policy, 0)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("bootstrap", "value"), [(True, 1 / (1 - 0.8)), (False, (1 - 0.8**4) / (1 - 0.8))], ids=["valued", "not"]
)
def test_a_time_out_ends_the_value_unless_it_is_bootstrapped(bootstrap, value):
    env = probes.constant(length=4, timeout=True)
    policy, _ = trained(env, 0.8, bootstrap)
    np.testing.assert_allclose(probes.along(env, policy)[1][0], value, rtol=0.05)
