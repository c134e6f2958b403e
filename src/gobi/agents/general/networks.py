"""Policies for any task: what reads the observations follows from its spec, with or without memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Key, Num

from gobi.agents.general.distributions import is_continuous
from gobi.agents.impala.lstm import LSTM, lstm
from gobi.agents.impala.networks import Carry
from gobi.networks import symbols
from gobi.networks.layers import ConvStack, Linear, conv_stack, num_patches, orthogonal_linear
from gobi.types import Spec

NETWORKS = ("feedforward", "recurrent")

CHANNELS, STRIDES = (16, 32, 32), (2, 2, 2)
"""Of the convolutions on pictures: a thumbnail of 42x42 becomes 6x6."""
MOST_ONE_HOT = 8192
"""Integers are read as zeros and ones if there are no more of those than this."""
FIRST_LOG_STD = -0.5
"""Of a Gaussian policy, before it has learned: a wide one, where [-1, 1] is the whole range."""


class Policy(eqx.Module):
    """Observations to outputs (see `distributions`) and a value. All leaves are float arrays.

    actor, critic:  observations to features, each its own.
    cores:          none, or one LSTM layer that both go through.
    outputs, value: what is made of the features.
    log_std:        of a Gaussian policy, the same everywhere; empty for a discrete one.
    """

    actor: Torso
    critic: Torso
    cores: tuple[LSTM, ...]
    outputs: Linear
    value: Linear
    log_std: Float32[Array, " size"]

    def initial(self, num_envs: int) -> Carry:
        """Remembers nothing."""
        return tuple(core.initial(num_envs) for core in self.cores)

    def __call__(
        self, observation: Num[Array, "envs *shape"], first: Bool[Array, " envs"], carry: Carry
    ) -> tuple[Float32[Array, "envs outputs"], Float32[Array, " envs"], Carry]:
        """Outputs, values and the new carry. Where `first`, an episode begins and the carry is forgotten."""
        outputs, values, carries = self.unroll(observation[None], first[None], carry)
        return outputs[0], values[0], jax.tree.map(lambda part: part[0], carries)

    def unroll(
        self, observations: Num[Array, "time envs *shape"], firsts: Bool[Array, "time envs"], carry: Carry
    ) -> tuple[Float32[Array, "time envs outputs"], Float32[Array, "time envs"], Carry]:
        """The same over time, from the carry before the first step; gives the carries after each step."""
        steps, envs, *shape = observations.shape
        rows = observations.reshape(steps * envs, *shape)
        x, y = (torso(rows).reshape(steps, envs, -1) for torso in (self.actor, self.critic))
        carries = []
        for core, state in zip(self.cores, carry, strict=True):
            carries.append(core.unroll(jnp.concatenate([x, y], axis=-1), firsts, state))
            x = y = carries[-1].hidden
        outputs = self.outputs(x)
        if self.log_std.size:
            outputs = jnp.concatenate([outputs, jnp.broadcast_to(self.log_std, outputs.shape)], axis=-1)
        return outputs, self.value(y)[..., 0], tuple(carries)


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


def build(spec: Spec, key: Key[Array, ""], network: str = "feedforward", units: int = 64) -> Policy:
    """A fresh policy for a task."""
    actor, critic, core, outputs, value = jax.random.split(key, 5)
    size = spec.action_size if is_continuous(spec) else spec.num_actions
    return Policy(
        actor=_torso(spec, actor, units),
        critic=_torso(spec, critic, units),
        cores=(lstm(core, 2 * units, units),) if network == "recurrent" else (),
        # Nearly the same for all actions at first: who has seen nothing prefers nothing.
        outputs=orthogonal_linear(outputs, units, size, gain=0.01),
        value=orthogonal_linear(value, units, 1, gain=1.0),
        log_std=jnp.full(spec.action_size if is_continuous(spec) else 0, FIRST_LOG_STD),
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
