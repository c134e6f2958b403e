"""Step by step along sequences: from one belief to the next, and the gradient of a whole sequence at once."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32

from gobi.networks.layers import Linear, product, weight_gradient
from gobi.worlds.rssm.pictures import ALIGNED

LEAST_STD = 0.1
UNROLLED = 10
"""Steps of a sequence that a GPU takes without coming back to the loop, which it is slow to go round."""


class Belief(eqx.Module):
    """What is believed of the present state, always float32."""

    deterministic: Float32[Array, "*batch deterministic"]
    stochastic: Float32[Array, "*batch stochastic"]

    @property
    def features(self) -> Float32[Array, "*batch features"]:
        """Both parts, the stochastic one first."""
        return jnp.concatenate([self.stochastic, self.deterministic], axis=-1)


class Gaussian(eqx.Module):
    """A Gaussian whose dimensions are independent, always float32."""

    mean: Float32[Array, "*batch size"]
    std: Float32[Array, "*batch size"]

    def sample(self, noise: Float32[Array, "*batch size"]) -> Float32[Array, "*batch size"]:
        """What standard normal noise becomes."""
        return self.mean + self.std * noise


class Cell(eqx.Module):
    """The products on the way from one belief to the next: all that must be done step by step."""

    stochastic: Float[Array, "*seeds stochastic hidden"]
    gru_input: Linear
    gru_state: Linear
    deterministic: Float[Array, "*seeds deterministic hidden"]
    posterior: Linear


def parts(x: Float32[Array, "*batch size"], count: int) -> Any:
    """So many parts of the last axis. Their gradients are put together in one go.

    JAX by itself fills each of them up with zeros, and adds: many more operations at each step of a scan.
    """
    return _split(count, x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _split(count, x):
    return tuple(jnp.split(x, count, axis=-1))


def _split_forward(count, x):
    return _split(count, x), None


def _split_backward(count, _, gradients):
    del count
    return (jnp.concatenate(gradients, axis=-1),)


_split.defvjp(_split_forward, _split_backward)


def gaussian(outputs: Float32[Array, "*batch outputs"]) -> Gaussian:
    """Means, and spreads that stay above `LEAST_STD`."""
    mean, spread = parts(outputs, 2)
    return Gaussian(mean, jax.nn.softplus(spread) + LEAST_STD)


def advanced(cell: Cell, belief: Belief, of_action: Any, taps: Any = (0.0, 0.0)) -> Any:
    """The deterministic part after an action; and the GRU's input on the way."""
    entering = jax.nn.elu(product(belief.stochastic, cell.stochastic) + of_action)
    before = belief.deterministic
    inputs = parts(cell.gru_input(entering) + taps[0], 3)
    states = parts(cell.gru_state(before) + taps[1], 3)
    update, reset = (jax.nn.sigmoid(inputs[gate] + states[gate]) for gate in (0, 1))
    new = jnp.tanh(inputs[2] + reset * states[2])
    return update * before + (1 - update) * new, entering


def believed(cell: Cell, deterministic: Any, of_embedding: Any, tap: Any = 0.0) -> Any:
    """The posterior; and its hidden layer."""
    hidden = jax.nn.elu(product(deterministic, cell.deterministic) + of_embedding)
    return gaussian(cell.posterior(hidden) + tap), hidden


def unrolled(cell: Cell, of_actions: Any, of_embeddings: Any, noise: Any) -> tuple[Belief, Gaussian]:
    """Beliefs and posteriors along sequences that start from nothing.

    of_actions, of_embeddings:  what each action and each embedded frame adds to the layer that it enters.
    """
    aligned = cell.gru_state.weight.dtype == jnp.bfloat16
    return (_unrolled_aligned if aligned else _unrolled)(cell, of_actions, of_embeddings, noise)


def _unrolled(cell: Cell, of_actions: Any, of_embeddings: Any, noise: Any) -> tuple[Belief, Gaussian]:
    sizes = cell.deterministic.shape[-2], cell.stochastic.shape[-2]
    start = Belief(*(jnp.zeros((noise.shape[1], size)) for size in sizes))
    return _recurrence(cell, of_actions, of_embeddings, noise, start)


