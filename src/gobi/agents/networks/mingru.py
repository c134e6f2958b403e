"""MinGRU: a gated linear recurrence whose gates see the input alone, so that no product is inside the scan.

h_t = (1 - z_t) h_{t-1} + z_t tanh(c_t), with z_t and c_t affine in x_t ("Were RNNs all we needed?", Feng et
al., 2024); the output is h_t + x_t. All products of a rollout are one; what is left of time is a sum.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Key

from gobi.networks.layers import Linear, orthogonal_linear

SLOWEST, FASTEST = -4.0, 0.0
"""The first biases of z, spread over the units: some remember for 50 steps, some for two."""
UNROLL = 16
"""Steps of the scan that are compiled as one: each is a few additions, less than the loop around it costs."""


class MinGRUState(eqx.Module):
    """What the layer remembers, always float32."""

    hidden: Float32[Array, "*batch units"]


class MinGRU(eqx.Module):
    """One layer; inputs and outputs have as many numbers as it has units."""

    gates: Linear

    @property
    def units(self) -> int:
        """How many numbers it remembers."""
        return self.gates.weight.shape[-1] // 2

    def initial(self, num_envs: int) -> MinGRUState:
        """Remembers nothing."""
        return MinGRUState(jnp.zeros((num_envs, self.units), jnp.float32))

    def output(self, x: Float[Array, "*batch units"], state: MinGRUState) -> Float32[Array, "*batch units"]:
        """What is handed on after the input x led to the state."""
        return state.hidden + x

    def step(
        self, x: Float[Array, "envs units"], first: Bool[Array, " envs"], state: MinGRUState
    ) -> MinGRUState:
        """The state after one input; where `first`, what came before is forgotten."""
        keep, new = self._gated(x, first)
        return MinGRUState(keep * state.hidden + new)

    def unroll(
        self, xs: Float[Array, "time envs units"], firsts: Bool[Array, "time envs"], state: MinGRUState
    ) -> MinGRUState:
        """The states after each of the inputs."""

        def step(hidden, gated):
            keep, new = gated
            hidden = keep * hidden + new
            return hidden, hidden

        _, hidden = jax.lax.scan(step, state.hidden, self._gated(xs, firsts), unroll=UNROLL)
        return MinGRUState(hidden)

    def _gated(self, x, first):
        """What is kept of the state before, and what is added to it."""
        update, candidate = jnp.split(self.gates(x), 2, axis=-1)
        update = jax.nn.sigmoid(update)
        return jnp.where(first[..., None], 0.0, 1 - update), update * jnp.tanh(candidate)


def mingru(key: Key[Array, ""], units: int) -> MinGRU:
    """Orthogonal weights; biases of the update gate from slow to fast."""
    one, two = jax.random.split(key)
    update = orthogonal_linear(one, units, units, gain=1.0)
    candidate = orthogonal_linear(two, units, units, gain=1.0)
    biases = jnp.concatenate([jnp.linspace(SLOWEST, FASTEST, units), candidate.bias])
    return MinGRU(Linear(jnp.concatenate([update.weight, candidate.weight], axis=-1), biases))
