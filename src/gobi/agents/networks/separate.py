"""Policies for any task: actor and critic, with torsos that follow from its spec, with or without memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Key, Num

from gobi.agents.distributions import is_continuous
from gobi.agents.networks.grid import rescaled
from gobi.agents.networks.lstm import LSTM, lstm
from gobi.agents.networks.mingru import MinGRU, mingru
from gobi.networks import symbols
from gobi.networks.layers import ConvStack, Linear, conv_stack, num_patches, orthogonal_linear
from gobi.types import Spec

NETWORKS = ("feedforward", "recurrent")
UNITS = 64
"""Width of the layers."""

CHANNELS, STRIDES = (16, 32, 32), (2, 2, 2)
"""Of the convolutions on pictures: a thumbnail of 42x42 becomes 6x6."""
MOST_ONE_HOT = 8192
"""Integers are read as zeros and ones if there are no more of those than this."""
FIRST_LOG_STD = -0.5
"""Of a Gaussian policy, before it has learned: a wide one, where [-1, 1] is the whole range."""


class Policy(eqx.Module):
    """Observations to outputs (see `distributions`) and a value. All leaves are float arrays.

    actor, critic:  observations to features, each its own.
    cores:          none, or one recurrent layer that both go through.
    outputs, value: what is made of the features.
    log_std:        of a Gaussian policy, the same everywhere; empty for a categorical one.
    values:         how many; None: one, without an axis of its own.
    """

    actor: Torso
    critic: Torso
    cores: tuple[LSTM | MinGRU, ...]
    outputs: Linear
    value: Linear
    log_std: Float[Array, "*seeds size"]
    values: int | None = eqx.field(static=True, default=None)

    def initial(self, num_envs: int) -> tuple:
        """Remembers nothing."""
        return tuple(core.initial(num_envs) for core in self.cores)

    def __call__(
        self, observation: Num[Array, "envs *shape"], first: Bool[Array, " envs"], carry: tuple
    ) -> tuple[Float32[Array, "envs outputs"], Float32[Array, "envs *values"], tuple]:
        """Outputs, values and the new carry. Where `first`, an episode begins and the carry is forgotten."""
        outputs, values, carries = self.unroll(observation[None], first[None], carry)
        return outputs[0], values[0], jax.tree.map(lambda part: part[0], carries)

    def unroll(
        self, observations: Num[Array, "time envs *shape"], firsts: Bool[Array, "time envs"], carry: tuple
    ) -> tuple[Float32[Array, "time envs outputs"], Float32[Array, "time envs *values"], tuple]:
        """The same over time, from the carry before the first step; gives the carries after each step."""
        steps, envs, *shape = observations.shape
        rows = observations.reshape(steps * envs, *shape)
        x, y = (torso(rows).reshape(steps, envs, -1) for torso in (self.actor, self.critic))
        carries = []
        for core, state in zip(self.cores, carry, strict=True):
            both = jnp.concatenate([x, y], axis=-1)
            carries.append(core.unroll(both, firsts, state))
            x = y = core.output(both, carries[-1])
        outputs = self.outputs(x)
        if self.log_std.size:
            outputs = jnp.concatenate([outputs, jnp.broadcast_to(self.log_std, outputs.shape)], axis=-1)
        values = self.value(y)
        return outputs, values[..., 0] if self.values is None else values, tuple(carries)

    def rescaled(self, ratio: Float32[Array, "*values"], shift: Float32[Array, "*values"]) -> Policy:
        """The same with values of ratio * value + shift."""
        value = rescaled(self.value, jnp.atleast_1d(ratio), jnp.atleast_1d(shift))
        return eqx.tree_at(lambda policy: policy.value, self, value)


class Torso(eqx.Module):
    """Observations as numbers, convolutions where they are pictures, and dense layers with tanh.

    reads:    pixels, cells (of MiniGrid), symbols (integers) or numbers.
    classes:  of symbols.
    """

    convolutions: ConvStack | None
    dense: tuple[Linear, ...]
    reads: str = eqx.field(static=True)
    classes: int = eqx.field(static=True)

    def __call__(self, observation: Num[Array, "rows *shape"]) -> Float32[Array, "rows features"]:
        """Features of each observation."""
        x = _numbers(observation, self.reads, self.classes)
        if self.convolutions is not None:
            x = self.convolutions(x)
        x = x.reshape(x.shape[0], -1)
        for layer in self.dense:
            x = jnp.tanh(layer(x))
        return x


def build(
    spec: Spec,
    key: Key[Array, ""],
    network: str = "feedforward",
    units: int = UNITS,
    core: str = "lstm",
    values: int | None = None,
) -> Policy:
    """A fresh policy for a task.

    network:  feedforward, or recurrent: both torsos' features go through a core.
    core:     lstm or mingru.
    values:   how many; None: one, without an axis of its own.
    """
    actor, critic, memory, outputs, value = jax.random.split(key, 5)
    cores, features = (), units
    if network == "recurrent" and core == "mingru":
        cores, features = (mingru(memory, 2 * units),), 2 * units
    elif network == "recurrent":
        cores = (lstm(memory, 2 * units, units),)
    size = spec.action_size if is_continuous(spec) else spec.num_actions
    return Policy(
        actor=_torso(spec, actor, units),
        critic=_torso(spec, critic, units),
        cores=cores,
        # Nearly the same for all actions at first: who has seen nothing prefers nothing.
        outputs=orthogonal_linear(outputs, features, size, gain=0.01),
        value=orthogonal_linear(value, features, values or 1, gain=1.0),
        log_std=jnp.full(spec.action_size if is_continuous(spec) else 0, FIRST_LOG_STD),
        values=values,
    )


def reads(spec: Spec) -> str:
    """How a policy reads the observations of a task."""
    shape, pixels = spec.observation_shape, spec.observation_dtype == "uint8" and not spec.classes
    if pixels and shape == (7, 7, 3):
        return "cells"
    if pixels and len(shape) == 3:
        return "pixels"
    return "symbols" if 0 < spec.classes * math.prod(shape) <= MOST_ONE_HOT else "numbers"


def _torso(spec: Spec, key: Key[Array, ""], units: int) -> Torso:
    kind, shape = reads(spec), spec.observation_shape
    first, second, filters = jax.random.split(key, 3)
    convolutions = conv_stack(filters, shape[-1], CHANNELS, STRIDES) if kind == "pixels" else None
    sizes = (_inputs(kind, shape, spec.classes), units), (units, units)
    dense = tuple(orthogonal_linear(k, *size) for k, size in zip((first, second), sizes, strict=True))
    return Torso(convolutions, dense, kind, spec.classes)


def _inputs(kind: str, shape: Sequence[int], classes: int) -> int:
    """Numbers that the first dense layer takes."""
    if kind == "pixels":
        width, height = shape[:2]
        for stride in STRIDES:
            width, height = num_patches(width, stride, 1), num_patches(height, stride, 1)
        return width * height * CHANNELS[-1]
    if kind == "cells":
        return math.prod(shape[:2]) * symbols.ALL_CLASSES
    return math.prod(shape) * (classes if kind == "symbols" else 1)


def _numbers(observation: Array, kind: str, classes: int) -> Array:
    if kind == "pixels":
        return observation.astype(jnp.float32) / 255
    if kind == "cells":
        return symbols.one_hot(observation)
    if kind == "symbols":
        return jax.nn.one_hot(observation, classes)
    # Integers of too many classes to tell apart are read by their size.
    return observation.astype(jnp.float32) / max(classes - 1, 1)
