"""Policies: one interface for all, an unroll that equals stepping, and the sizes of paper and code."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.agents.networks.grid import NETWORKS, build, compact, large
from gobi.errors import GobiError
from gobi.types import Spec

MINIGRID = Spec("Task", (7, 7, 3), "uint8", num_actions=7, max_steps=100)
KEY = jax.random.key(0)

made = jax.jit(lambda key: compact(MINIGRID, key, units=24))
step = jax.jit(lambda policy, *inputs: policy(*inputs))
unrolled = jax.jit(lambda policy, *inputs: policy.unroll(*inputs))


@functools.cache
def small(name):
    """The same networks with fewer units and channels, so that tests are quick."""
    if name == "compact":
        return made(KEY)
    sizes = {"units": 24, "channels": (8, 16, 32)}
    layers = 1 if name == "paper" else 2
    return jax.jit(lambda key: large(MINIGRID, key, layers, deep_heads=name == "paper", **sizes))(KEY)


def views(*shape, key=KEY):
    return jax.random.randint(key, (*shape, 7, 7, 3), 0, jnp.array([11, 6, 3])).astype(jnp.uint8)


def count(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize("name", NETWORKS)
def test_unrolling_is_stepping(name):
    policy = small(name)
    observations = views(6, 3)
    firsts = jnp.array([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]], bool)
    carry = jax.tree.map(lambda array: array + 0.5, policy.initial(3))
    logits, values, carries = unrolled(policy, observations, firsts, carry)
    assert (logits.shape, values.shape) == ((6, 3, 7), (6, 3))
    for t in range(6):
        step_logits, step_values, carry = step(policy, observations[t], firsts[t], carry)
        np.testing.assert_allclose(logits[t], step_logits, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(values[t], step_values, rtol=1e-4, atol=1e-5)
        after = jax.tree.map(lambda array, t=t: array[t], carries)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), after, carry)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_episode_begins_with_an_empty_memory(name):
    policy = small(name)
    dirty = jax.tree.map(lambda array: array + 3.0, policy.initial(2))
    logits, values, _ = step(policy, views(2), jnp.array([True, False]), dirty)
    clean_logits, clean_values, _ = step(policy, views(2), jnp.array([False, False]), policy.initial(2))
    np.testing.assert_array_equal(logits[0], clean_logits[0])
    np.testing.assert_array_equal(values[0], clean_values[0])
    assert not np.allclose(logits[1], clean_logits[1])


@pytest.mark.parametrize("name", NETWORKS)
def test_every_cell_channel_and_value_seen_matters(name):
    policy = small(name)
    plain = jnp.ones((1, 7, 7, 3), jnp.uint8)
    first, carry = jnp.ones(1, bool), policy.initial(1)
    before, _, _ = step(policy, plain, first, carry)
    for x, y, channel in [(0, 0, 0), (6, 6, 2), (3, 5, 1), (3, 6, 0), (6, 0, 2), (2, 4, 1)]:
        after, _, _ = step(policy, plain.at[0, x, y, channel].set(2), first, carry)
        assert not np.allclose(before, after, atol=1e-6), (x, y, channel)


@pytest.mark.parametrize("name", NETWORKS)
def test_half_precision_weights_give_float32_and_nearly_the_same(name):
    policy = small(name)
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), policy)
    inputs = views(5, 4), jnp.zeros((5, 4), bool), policy.initial(4)
    logits, values, carries = unrolled(half, *inputs)
    assert {leaf.dtype for leaf in jax.tree.leaves((logits, values, carries))} == {jnp.dtype("float32")}
    whole_logits, whole_values, _ = unrolled(policy, *inputs)
    np.testing.assert_allclose(logits, whole_logits, atol=0.03)
    np.testing.assert_allclose(values, whole_values, atol=0.03)


def test_seeds_are_a_vmap_axis():
    keys = jax.random.split(KEY, 3)
    policies = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(made, keys))
    carries = jax.vmap(lambda policy: policy.initial(4))(policies)
    observations, first = views(3, 4), jnp.zeros((3, 4), bool)
    together, _, _ = jax.vmap(step)(policies, observations, first, carries)
    for i in range(3):
        policy = made(keys[i])
        alone, _, _ = step(policy, observations[i], first[i], policy.initial(4))
        np.testing.assert_allclose(together[i], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "layers"), [("paper", 1), ("coded", 2), ("compact", 1)])
def test_networks_have_the_sizes_that_were_published(name, layers):
    policy = jax.eval_shape(lambda: build(name, MINIGRID, jax.random.key(0)))
    assert len(policy.cores) == layers
    if name == "compact":
        assert count(policy) < 200_000
        return
    assert [one.linear.weight.shape for one in policy.torso.convolutions.convolutions] == [
        (27, 32),
        (288, 128),
        (1152, 512),
    ]
    assert [layer.weight.shape for layer in policy.torso.dense] == [(2048, 1024), (1024, 1024)]
    assert count(policy.torso) == 3_776_000
    assert count(policy.cores) == layers * 8_396_800
    deep = 2 * (1024 * 1024 + 1024)
    assert count(policy.heads) == 8 * 1025 + (deep if name == "paper" else 0)


def test_heads_start_orthogonal_each_by_itself():
    weight = np.asarray(small("coded").heads.output.weight)
    np.testing.assert_allclose(weight[:, :7].T @ weight[:, :7], np.eye(7), atol=1e-5)
    np.testing.assert_allclose(np.sum(weight[:, 7] ** 2), 1.0, atol=1e-5)


@pytest.mark.parametrize("shape", [(2,), (5, 5, 3), (3, 4)])
def test_the_compact_network_tells_any_bytes_apart(shape):
    policy = compact(Spec("Other", shape, "uint8", num_actions=3, max_steps=9), KEY, units=16)
    observations = jnp.stack([jnp.full(shape, value, jnp.uint8) for value in (0, 1, 127, 255)])
    logits, _, _ = step(policy, observations, jnp.ones(4, bool), policy.initial(4))
    assert logits.shape == (4, 3)
    assert len(np.unique(np.asarray(logits), axis=0)) == 4


def test_leaves_are_float_arrays_only():
    for name in NETWORKS:
        assert {leaf.dtype for leaf in jax.tree.leaves(small(name))} == {jnp.dtype("float32")}


def test_an_unknown_network_names_the_nearest():
    with pytest.raises(GobiError, match="unknown network 'papre'; did you mean paper"):
        build("papre", MINIGRID, KEY)


def test_the_large_networks_refuse_what_they_cannot_see():
    with pytest.raises(GobiError, match=r"needs observations \[width, height, channels\]; Other gives \[4\]"):
        build("paper", Spec("Other", (4,), "uint8", 3, 9), KEY)


def test_only_bytes_are_seen():
    with pytest.raises(GobiError, match="Other gives float32"):
        build("compact", Spec("Other", (4,), "float32", 3, 9), KEY)
