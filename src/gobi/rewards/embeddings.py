"""Views as vectors: the embeddings that several rewards learn, or leave at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key, UInt8

from gobi.networks import symbols
from gobi.networks.layers import ConvStack, Linear, conv_stack, num_patches, orthogonal_linear

SIDE = 7
"""Cells along a view."""

Inputs = Literal["scaled", "raw", "onehot"]


class Embedding(eqx.Module):
    """A view as a vector: 3x3 convolutions with ELU, if any, then dense layers, if any.

    inputs:  what the first layer reads: the integers / 255 (`scaled`), as they are (`raw`), or `onehot`.
    linear:  whether the last dense layer has no ReLU.
    """

    convolutions: ConvStack | None
    dense: tuple[Linear, ...]
    inputs: Inputs = eqx.field(static=True)
    linear: bool = eqx.field(static=True, default=False)

    def __call__(self, views: UInt8[Array, "*batch 7 7 3"]) -> Float32[Array, "*batch units"]:
        """The embedding of each view."""
        if self.inputs == "scaled":
            x = views.astype(jnp.float32) / 255
        else:
            x = symbols.encode_views(views, self.inputs, jnp.float32)
        flat = x.reshape(*x.shape[:-3], -1) if self.convolutions is None else self.convolutions(x)
        return through(self.dense, flat, self.linear)


def narrow(key: Key[Array, ""], units: int, inputs: Inputs = "scaled", channels: int = 32) -> Embedding:
    """Three convolutions of stride 2: 7x7 cells to 4x4, 2x2 and 1, whose channels are the embedding."""
    read = symbols.input_channels("onehot" if inputs == "onehot" else "raw")
    return Embedding(conv_stack(key, read, (channels, channels, units), strides=(2, 2, 2)), (), inputs)


def wide(key: Key[Array, ""], units: int) -> Embedding:
    """The policy's feature extractor: raw integers, three convolutions, two dense layers with ReLU."""
    channels, strides, side = (32, 128, 512), (1, 2, 2), SIDE
    for stride in strides:
        side = num_patches(side, stride, border=1)
    one, *others = jax.random.split(key, 3)
    sizes = channels[-1] * side**2, units
    dense = tuple(orthogonal_linear(other, size, units) for other, size in zip(others, sizes, strict=True))
    return Embedding(conv_stack(one, symbols.input_channels("raw"), channels, strides), dense, "raw")


def through(
    layers: Sequence[Linear], x: Float32[Array, "*batch n"], linear: bool
) -> Float32[Array, "*batch m"]:
    """Dense layers with ReLU, but not after the last one if it is to be linear."""
    for index, layer in enumerate(layers):
        x = layer(x)
        if not (linear and index == len(layers) - 1):
            x = jax.nn.relu(x)
    return x
