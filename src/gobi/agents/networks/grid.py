"""Policies with memory: the network of the paper's text, that of its code, and a compact one for laptops."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Key, UInt8

from gobi.agents.networks.lstm import LSTM, LSTMState, lstm
from gobi.errors import GobiError, unknown
from gobi.networks import symbols
from gobi.networks.layers import (
    ConvStack,
    Linear,
    conv_stack,
    num_patches,
    orthogonal_linear,
    patches,
)
from gobi.types import Spec

NETWORKS = ("paper", "coded", "compact")

STRIDES = (1, 2, 2)
"""Of the large networks' convolutions."""

Carry = tuple[LSTMState, ...]
"""What a policy remembers: the state of each LSTM layer."""


class Policy(eqx.Module):
    """Observations to logits and a value, with an LSTM between. All leaves are float arrays.

    torso:  observations to features.
    cores:  LSTM layers, each fed by the one before.
    heads:  the last core's hidden state to logits and value.
    """

    torso: Convolutions | Cells | Bits
    cores: tuple[LSTM, ...]
    heads: Heads | DeepHeads

    def initial(self, num_envs: int) -> Carry:
        """Remembers nothing."""
        return tuple(core.initial(num_envs) for core in self.cores)

    def __call__(
        self, observation: UInt8[Array, "envs *shape"], first: Bool[Array, " envs"], carry: Carry
    ) -> tuple[Float32[Array, "envs actions"], Float32[Array, " envs"], Carry]:
        """Logits, values and the new carry. Where `first`, an episode begins and the carry is forgotten."""
        x, after = self.torso(observation), []
        for core, state in zip(self.cores, carry, strict=True):
            after.append(core.step(x, first, state))
            x = after[-1].hidden
        return *self.heads(x), tuple(after)

    def unroll(
        self,
        observations: UInt8[Array, "time envs *shape"],
        firsts: Bool[Array, "time envs"],
        carry: Carry,
    ) -> tuple[Float32[Array, "time envs actions"], Float32[Array, "time envs"], Carry]:
        """The same over time, from the carry before the first step; gives the carries after each step."""
        steps, envs, *shape = observations.shape
        x, after = self.torso(observations.reshape(steps * envs, *shape)).reshape(steps, envs, -1), []
        for core, state in zip(self.cores, carry, strict=True):
            after.append(core.unroll(x, firsts, state))
            x = after[-1].hidden
        return *self.heads(x), tuple(after)

    def rescaled(self, ratio: Float32[Array, ""], shift: Float32[Array, ""]) -> Policy:
        """The same with values of ratio * value + shift."""
        return eqx.tree_at(lambda policy: policy.heads, self, self.heads.rescaled(ratio, shift))


class Convolutions(eqx.Module):
    """Raw integers as floats; three 3x3 convolutions with ELU; two dense layers with ReLU."""

    convolutions: ConvStack
    dense: tuple[Linear, ...]

    def __call__(self, observation: UInt8[Array, "rows w h c"]) -> Float32[Array, "rows features"]:
        """Features of each observation."""
        x = self.convolutions(observation)
        for layer in self.dense:
            x = jax.nn.relu(layer(x))
        return x


class Cells(eqx.Module):
    """MiniGrid's cells, object, colour and state one-hot; a 3x3 convolution and a dense layer with ReLU.

    The convolution takes every second cell without a border: that covers a 7x7 view exactly, with the cell in
    front of the agent in the middle of a patch. It is the first layer, since the gradient to patches would
    cost more on a CPU than all the rest.
    """

    kernel: Linear
    dense: Linear

    STRIDE = 2

    def __call__(self, observation: UInt8[Array, "rows w h 3"]) -> Float32[Array, "rows features"]:
        """Features of each view."""
        cells = symbols.one_hot(observation, self.kernel.weight.dtype)
        x = jax.nn.relu(self.kernel(patches(cells, self.STRIDE, border=0)))
        return jax.nn.relu(self.dense(x.reshape(x.shape[0], -1)))


class Bits(eqx.Module):
    """Observations of any other shape: the eight bits of each number, then one dense layer."""

    dense: Linear

    def __call__(self, observation: UInt8[Array, "rows *shape"]) -> Float32[Array, "rows features"]:
        """Features of each observation."""
        bits = (observation[..., None] >> jnp.arange(8, dtype=jnp.uint8)) & 1
        return jax.nn.relu(self.dense(bits.reshape(bits.shape[0], -1).astype(self.dense.weight.dtype)))


class Heads(eqx.Module):
    """Logits and value in one product: acting in a few lanes waits for kernels, not for arithmetic."""

    output: Linear

    def __call__(
        self, x: Float[Array, "*rows units"]
    ) -> tuple[Float32[Array, "*rows actions"], Float32[Array, "*rows"]]:
        """Logits and values."""
        outputs = self.output(x)
        return outputs[..., :-1], outputs[..., -1]

    def rescaled(self, ratio: Float32[Array, ""], shift: Float32[Array, ""]) -> Heads:
        """The same with values of ratio * value + shift."""
        return Heads(rescaled(self.output, ratio[None], shift[None]))


