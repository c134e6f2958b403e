"""The recurrent state-space model: what is believed of the state, before and after seeing the next frame.

A belief has a deterministic part (a GRU's state) and a stochastic one (drawn from a Gaussian). An action
leads to the next deterministic part; the prior guesses the stochastic one from it, the posterior from it and
the frame that really came (Hafner et al. 2019, as in Dreamer).
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key

from gobi.networks.initial import orthogonal
from gobi.networks.layers import Linear, product, weight_gradient
from gobi.worlds.rssm.pictures import glorot_linear

LEAST_STD = 0.1
UNROLLED = 5
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


class Dynamics(eqx.Module):
    """The weights of the state-space model.

    enters:        from the stochastic part and the action to the GRU's input.
    gru_...:       the GRU's gates update, reset, new. The reset gate acts after the product, as in Keras.
    prior_...:     from the deterministic part to mean and spread of the stochastic one.
    posterior_...: the same from the deterministic part and the embedded frame.
    """

    enters: Linear
    gru_input: Linear
    gru_state: Linear
    prior_hidden: Linear
    prior_out: Linear
    posterior_hidden: Linear
    posterior_out: Linear

    @property
    def deterministic(self) -> int:
        """Size of the deterministic part."""
        return self.gru_state.weight.shape[-2]

    @property
    def stochastic(self) -> int:
        """Size of the stochastic part."""
        return self.prior_out.weight.shape[-1] // 2

    def first(self, batch: tuple[int, ...] = ()) -> Belief:
        """The belief before an episode's, or a sequence's, first frame: zero."""
        return Belief(jnp.zeros((*batch, self.deterministic)), jnp.zeros((*batch, self.stochastic)))

    def advance(
        self, belief: Belief, action: Float32[Array, "*batch size"]
    ) -> Float32[Array, "*batch deterministic"]:
        """The deterministic part after an action."""
        return _advanced(self.cell, belief, self.of_action(action))[0]

    def prior(self, deterministic: Float32[Array, "*batch deterministic"]) -> Gaussian:
        """What the stochastic part may be, before the frame is seen."""
        return _gaussian(self.prior_out(jax.nn.elu(self.prior_hidden(deterministic))))

    def posterior(
        self,
        deterministic: Float32[Array, "*batch deterministic"],
        embedding: Float[Array, "*batch embedding"],
    ) -> Gaussian:
        """The same after the frame is seen."""
        return _posterior(self.cell, deterministic, self.of_embedding(embedding))[0]

    @property
    def cell(self) -> Cell:
        """What depends on the belief before."""
        return Cell(
            self.enters.weight[: self.stochastic],
            self.gru_input,
            self.gru_state,
            self.posterior_hidden.weight[: self.deterministic],
            self.posterior_out,
        )

    def of_action(self, action: Float32[Array, "*batch size"]) -> Float32[Array, "*batch hidden"]:
        """What an action adds to the first layer; for a whole sequence at once."""
        return product(action, self.enters.weight[self.stochastic :]) + self.enters.bias

    def of_embedding(self, embedding: Float[Array, "*batch embedding"]) -> Float32[Array, "*batch hidden"]:
        """What an embedded frame adds to the posterior's first layer; for a whole sequence at once."""
        weight = self.posterior_hidden.weight[self.deterministic :]
        return product(embedding, weight) + self.posterior_hidden.bias

    def unroll(
        self,
        actions: Float32[Array, "time batch size"],
        embeddings: Float[Array, "time batch embedding"],
        noise: Float32[Array, "time batch stochastic"],
    ) -> tuple[Belief, Gaussian, Gaussian]:
        """Beliefs, posteriors and priors along sequences that start from nothing.

        actions:     each led to the frame of the same place.
        noise:       standard normal; turned into the stochastic parts.
        """
        start = self.first((noise.shape[1],))
        beliefs, posterior = _recurrence(
            self.cell, self.of_action(actions), self.of_embedding(embeddings), noise, start
        )
        return beliefs, posterior, self.prior(beliefs.deterministic)


def dynamics(
    key: Key[Array, ""],
    action_size: int,
    embedding: int,
    deterministic: int = 200,
    stochastic: int = 30,
    hidden: int = 200,
) -> Dynamics:
    """Weights as Keras draws them: Glorot uniform, the GRU's own ones orthogonal, all biases zero."""
    keys = jax.random.split(key, 7)
    gates = 3 * deterministic
    return Dynamics(
        enters=glorot_linear(keys[0], stochastic + action_size, hidden),
        gru_input=glorot_linear(keys[1], hidden, gates),
        gru_state=Linear(orthogonal(keys[2], deterministic, gates), jnp.zeros(gates)),
        prior_hidden=glorot_linear(keys[3], deterministic, hidden),
        prior_out=glorot_linear(keys[4], hidden, 2 * stochastic),
        posterior_hidden=glorot_linear(keys[5], deterministic + embedding, hidden),
        posterior_out=glorot_linear(keys[6], hidden, 2 * stochastic),
    )


def _gaussian(outputs: Float32[Array, "*batch outputs"]) -> Gaussian:
    mean, spread = jnp.split(outputs, 2, axis=-1)
    return Gaussian(mean, jax.nn.softplus(spread) + LEAST_STD)


def _advanced(cell: Cell, belief: Belief, of_action: Any, taps: Any = (0.0, 0.0)) -> Any:
    """The deterministic part after an action; and the GRU's input on the way."""
    entering = jax.nn.elu(product(belief.stochastic, cell.stochastic) + of_action)
    before = belief.deterministic
    inputs = jnp.split(cell.gru_input(entering) + taps[0], 3, axis=-1)
    states = jnp.split(cell.gru_state(before) + taps[1], 3, axis=-1)
    update, reset = (jax.nn.sigmoid(inputs[gate] + states[gate]) for gate in (0, 1))
    new = jnp.tanh(inputs[2] + reset * states[2])
    return update * before + (1 - update) * new, entering


def _posterior(cell: Cell, deterministic: Any, of_embedding: Any, tap: Any = 0.0) -> Any:
    """The posterior; and its hidden layer."""
    hidden = jax.nn.elu(product(deterministic, cell.deterministic) + of_embedding)
    return _gaussian(cell.posterior(hidden) + tap), hidden


def _scan(cell: Cell, of_actions: Any, of_embeddings: Any, noise: Any, start: Belief, taps: Any) -> Any:
    """Beliefs and posteriors after each step, and what went into the products of the cell."""

    def step(belief, now):
        of_action, of_embedding, noise, (*gru_taps, posterior_tap) = now
        deterministic, entering = _advanced(cell, belief, of_action, gru_taps)
        posterior, hidden = _posterior(cell, deterministic, of_embedding, posterior_tap)
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
