"""The layers of the grid models, and how symbolic views go in and come out.

Everything computes in the dtype of the weights: cast the weights, and the network follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt8

from gobi.initial import orthogonal

CLASSES = (11, 6, 3)
"""Objects, colours and door states: the legal values of the three channels of a cell."""
ALL_CLASSES = sum(CLASSES)
CELLS = 7 * 7

RELU_GAIN = math.sqrt(2)


class Linear(eqx.Module):
    """x @ weight + bias, over the last axis."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        """The product, in the dtype of the weights."""
        return x.astype(self.weight.dtype) @ self.weight + self.bias


def torch_linear(key: Key[Array, ""], inputs: int, outputs: int) -> Linear:
    """PyTorch's default: weights and biases uniform within 1 / sqrt(inputs)."""
    bound = 1 / math.sqrt(inputs)
    # Drawn together: each draw is a piece of program that takes half a second to compile.
    drawn = jax.random.uniform(key, (inputs + 1, outputs), minval=-bound, maxval=bound)
    return Linear(drawn[:-1], drawn[-1])


def orthogonal_linear(key: Key[Array, ""], inputs: int, outputs: int, gain: float = RELU_GAIN) -> Linear:
    """Orthogonal weights, zero bias."""
    return Linear(orthogonal(key, inputs, outputs, gain), jnp.zeros(outputs))


class Conv3x3(eqx.Module):
    """A 3x3 convolution with padding 1, as patches and one matrix product.

    Under `vmap` over networks a convolution becomes a grouped one, which is slow; a product stays a product.
    Weight rows go through the patch column by column: [(dx, dy, channel), outputs].
    """

    linear: Linear
    stride: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*batch w h c"]) -> Float[Array, "*batch w2 h2 outputs"]:
        """The convolution of a picture indexed [x, y, channel]."""
        return self.linear(patches(x, self.stride))


def patches(x: Float[Array, "*batch w h c"], stride: int) -> Float[Array, "*batch w2 h2 patch"]:
    """The 3x3 neighbourhood of every stride-th place, zeros outside the picture."""
    width, height = x.shape[-3:-1]
    padded = jnp.pad(x, [(0, 0)] * (x.ndim - 3) + [(1, 1), (1, 1), (0, 0)])
    shifted = [
        padded[..., dx : dx + width : stride, dy : dy + height : stride, :]
        for dx in range(3)
        for dy in range(3)
    ]
    return jnp.concatenate(shifted, axis=-1)


class ConvStack(eqx.Module):
    """The feature extractor of the policy: 3x3 convolutions with strides 1, 2, 2 and ELU, then flattened."""

    convolutions: tuple[Conv3x3, ...]

    def __call__(self, x: Float[Array, "*batch 7 7 c"]) -> Float[Array, "*batch features"]:
        """7x7 to 7x7 to 4x4 to 2x2, flattened."""
        x = x.astype(self.convolutions[0].linear.weight.dtype)
        for convolution in self.convolutions:
            x = jax.nn.elu(convolution(x))
        return x.reshape(*x.shape[:-3], -1)


def conv_stack(key: Key[Array, ""], inputs: int, channels: Sequence[int]) -> ConvStack:
    """Orthogonal convolutions with these numbers of channels; the output has 4 times the last of them."""
    made = []
    for number, (one, stride) in enumerate(zip(jax.random.split(key, 3), (1, 2, 2), strict=True)):
        made.append(Conv3x3(orthogonal_linear(one, 9 * inputs, channels[number]), stride))
        inputs = channels[number]
    return ConvStack(tuple(made))


def one_hot(views: UInt8[Array, "*batch 3"], dtype=jnp.float32) -> Float[Array, "*batch 20"]:
    """Object, colour and state of each cell as 11 + 6 + 3 zeros and ones."""
    channels = [views[..., channel, None] == np.arange(size) for channel, size in enumerate(CLASSES)]
    return jnp.concatenate(channels, axis=-1).astype(dtype)


def encode_views(views: UInt8[Array, "*batch 3"], inputs: str, dtype) -> Float[Array, "*batch c"]:
    """What a network reads: the integers as they are (`raw`), or zeros and ones (`onehot`)."""
    return views.astype(dtype) if inputs == "raw" else one_hot(views, dtype)


def input_channels(inputs: str) -> int:
    """Channels per cell of `encode_views`."""
    return len(CLASSES) if inputs == "raw" else ALL_CLASSES


def most_likely(logits: Float[Array, "*batch 20"]) -> UInt8[Array, "*batch 3"]:
    """The class with the largest logit, for each channel of each cell."""
    return jnp.stack([part.argmax(-1) for part in split_classes(logits)], axis=-1).astype(jnp.uint8)


def split_classes(logits: Float[Array, "*batch 20"]) -> list[Float[Array, "*batch _"]]:
    """The logits of object, colour and state by themselves."""
    return jnp.split(logits, np.cumsum(CLASSES)[:-1].tolist(), axis=-1)


def log_likelihood(
    logits: Float[Array, "*batch 20"], views: UInt8[Array, "*batch 3"]
) -> Float[Array, "*batch"]:
    """Log probability of each cell: a softmax for each of its three channels, added up."""
    logits = logits.astype(jnp.float32)
    normalisers = [jax.nn.logsumexp(part, axis=-1) for part in split_classes(logits)]
    return jnp.sum(logits * one_hot(views), axis=-1) - sum(normalisers[1:], normalisers[0])


def nearest_legal(values: Float[Array, "*batch 3"]) -> UInt8[Array, "*batch 3"]:
    """The legal cell nearest to three real numbers: rounded, and within 0..10, 0..5, 0..2."""
    top = np.array(CLASSES, np.float32) - 1
    return jnp.clip(jnp.round(values.astype(jnp.float32)), 0, top).astype(jnp.uint8)
