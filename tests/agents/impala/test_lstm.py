"""The LSTM against torch's numbers, fast gradients against plain ones."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from gobi.agents.networks.lstm import LSTM, LSTMState, lstm

LSTM_GOLDEN = json.loads(Path(__file__).with_name("lstm_golden.json").read_text())
KEY = jax.random.key(0)


def test_the_lstm_gives_the_numbers_of_torch():
    golden = {name: jnp.array(numbers, jnp.float32) for name, numbers in LSTM_GOLDEN.items()}
    layer = LSTM(*(golden[n] for n in ("input_weight", "hidden_weight", "input_bias", "hidden_bias")))
    start = LSTMState(golden["hidden"], golden["cell"])
    states = layer.unroll(golden["inputs"], jnp.zeros((5, 2), bool), start)
    np.testing.assert_allclose(states.hidden, golden["outputs"], atol=1e-6)
    np.testing.assert_allclose(states.cell[-1], golden["last_cell"], atol=1e-6)


def lstm_inputs(units=6, steps=9, envs=3):
    layer = lstm(KEY, 4, units)
    keys = jax.random.split(jax.random.key(1), 4)
    state = LSTMState(jax.random.normal(keys[0], (envs, units)), jax.random.normal(keys[1], (envs, units)))
    firsts = jax.random.bernoulli(keys[2], 0.3, (steps, envs))
    return layer, jax.random.normal(keys[3], (steps, envs, 4)), firsts, state


def test_unrolling_is_stepping():
    layer, xs, firsts, state = lstm_inputs()
    states = layer.unroll(xs, firsts, state)
    step = jax.jit(LSTM.step)
    for t in range(len(xs)):
        state = step(layer, xs[t], firsts[t], state)
        np.testing.assert_allclose(states.hidden[t], state.hidden, atol=1e-6)
        np.testing.assert_allclose(states.cell[t], state.cell, atol=1e-6)


def test_the_first_step_of_an_episode_forgets_what_came_before():
    layer, xs, firsts, state = lstm_inputs()
    firsts = jnp.zeros_like(firsts).at[4].set(True)
    forgotten = layer.unroll(xs[4:], firsts[4:], layer.initial(3))
    np.testing.assert_array_equal(layer.unroll(xs, firsts, state).hidden[4:], forgotten.hidden)


def test_gradients_taken_after_the_scan_are_those_of_the_scan():
    """Stepping in a Python loop differentiates plainly; both outputs and all inputs take part."""
    layer, xs, firsts, state = lstm_inputs()
    weights = jax.random.normal(jax.random.key(2), (2, *xs.shape[:2], layer.units))

    def fast(layer, xs, state):
        states = layer.unroll(xs, firsts, state)
        return jnp.sum(weights[0] * states.hidden + weights[1] * states.cell)

    def plain(layer, xs, state):
        total = 0.0
        for t in range(len(xs)):
            projected = xs[t] @ layer.input_weight + layer.input_bias + layer.hidden_bias
            kept = jax.tree.map(lambda array, t=t: jnp.where(firsts[t][:, None], 0.0, array), state)
            i, f, g, o = jnp.split(projected + kept.hidden @ layer.hidden_weight, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * kept.cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            state = LSTMState(jax.nn.sigmoid(o) * jnp.tanh(cell), cell)
            total += jnp.sum(weights[0][t] * state.hidden + weights[1][t] * state.cell)
        return total

    ours = jax.jit(jax.grad(fast, (0, 1, 2)))(layer, xs, state)
    theirs = jax.jit(jax.grad(plain, (0, 1, 2)))(layer, xs, state)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), ours, theirs)


def test_gradients_of_several_seeds_are_those_of_each():
    _, xs, firsts, state = lstm_inputs()
    seeds = jax.vmap(lambda key: lstm(key, 4, 6))(jax.random.split(KEY, 3))

    def loss(layer):
        return jnp.sum(jnp.square(layer.unroll(xs, firsts, state).hidden))

    gradient = jax.jit(jax.grad(loss))
    together = jax.vmap(gradient)(seeds)
    for i in range(3):
        alone = gradient(jax.tree.map(lambda array, i=i: array[i], seeds))
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-4, atol=1e-5), together, alone
        )


def test_lstm_layers_start_uniform_within_the_bound_of_torch():
    layer = lstm(KEY, 50, 64)
    for array in jax.tree.leaves(layer):
        assert 0.95 / 8 < np.abs(array).max() <= 1 / 8
        np.testing.assert_allclose(np.asarray(array).mean(), 0.0, atol=0.02)
