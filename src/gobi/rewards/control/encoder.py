"""Frames as features: RE3's encoder for pictures, dense layers for state vectors."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key, Shaped

from gobi.errors import GobiError
from gobi.networks.convolving import convolved
from gobi.networks.layers import Linear, torch_linear
from gobi.types import Spec

Vectors = Literal["mlp", "raw"]
VECTORS = ("mlp", "raw")
CHANNELS, STRIDES = 32, (2, 1, 1, 1)
HIDDEN = (256, 256)
"""Dense layers before the last one, on state vectors."""
EPSILON = 1e-5
"""Added to a variance before its root, as torch's LayerNorm does."""


class Convolution(eqx.Module):
    """A 3x3 convolution without a border."""

    weight: Float32[Array, "*seeds 3 3 inputs outputs"]
    bias: Float32[Array, "*seeds outputs"]
    stride: int = eqx.field(static=True)

    def __call__(self, x: Float32[Array, "batch h w inputs"]) -> Float32[Array, "batch h2 w2 outputs"]:
        """The convolution of each picture."""
        return convolved(x, self.weight, self.stride) + self.bias


class Encoder(eqx.Module):
    """Convolutions, if any, and dense layers, with ReLU between all of them; then LayerNorm and tanh.

    scale, shift:  LayerNorm's own weights.
    """

    convolutions: tuple[Convolution, ...]
    dense: tuple[Linear, ...]
    scale: Float32[Array, "*seeds units"]
    shift: Float32[Array, "*seeds units"]

    def __call__(self, frames: Shaped[Array, "batch ..."]) -> Float32[Array, "batch units"]:
        """The features of each picture [h, w, c] of bytes, or of each vector."""
        x = frames.astype(jnp.float32)
        if self.convolutions:
            x = x / 255
            for convolution in self.convolutions:
                x = jax.nn.relu(convolution(x))
        x = x.reshape(len(x), -1)
        for layer in self.dense[:-1]:
            x = jax.nn.relu(layer(x))
        x = self.dense[-1](x)
        x = x - jnp.mean(x, axis=-1, keepdims=True)
        x = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + EPSILON)
        return jnp.tanh(x * self.scale + self.shift)


class Raw(eqx.Module):
    """State vectors as they are."""

    def __call__(self, frames: Float32[Array, "batch size"]) -> Float32[Array, "batch size"]:
        """The vectors themselves."""
        return frames


def of_pixels(spec: Spec) -> bool:
    """Whether a task shows pictures; if not, it must show state vectors."""
    kind = len(spec.observation_shape), spec.observation_dtype
    if kind not in ((3, "uint8"), (1, "float32")):
        raise GobiError(
            "control rewards read uint8 pictures [height, width, channels] or float32 vectors; "
            f"{spec.id} gives {spec.observation_dtype} {list(spec.observation_shape)}"
        )
    return kind[0] == 3


def encoder(
    key: Key[Array, ""], spec: Spec, units: int = 50, vectors: Vectors = "mlp", frames: int = 1
) -> Encoder | Raw:
    """A fresh encoder for a task's frames, with PyTorch's initial weights: uniform within 1 / sqrt(inputs).

    units:    features. Of state vectors that are taken as they are, there are as many as numbers.
    vectors:  state vectors go through two hidden layers of 256 units (`mlp`), or stay as they are (`raw`).
    frames:   how many frames are read together, one after the other along the channels.
    """
    if not of_pixels(spec):
        if frames != 1:
            raise GobiError(f"frames={frames} is for pictures: a state vector stands by itself")
        if vectors == "raw":
            return Raw()
        return _assembled(key, (), (spec.observation_shape[0], *HIDDEN, units))
    height, width, channels = spec.observation_shape
    inputs, made, one = channels * frames, [], key
    for stride in STRIDES:
        one, other = jax.random.split(one)
        drawn = torch_linear(other, 9 * inputs, CHANNELS)
        made.append(Convolution(drawn.weight.reshape(3, 3, inputs, CHANNELS), drawn.bias, stride))
        height, width = ((side - 3) // stride + 1 for side in (height, width))
        inputs = CHANNELS
    if min(height, width) < 1:
        raise GobiError(f"pictures of {spec.observation_shape[:2]} are too small for the encoder")
    return _assembled(one, tuple(made), (height * width * CHANNELS, units))


def _assembled(key: Key[Array, ""], convolutions: tuple[Convolution, ...], sizes: tuple[int, ...]) -> Encoder:
    keys = jax.random.split(key, len(sizes) - 1)
    dense = tuple(torch_linear(one, *pair) for one, pair in zip(keys, pairwise(sizes), strict=True))
    return Encoder(convolutions, dense, jnp.ones(sizes[-1]), jnp.zeros(sizes[-1]))


def num_features(network: Encoder | Raw, spec: Spec) -> int:
    """How many features an encoder makes of a frame."""
    return math.prod(spec.observation_shape) if isinstance(network, Raw) else network.scale.shape[-1]


def before(batch: Any, frames: int = 1) -> Shaped[Array, "batch ..."]:
    """What was seen where the actions of a replayed batch were taken: the latest frames, side by side."""
    return _latest(batch.frames[:, :-1], frames)


def after(batch: Any, frames: int = 1) -> Shaped[Array, "batch ..."]:
    """What was seen where those actions led."""
    return _latest(batch.frames, frames)


def _latest(seen: Shaped[Array, "batch time ..."], frames: int) -> Shaped[Array, "batch ..."]:
    if frames == 1:
        return seen[:, -1]
    if frames > seen.shape[1]:
        raise GobiError(f"frames={frames} asks for more frames than the replay gives, {seen.shape[1]}")
    return jnp.concatenate([seen[:, time] for time in range(-frames, 0)], axis=-1)
