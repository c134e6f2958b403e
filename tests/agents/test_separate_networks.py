"""Policies for any task: what reads the observations, cores, and values in units of another scale."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.agents.networks import build, grid, separate
from gobi.agents.value_scale import ValueScale, first_value_scale, rescaled
from gobi.types import Spec

BANDIT = Spec("bandit", (1,), "float32", num_actions=3, max_steps=1)
VIEW = Spec("view", (7, 7, 3), "uint8", num_actions=3, max_steps=9)


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
    assert separate.reads(spec) == kind

    def looked(key):
        policy = build("feedforward", spec, key, units=8)
        return policy(jnp.ones((2, *shape), dtype), jnp.ones(2, bool), policy.initial(2))

    outputs, values, carry = jax.eval_shape(looked, jax.random.key(0))
    assert (outputs.shape, values.shape, carry) == ((2, 4), (2,), ())


@pytest.mark.parametrize("core", ["lstm", "mingru"])
@pytest.mark.parametrize("values", [None, 2])
def test_a_recurrent_policy_remembers_until_an_episode_begins(core, values):
    policy = separate.build(BANDIT, jax.random.key(0), "recurrent", units=8, core=core, values=values)
    seen = jnp.ones((3, 2, 1)) * jnp.arange(3)[:, None, None]
    first = jnp.array([[True, True], [False, False], [False, True]])
    outputs, all_values, carries = jax.jit(type(policy).unroll)(policy, seen, first, policy.initial(2))
    assert all_values.shape == ((3, 2) if values is None else (3, 2, values))
    carry, stepped, look = policy.initial(2), [], jax.jit(type(policy).__call__)
    for now, begins in zip(seen, first, strict=True):
        *answers, carry = look(policy, now, begins, carry)
        stepped.append(answers)
    np.testing.assert_allclose(outputs, jnp.stack([one for one, _ in stepped]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(all_values, jnp.stack([one for _, one in stepped]), rtol=1e-5, atol=1e-6)
    last = jax.tree.map(lambda part: part[-1], carries)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), last, carry)
    assert not np.allclose(all_values[2, 0], all_values[2, 1])


@pytest.mark.parametrize(
    "make",
    [
        lambda key: build("feedforward", BANDIT, key, units=8),
        lambda key: grid.compact(VIEW, key, units=8, channels=4),
        lambda key: grid.large(VIEW, key, layers=1, deep_heads=True, units=8, channels=(4, 4, 4)),
    ],
    ids=["separate", "compact", "deep heads"],
)
def test_another_scale_leaves_what_values_are_worth_and_what_is_done(make):
    policy, scale = make(jax.random.key(0)), ValueScale(*map(jnp.float32, (40, 2000, 3)))
    other = rescaled(policy, first_value_scale(), scale)
    shape = (2, 7, 7, 3) if isinstance(policy, grid.Policy) else (2, 1)
    seen = jnp.arange(np.prod(shape)).reshape(shape).astype("uint8" if len(shape) == 4 else "float32")

    def looked(policy):
        outputs, values, _ = policy(seen % 5, jnp.ones(2, bool), policy.initial(2))
        return outputs, values

    (outputs, values), (same, others) = jax.jit(looked)(policy), jax.jit(looked)(other)
    np.testing.assert_array_equal(outputs, same)
    np.testing.assert_allclose(first_value_scale().plain(values), scale.plain(others), rtol=1e-4, atol=1e-4)
    assert float(scale.deviation) == 20
    assert not np.allclose(values, others)
