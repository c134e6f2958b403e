"""V-trace against rlax's numbers and against its definition, summed by brute force."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gobi.agents.impala.vtrace import vtrace

CASES = json.loads(Path(__file__).with_name("vtrace_golden.json").read_text())


def definition(values, bootstrap, rewards, discounts, log_rhos, clip_rho, clip_c, clip_pg_rho):
    """Remark 1's sum over products, in float64."""
    steps = len(values)
    rhos = np.exp(np.asarray(log_rhos, np.float64))
    after = np.append(values[1:], bootstrap)
    delta = np.minimum(clip_rho, rhos) * (rewards + discounts * after - values)
    decay = discounts * np.minimum(clip_c, rhos)
    targets = np.array(
        [values[s] + sum(np.prod(decay[s:t]) * delta[t] for t in range(s, steps)) for s in range(steps)]
    )
    following = np.append(targets[1:], bootstrap)
    return targets, np.minimum(clip_pg_rho, rhos) * (rewards + discounts * following - values)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case['values'])} steps")
def test_it_gives_the_numbers_of_rlax(case, compiled):
    case = {name: jnp.array(value, jnp.float32) for name, value in case.items()}
    targets, advantages = case.pop("targets"), case.pop("advantages")
    trace = (jax.jit(vtrace) if compiled else vtrace)(**case)
    np.testing.assert_allclose(trace.targets, targets, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(trace.advantages, advantages, rtol=2e-5, atol=2e-6)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.sampled_from([1, 2, 13, 100]),
    clips=st.tuples(*[st.sampled_from([0.5, 1.0, 2.0])] * 3),
)
def test_it_is_the_sum_of_its_definition(seed, steps, clips):
    draw = np.random.default_rng(seed)
    values, rewards = draw.normal(size=(2, steps)).astype(np.float32)
    bootstrap = np.float32(draw.normal())
    discounts = draw.choice([0.0, 0.95, 0.99], size=steps).astype(np.float32)
    log_rhos = draw.normal(size=steps).astype(np.float32)
    trace = vtrace(*map(jnp.asarray, (values, bootstrap, rewards, discounts, log_rhos)), *clips)
    targets, advantages = definition(values, bootstrap, rewards, discounts, log_rhos, *clips)
    np.testing.assert_allclose(trace.targets, targets, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(trace.advantages, advantages, rtol=1e-4, atol=1e-4)


def test_on_the_policy_targets_are_discounted_returns():
    rewards = jnp.array([0.0, 0.0, 1.0, 0.0, 2.0])
    discounts = jnp.array([0.9, 0.9, 0.0, 0.9, 0.9])
    trace = vtrace(jnp.arange(5.0), jnp.float32(10.0), rewards, discounts, jnp.zeros(5))
    np.testing.assert_allclose(trace.targets, [0.81, 0.9, 1.0, 0.9 * 11, 11.0], rtol=1e-6)


def test_nothing_before_an_unlikely_action_is_corrected_by_what_followed_it():
    log_rhos = jnp.array([0.0, -40.0, 0.0])
    trace = vtrace(jnp.zeros(3), jnp.float32(0.0), jnp.array([0.0, 5.0, 7.0]), jnp.ones(3), log_rhos)
    np.testing.assert_allclose(trace.targets, [0.0, 0.0, 7.0], atol=1e-6)


def test_a_batch_of_trajectories_is_each_of_them():
    draw = np.random.default_rng(3)
    batch = [jnp.asarray(draw.normal(size=(4, 9)), jnp.float32) for _ in range(4)]
    bootstrap = jnp.arange(4.0)
    together = jax.vmap(vtrace)(batch[0], bootstrap, *batch[1:])
    for i in range(4):
        alone = vtrace(batch[0][i], bootstrap[i], *(array[i] for array in batch[1:]))
        np.testing.assert_allclose(together.targets[i], alone.targets, rtol=1e-5)


def test_no_gradient_flows_through_it():
    ones = jnp.ones(4)
    gradient = jax.grad(lambda v: vtrace(v, jnp.float32(1.0), ones, ones, ones).advantages.sum())(ones)
    np.testing.assert_array_equal(gradient, 0.0)