class DeepHeads(eqx.Module):
    """Logits and value, each after a dense layer of its own; the two layers are one product."""

    dense: Linear
    logits: Linear
    value: Linear

    def __call__(
        self, x: Float[Array, "*rows units"]
    ) -> tuple[Float32[Array, "*rows actions"], Float32[Array, "*rows"]]:
        """Logits and values."""
        for_logits, for_value = jnp.split(jax.nn.relu(self.dense(x)), 2, axis=-1)
        return self.logits(for_logits), self.value(for_value)[..., 0]

    def rescaled(self, ratio: Float32[Array, ""], shift: Float32[Array, ""]) -> DeepHeads:
        """The same with values of ratio * value + shift."""
        return DeepHeads(self.dense, self.logits, rescaled(self.value, ratio[None], shift[None]))


def rescaled(layer: Linear, ratio: Float32[Array, " last"], shift: Float32[Array, " last"]) -> Linear:
    """A layer whose last outputs, as many as there are ratios, are ratio * output + shift."""
    last = len(ratio)
    weight = layer.weight.at[:, -last:].multiply(ratio)
    return Linear(weight, layer.bias.at[-last:].multiply(ratio).at[-last:].add(shift))


def build(name: str, spec: Spec, key: Key[Array, ""]) -> Policy:
    """A fresh policy for a task.

    paper:    raw integers, convolutions of 32, 128, 512 channels, two dense layers, one LSTM layer, and a
              dense layer in each head, 1024 units all of them.
    coded:    the same with two LSTM layers and linear heads.
    compact:  one-hot cells, few channels, 128 units; takes observations of any shape.
    """
    if name not in NETWORKS:
        raise unknown("network", name, NETWORKS)
    if spec.observation_dtype != "uint8":
        raise GobiError(f"policies see uint8 observations; {spec.id} gives {spec.observation_dtype}")
    if name == "compact":
        return compact(spec, key)
    return large(spec, key, layers=1 if name == "paper" else 2, deep_heads=name == "paper")


def large(
    spec: Spec,
    key: Key[Array, ""],
    layers: int,
    deep_heads: bool,
    units: int = 1024,
    channels: tuple[int, int, int] = (32, 128, 512),
) -> Policy:
    """The paper's network, with `layers` LSTM layers and heads with or without a dense layer."""
    if len(spec.observation_shape) != 3:
        raise GobiError(
            f"this network needs observations [width, height, channels]; {spec.id} gives "
            f"{list(spec.observation_shape)}; take the network 'compact'"
        )
    torso_key, head_key, *core_keys = jax.random.split(key, 2 + layers)
    heads = _deep_heads if deep_heads else _heads
    return Policy(
        torso=_convolutions(torso_key, spec.observation_shape, channels, units),
        cores=tuple(lstm(core_key, units, units) for core_key in core_keys),
        heads=heads(head_key, units, spec.num_actions),
    )


def compact(spec: Spec, key: Key[Array, ""], units: int = 128, channels: int = 32) -> Policy:
    """A small network; the eight bits of each number where observations are not MiniGrid's views."""
    torso_key, core_key, head_key = jax.random.split(key, 3)
    if spec.observation_shape == (7, 7, 3):
        torso = _cells(torso_key, spec.observation_shape, channels, units)
    else:
        torso = Bits(orthogonal_linear(torso_key, 8 * math.prod(spec.observation_shape), units))
    return Policy(torso, (lstm(core_key, units, units),), _heads(head_key, units, spec.num_actions))


def _convolutions(key, shape: tuple[int, ...], channels: tuple[int, int, int], units: int) -> Convolutions:
    convolution_key, *keys = jax.random.split(key, 3)
    width, height, inputs = shape
    for stride in STRIDES:
        width, height = num_patches(width, stride, 1), num_patches(height, stride, 1)
    sizes = (channels[-1] * width * height, units), (units, units)
    dense = tuple(orthogonal_linear(k, *size) for k, size in zip(keys, sizes, strict=True))
    return Convolutions(conv_stack(convolution_key, inputs, channels, STRIDES), dense)


def _cells(key, shape: tuple[int, ...], channels: int, units: int) -> Cells:
    kernel_key, dense_key = jax.random.split(key)
    places = math.prod(num_patches(length, Cells.STRIDE, 0) for length in shape[:2])
    return Cells(
        orthogonal_linear(kernel_key, 9 * symbols.ALL_CLASSES, channels),
        orthogonal_linear(dense_key, places * channels, units),
    )


def _heads(key, units: int, actions: int) -> Heads:
    """Each head orthogonal by itself, not the two together."""
    logits_key, value_key = jax.random.split(key)
    return Heads(
        _beside(
            orthogonal_linear(logits_key, units, actions, gain=1.0),
            orthogonal_linear(value_key, units, 1, gain=1.0),
        )
    )


def _deep_heads(key, units: int, actions: int) -> DeepHeads:
    keys = jax.random.split(key, 4)
    dense = _beside(*(orthogonal_linear(k, units, units) for k in keys[:2]))
    return DeepHeads(
        dense,
        orthogonal_linear(keys[2], units, actions, gain=1.0),
        orthogonal_linear(keys[3], units, 1, gain=1.0),
    )


def _beside(*layers: Linear) -> Linear:
    return jax.tree.map(lambda *arrays: jnp.concatenate(arrays, axis=-1), *layers)
