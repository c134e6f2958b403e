"""MinGRU against a loop in numpy; and policies that unroll as they acted, whatever remembers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ppo_cases import ENVS, SPEC, policy, rollout

from gobi.agents.ppo import CORES, MinGRUState, build, mingru
from gobi.errors import GobiError

UNITS = 5

layer = jax.jit(lambda key: mingru(key, UNITS))(jax.random.key(0))
unrolled = jax.jit(lambda layer, *inputs: layer.unroll(*inputs).hidden)
stepped = jax.jit(lambda layer, *inputs: layer.step(*inputs).hidden)
act = jax.jit(lambda policy, *inputs: policy(*inputs))
over_time = jax.jit(lambda policy, *inputs: policy.unroll(*inputs))


def drawn(steps, seed=0):
    random = np.random.default_rng(seed)
    xs = random.normal(size=(steps, ENVS, UNITS)).astype(np.float32)
    return xs, random.random((steps, ENVS)) < 0.2, random.normal(size=(ENVS, UNITS)).astype(np.float32)


def by_hand(xs, firsts, hidden):
    """One environment and one step at a time, in float64."""
    weight, bias = np.asarray(layer.gates.weight, np.float64), np.asarray(layer.gates.bias, np.float64)
    states = np.zeros(xs.shape)
    for e in range(xs.shape[1]):
        state = hidden[e].astype(np.float64)
        for t in range(len(xs)):
            if firsts[t, e]:
                state = np.zeros(UNITS)
            gates = xs[t, e] @ weight + bias
            update = 1 / (1 + np.exp(-gates[:UNITS]))
            state = (1 - update) * state + update * np.tanh(gates[UNITS:])
            states[t, e] = state
    return states


# Fewer steps than the scan compiles as one, more, and a number that it does not divide.
@pytest.mark.parametrize("steps", [1, 7, 16, 37])
def test_the_states_are_those_of_the_recurrence_written_out(steps):
    xs, firsts, hidden = drawn(steps)
    ours = unrolled(layer, xs, firsts, MinGRUState(jnp.asarray(hidden)))
    np.testing.assert_allclose(ours, by_hand(xs, firsts, hidden), rtol=1e-5, atol=1e-6)


def test_a_step_is_an_unroll_of_one():
    xs, firsts, hidden = drawn(1)
    state = MinGRUState(jnp.asarray(hidden))
    np.testing.assert_allclose(
        stepped(layer, xs[0], firsts[0], state), unrolled(layer, xs, firsts, state)[0], rtol=1e-6, atol=1e-7
    )


def test_where_an_episode_begins_nothing_is_left_of_what_came_before():
    xs, _, hidden = drawn(6)
    firsts = np.zeros((6, ENVS), bool)
    firsts[3, :2] = True
    ours, others = (unrolled(layer, xs, firsts, MinGRUState(jnp.asarray(h))) for h in (hidden, hidden + 1))
    np.testing.assert_array_equal(ours[3:, :2], others[3:, :2])
    assert np.all(np.asarray(ours[:3]) != np.asarray(others[:3]))
    assert np.all(np.asarray(ours[3:, 2:]) != np.asarray(others[3:, 2:]))


def test_what_is_handed_on_is_the_state_and_the_input():
    xs, _, hidden = drawn(1)
    ours = layer.output(jnp.asarray(xs[0]), MinGRUState(jnp.asarray(hidden)))
    np.testing.assert_array_equal(ours, hidden + xs[0])


def test_units_remember_for_different_times_to_begin_with():
    kept = 1 - jax.nn.sigmoid(layer.gates.bias[:UNITS])
    assert kept[0] == pytest.approx(0.982, abs=1e-3)
    assert kept[-1] == pytest.approx(0.5)
    assert np.all(np.diff(kept) < 0)


@pytest.mark.parametrize("core", CORES)
def test_unrolled_from_the_stored_carry_a_policy_does_what_it_did_step_by_step(core):
    mine = policy(core)
    played = rollout(mine, core)
    assert played.first.any()
    logits, values, carries = over_time(mine, played.observations[:-1], played.first[:-1], played.carry)
    log_taken = jnp.take_along_axis(jax.nn.log_softmax(logits), played.actions[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(log_taken, played.noted.log_taken, atol=1e-5)
    np.testing.assert_allclose(values, played.noted.values, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[-1], b, atol=1e-5), carries, played.next_carry)


@pytest.mark.parametrize("core", CORES)
def test_what_a_policy_does_depends_on_its_carry_but_not_where_an_episode_begins(core):
    mine = policy(core)
    played = rollout(mine, core)
    first = jnp.arange(ENVS) % 2 == 0
    with_carry, _, _ = act(mine, played.observations[0], first, played.carry)
    without, _, _ = act(mine, played.observations[0], first, mine.initial(ENVS))
    same = np.isclose(with_carry, without, atol=1e-6).all(axis=-1)
    np.testing.assert_array_equal(same, first)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("values", [1, 2])
def test_a_new_policy_prefers_no_action_and_has_as_many_values_as_asked_for(core, values):
    new = jax.jit(lambda key: build("compact", core, values, SPEC, key))(jax.random.key(0))
    played = rollout(policy(core), core)
    logits, told, _ = act(new, played.observations[0], played.first[0], new.initial(ENVS))
    assert (logits.shape, told.shape) == ((ENVS, SPEC.num_actions), (ENVS, values))
    np.testing.assert_allclose(jax.nn.softmax(logits), np.full((ENVS, 4), 0.25), atol=0.02)


def test_another_core_is_refused():
    with pytest.raises(GobiError, match="core"):
        build("compact", "gru", 1, SPEC, jax.random.key(0))