def _unrolled_aligned(cell: Cell, of_actions: Any, of_embeddings: Any, noise: Any) -> tuple[Belief, Gaussian]:
    """The same; meanwhile the batch and the stochastic part are filled up to multiples of `ALIGNED`.

    A GPU has quicker products for such sizes.
    """
    _, batch, stochastic = noise.shape
    more = -stochastic % ALIGNED

    def filled(array: Any, more: int = 0) -> Any:
        return jnp.pad(array, [(0, 0), (0, -batch % ALIGNED), (0, more)])

    beliefs, posterior = _unrolled(
        _widened(cell, more), filled(of_actions), filled(of_embeddings), filled(noise, more)
    )
    cut = jax.tree.map(lambda array: array[:, :batch, :stochastic], (beliefs.stochastic, posterior))
    return Belief(beliefs.deterministic[:, :batch], cut[0]), cut[1]


def _widened(cell: Cell, more: int) -> Cell:
    """The same with so many dimensions more in the stochastic part, which stay zero if their noise does."""

    def widened(outputs: Any) -> Any:
        """Means and spreads, so many more of each."""
        halves = jnp.stack(jnp.split(outputs, 2, axis=-1), axis=-2)
        halves = jnp.pad(halves, [(0, 0)] * (halves.ndim - 1) + [(0, more)])
        return halves.reshape(*outputs.shape[:-1], -1)

    return Cell(
        jnp.pad(cell.stochastic, [(0, more), (0, 0)]),
        cell.gru_input,
        cell.gru_state,
        cell.deterministic,
        Linear(widened(cell.posterior.weight), widened(cell.posterior.bias)),
    )


def _scan(cell: Cell, of_actions: Any, of_embeddings: Any, noise: Any, start: Belief, taps: Any) -> Any:
    """Beliefs and posteriors after each step, and what went into the products of the cell."""

    def step(belief, now):
        of_action, of_embedding, noise, (*gru_taps, posterior_tap) = now
        deterministic, entering = advanced(cell, belief, of_action, gru_taps)
        posterior, hidden = believed(cell, deterministic, of_embedding, posterior_tap)
        following = Belief(deterministic, posterior.sample(noise))
        return following, (following, posterior, (belief, entering, hidden))

    # A CPU gains nothing from it and takes longer to compile.
    unroll = 1 if jax.default_backend() == "cpu" else min(UNROLLED, noise.shape[0])
    return jax.lax.scan(step, start, (of_actions, of_embeddings, noise, taps), unroll=unroll)[1]


@jax.custom_vjp
def _recurrence(
    cell: Cell, of_actions: Any, of_embeddings: Any, noise: Any, start: Belief
) -> tuple[Belief, Gaussian]:
    """The scan over time. Its gradient to the weights is one product over all steps, taken after the scan:

    JAX by itself adds an outer product of the weights' size to a sum at every step.
    """
    return _scan(cell, of_actions, of_embeddings, noise, start, _taps(cell, noise))[:2]


def _taps(cell: Cell, noise: Any) -> Any:
    """Zeros to be added to the results of products: what reaches them is what reaches the products."""
    layers = cell.gru_input, cell.gru_state, cell.posterior
    return tuple(jnp.zeros((*noise.shape[:2], layer.bias.shape[-1])) for layer in layers)


def _recurrence_forward(cell, of_actions, of_embeddings, noise, start):
    def scan(of_actions, of_embeddings, noise, start, taps):
        beliefs, posterior, inside = _scan(cell, of_actions, of_embeddings, noise, start, taps)
        return (beliefs, posterior), inside

    primals = of_actions, of_embeddings, noise, start, _taps(cell, noise)
    made, pullback, inside = jax.vjp(scan, *primals, has_aux=True)
    return made, (pullback, inside, made[0].deterministic, cell)


def _recurrence_backward(saved, gradient):
    pullback, (before, entering, hidden), after, cell = saved
    to_actions, to_embeddings, to_noise, to_start, taps = pullback(gradient)

    def layer(linear, x, gradient):
        to_bias = jnp.sum(gradient, axis=(0, 1)).astype(linear.bias.dtype)
        return Linear(weight_gradient(x, gradient, linear.weight.dtype), to_bias)

    to_cell = Cell(
        # What reaches a sum reaches each of its terms.
        weight_gradient(before.stochastic, to_actions, cell.stochastic.dtype),
        layer(cell.gru_input, entering, taps[0]),
        layer(cell.gru_state, before.deterministic, taps[1]),
        weight_gradient(after, to_embeddings, cell.deterministic.dtype),
        layer(cell.posterior, hidden, taps[2]),
    )
    return to_cell, to_actions, to_embeddings, to_noise, to_start


_recurrence.defvjp(_recurrence_forward, _recurrence_backward)
