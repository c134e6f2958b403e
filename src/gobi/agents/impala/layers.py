"""Layers for rows of observations and for recurrence: large matrix products, and little inside the scan.

Everything computes in the dtype of its own weights, so that a caller casts once per update; sums are float32.
"""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Key, Num

from gobi.initial import orthogonal

RELU_GAIN = float(np.sqrt(2.0))


def product(x: Float[Array, "*rows n"], weight: Float[Array, "n m"]) -> Float32[Array, "*rows m"]:
    """x @ weight in the weight's dtype with float32 sums, forwards and backwards.

    Left to itself, JAX multiplies a float32 gradient with bfloat16 weights in float32.
    """
    return _product(jnp.dtype(x.dtype).name, x, weight)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _product(dtype, x, weight):
    return jnp.matmul(x.astype(weight.dtype), weight, preferred_element_type=jnp.float32)


def _product_forward(dtype, x, weight):
    x = x.astype(weight.dtype)
    return jnp.matmul(x, weight, preferred_element_type=jnp.float32), (x, weight)


def _product_backward(dtype, saved, gradient):
    x, weight = saved
    gradient = gradient.astype(weight.dtype)
    to_x = jnp.matmul(gradient, weight.T, preferred_element_type=jnp.float32)
    return to_x.astype(dtype), _weight_gradient(x, gradient, weight.dtype)


_product.defvjp(_product_forward, _product_backward)


def _weight_gradient(x, gradient, dtype):
    rows = x.reshape(-1, x.shape[-1]).astype(dtype)
    gradient = gradient.reshape(-1, gradient.shape[-1]).astype(dtype)
    return jnp.matmul(rows.T, gradient, preferred_element_type=jnp.float32).astype(dtype)


class Linear(eqx.Module):
    """x @ weight + bias."""

    weight: Float[Array, "*seeds inputs outputs"]
    bias: Float[Array, "*seeds outputs"]

    def __call__(self, x: Float[Array, "*rows inputs"]) -> Float32[Array, "*rows outputs"]:
        """The affine map of each row."""
        return product(x, self.weight) + self.bias


def linear(key: Key[Array, ""], inputs: int, outputs: int, gain: float = 1.0) -> Linear:
    """Orthogonal weights and zero biases."""
    return Linear(orthogonal(key, inputs, outputs, gain), jnp.zeros(outputs))


def patches(x: Num[Array, "rows w h c"], stride: int, border: int) -> Num[Array, "rows w2 h2 9 c"]:
    """The 3x3 neighbourhoods of every `stride`-th cell, with a border of zeros around all.

    A convolution is then one matrix product. Under `vmap` over seeds it stays one, batched; XLA's own
    convolution becomes a grouped one, which is slow, above all backwards.
    """
    x = jnp.pad(x, ((0, 0), (border, border), (border, border), (0, 0)))
    _, width, height, _ = x.shape
    shifted = [
        x[:, i : width - 2 + i : stride, j : height - 2 + j : stride] for i in range(3) for j in range(3)
    ]
    return jnp.stack(shifted, axis=3)


def num_patches(length: int, stride: int, border: int) -> int:
    """How many of them there are along a side."""
    return (length + 2 * border - 3) // stride + 1


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
    return _weight_gradient(hidden, to_projected, hidden.dtype), to_projected, None, to_state


_recurrence.defvjp(_recurrence_forward, _recurrence_backward)
