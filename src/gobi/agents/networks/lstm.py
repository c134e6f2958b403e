"""An LSTM over unrolls: large matrix products, and little inside the scan."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Key

from gobi.networks.layers import product, weight_gradient


class LSTMState(eqx.Module):
    """What an LSTM layer remembers, always float32."""

    hidden: Float32[Array, "*batch units"]
    cell: Float32[Array, "*batch units"]


class LSTM(eqx.Module):
    """One LSTM layer with the gates input, forget, cell, output.

    Only the sum of the two biases matters. They are kept apart because torch has two, so that a step of the
    optimiser moves their sum twice as far.
    """

    input_weight: Float[Array, "*seeds inputs gates"]
    hidden_weight: Float[Array, "*seeds units gates"]
    input_bias: Float[Array, "*seeds gates"]
    hidden_bias: Float[Array, "*seeds gates"]

    @property
    def units(self) -> int:
        """How many numbers the hidden state has."""
        return self.hidden_weight.shape[-2]

    def initial(self, num_envs: int) -> LSTMState:
        """Remembers nothing."""
        zeros = jnp.zeros((num_envs, self.units), jnp.float32)
        return LSTMState(zeros, zeros)

    def output(self, x: Float[Array, "*batch inputs"], state: LSTMState) -> Float32[Array, "*batch units"]:
        """What is handed on after the input x led to the state."""
        del x
        return state.hidden

    def step(
        self, x: Float[Array, "envs inputs"], first: Bool[Array, " envs"], state: LSTMState
    ) -> LSTMState:
        """The state after one input; where `first`, what came before is forgotten."""
        return _step(self.hidden_weight, state, (self._projected(x), first))

    def unroll(
        self, xs: Float[Array, "time envs inputs"], firsts: Bool[Array, "time envs"], state: LSTMState
    ) -> LSTMState:
        """The states after each of the inputs."""
        return _recurrence(self.hidden_weight, self._projected(xs), firsts, state)

    def _projected(self, x):
        return product(x, self.input_weight) + (self.input_bias + self.hidden_bias)


def lstm(key: Key[Array, ""], inputs: int, units: int) -> LSTM:
    """Weights and biases as torch draws them: uniform within 1 / sqrt(units)."""
    shapes = (inputs, 4 * units), (units, 4 * units), (4 * units,), (4 * units,)
    bound = units**-0.5
    return LSTM(
        *(
            jax.random.uniform(k, shape, jnp.float32, -bound, bound)
            for k, shape in zip(jax.random.split(key, 4), shapes, strict=True)
        )
    )


def _kept(first, state: LSTMState) -> LSTMState:
    return jax.tree.map(lambda array: jnp.where(first[:, None], 0.0, array), state)


def _step(hidden_weight, state: LSTMState, inputs) -> LSTMState:
    projected, first = inputs
    state = _kept(first, state)
    gates = projected + product(state.hidden, hidden_weight)
    enter, keep, new, leave = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(keep) * state.cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
    return LSTMState(jax.nn.sigmoid(leave) * jnp.tanh(cell), cell)


def _scan(hidden_weight, projected, firsts, state: LSTMState) -> LSTMState:
    def step(state, inputs):
        state = _step(hidden_weight, state, inputs)
        return state, state

    return jax.lax.scan(step, state, (projected, firsts))[1]


@jax.custom_vjp
def _recurrence(hidden_weight, projected, firsts, state):
    """The scan over time. Its gradient to the weights is one product over all steps, taken after the scan:

    JAX by itself adds an outer product of the weights' size to a sum at every step.
    """
    return _scan(hidden_weight, projected, firsts, state)


def _recurrence_forward(hidden_weight, projected, firsts, state):
    states, pullback = jax.vjp(lambda p, s: _scan(hidden_weight, p, firsts, s), projected, state)
    hidden = jnp.concatenate([state.hidden[None], states.hidden[:-1]])
    hidden = jnp.where(firsts[..., None], 0.0, hidden).astype(hidden_weight.dtype)
    return states, (pullback, hidden)


def _recurrence_backward(saved, gradient):
    pullback, hidden = saved
    # What reaches the projected inputs is what reaches the gates.
    to_projected, to_state = pullback(gradient)
    return weight_gradient(hidden, to_projected, hidden.dtype), to_projected, None, to_state


_recurrence.defvjp(_recurrence_forward, _recurrence_backward)
