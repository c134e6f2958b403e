"""Policies of PPO: for grids IMPALA's torsos, an LSTM or a minGRU, and one head with logits and values."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Key, UInt8

from gobi.agents.networks import grid, lstm, mingru, separate
from gobi.errors import unknown
from gobi.networks.layers import Linear, orthogonal_linear
from gobi.types import Spec

CORES = ("lstm", "mingru")

FIRST_LOGITS = 0.01
"""Gain of the logits' weights: who has seen nothing prefers nothing."""


class Policy(eqx.Module):
    """Observations to logits and values, with memory between. All leaves are float arrays.

    torso:  observations to features.
    core:   what remembers.
    heads:  logits and values in one product.
    values: how many of the heads' outputs are values.
    """

    torso: Any
    core: Any
    heads: Linear
    values: int = eqx.field(static=True)

    def initial(self, num_envs: int):
        """Remembers nothing."""
        return self.core.initial(num_envs)

    def __call__(self, observation: UInt8[Array, "envs *shape"], first: Bool[Array, " envs"], carry):
        """Logits, values and the new carry. Where `first`, an episode begins and the carry is forgotten."""
        x = self.torso(observation)
        carry = self.core.step(x, first, carry)
        return *self._split(self.core.output(x, carry)), carry

    def unroll(self, observations: UInt8[Array, "time envs *shape"], firsts: Bool[Array, "time envs"], carry):
        """The same over time, from the carry before the first step; gives the carries after each step."""
        steps, envs, *shape = observations.shape
        rows = observations.reshape(steps * envs, *shape)
        x = self.torso(rows).reshape(steps, envs, -1)
        carries = self.core.unroll(x, firsts, carry)
        return *self._split(self.core.output(x, carries)), carries

    def _split(
        self, x: Float[Array, "*rows units"]
    ) -> tuple[Float32[Array, "*rows actions"], Float32[Array, "*rows values"]]:
        outputs = self.heads(x)
        return outputs[..., : -self.values], outputs[..., -self.values :]


def build(
    name: str, core: str, values: int, spec: Spec, key: Key[Array, ""], units: int = separate.UNITS
) -> Policy | separate.Policy:
    """A fresh policy for a task.

    name:    the torso and its width, as of IMPALA's networks: paper, coded or compact for grids; feedforward
             or recurrent for any task.
    core:    lstm or mingru.
    values:  how many.
    units:   width of feedforward and recurrent networks.
    """
    if core not in CORES:
        raise unknown("core", core, CORES)
    if name in separate.NETWORKS:
        return separate.build(spec, key, name, units, core, values)
    body, core_key, logits_key, value_key = jax.random.split(key, 4)
    # The torso of IMPALA's network; its own LSTM and heads are never computed.
    whole = grid.build(name, spec, body)
    units = whole.cores[0].units
    heads = [
        orthogonal_linear(logits_key, units, spec.num_actions, gain=FIRST_LOGITS),
        *(orthogonal_linear(k, units, 1, gain=1.0) for k in jax.random.split(value_key, values)),
    ]
    return Policy(
        torso=whole.torso,
        core=mingru(core_key, units) if core == "mingru" else lstm(core_key, units, units),
        heads=jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=-1), *heads),
        values=values,
    )
