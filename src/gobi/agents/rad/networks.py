"""The networks of RAD: convolutions that actor and critic share, a projection and a trunk for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, Num, UInt8

from gobi.networks import blocks
from gobi.networks.initial import orthogonal
from gobi.networks.layers import RELU_GAIN, Linear, orthogonal_linear

STRIDES = (2, 1, 1, 1)
KERNEL = 3
BRIGHTEST = 255
NORM_EPSILON = 1e-5
BLOCK = 2
"""In bfloat16, the side of the blocks of pixels that are convolved as one."""

Part = TypeVar("Part")


@jax.custom_vjp
def relu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """max(x, 0). Its gradient is found from the result, so that x need not be kept.

    A GPU then adds the bias and cuts off at zero inside the convolution. `jax.nn.relu` keeps x, which costs
    another passage through memory in every layer.
    """
    return jnp.maximum(x, 0)


def _relu_forward(x):
    y = relu(x)
    return y, y


def _relu_backward(y, gradient):
    return (jnp.where(y > 0, gradient, 0),)


relu.defvjp(_relu_forward, _relu_backward)


@jax.custom_vjp
def add_bias(x: Float[Array, "n h w channels"], bias: Float32[Array, " channels"]) -> Array:
    """x + bias in the dtype of x. The bias's gradient is summed in float32.

    It is a sum of some hundred thousand numbers. In bfloat16, which a GPU would take, most would be lost.
    """
    return x + bias.astype(x.dtype)


def _add_bias_forward(x, bias):
    return add_bias(x, bias), None


def _add_bias_backward(_, gradient):
    return gradient, jnp.sum(gradient, axis=(0, 1, 2), dtype=jnp.float32)


add_bias.defvjp(_add_bias_forward, _add_bias_backward)


class Convolution(eqx.Module):
    """A 3x3 convolution without a border, and ReLU."""

    kernel: Float[Array, "3 3 inputs outputs"]
    bias: Float32[Array, " outputs"]
    stride: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, "n h w inputs"]) -> Float[Array, "n h2 w2 outputs"]:
        """Features of each neighbourhood, in the dtype of the kernel."""
        return relu(add_bias(_convolved(x, self.kernel, self.stride), self.bias))

    def on_blocks(self, x: Float[Array, "n h w inputs"]) -> Float[Array, "n h2 w2 outputs"]:
        """The same for blocks of `BLOCK` times the stride; gives blocks of `BLOCK`."""
        kernel = blocks.block_kernel(self.kernel, self.stride, BLOCK)
        return relu(add_bias(_convolved(x, kernel), jnp.tile(self.bias, BLOCK * BLOCK)))

    def left_of(self, length: int) -> int:
        """Rows, or columns, that come out of so many."""
        return (length - KERNEL) // self.stride + 1


class Convolutions(eqx.Module):
    """Pixels to flat features: four convolutions."""

    layers: tuple[Convolution, ...]

    def __call__(self, pixels: UInt8[Array, "n h w c"]) -> Float[Array, "n features"]:
        """Features of each stack of frames, in the dtype of the weights.

        The first kernel is divided by 255, not the pixels: 0 to 255 are exact in bfloat16, 255ths are not.
        """
        first, *rest = self.layers
        dtype = first.kernel.dtype
        layers = eqx.tree_at(lambda layer: layer.kernel, first, first.kernel / BRIGHTEST), *rest
        x = _on_blocks(layers, pixels) if dtype == jnp.bfloat16 else _on_pixels(layers, pixels.astype(dtype))
        return x.reshape(x.shape[0], -1)


def _on_pixels(layers: Sequence[Convolution], x: Float[Array, "n h w c"]) -> Float[Array, "n h2 w2 outputs"]:
    for layer in layers:
        x = layer(x)
    return x


def _on_blocks(layers: Sequence[Convolution], x: UInt8[Array, "n h w c"]) -> Float[Array, "n h2 w2 outputs"]:
    """What `_on_pixels` gives, but for rounding. Blocks reach beyond it, which is cut off at the end."""
    first, (height, width) = layers[0], x.shape[1:3]
    down, across = (-(-first.left_of(length) // BLOCK) + 1 for length in (height, width))
    # Without the barrier pixels are cropped and put into blocks in one go, which takes several times as long.
    x = blocks.to_blocks(jax.lax.optimization_barrier(x), BLOCK * first.stride, down, across)
    x = x.astype(first.kernel.dtype)
    for layer in layers:
        x = layer.on_blocks(x)
        height, width = layer.left_of(height), layer.left_of(width)
    return blocks.to_pixels(x, BLOCK, height, width)


def _convolved(x: Float[Array, "n h w c"], kernel: Float[Array, "k k c outputs"], stride: int = 1) -> Array:
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "VALID", dimension_numbers=dimensions)


class Projection(eqx.Module):
    """Features to few: a linear map, layer normalisation, tanh."""

    linear: Linear
    scale: Float32[Array, " features"]
    offset: Float32[Array, " features"]

    def __call__(self, x: Float[Array, "n inputs"]) -> Float32[Array, "n features"]:
        """Features between -1 and 1."""
        x = self.linear(x)
        x = x - jnp.mean(x, axis=-1, keepdims=True)
        x = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + NORM_EPSILON)
        return jnp.tanh(x * self.scale + self.offset)


class Trunk(eqx.Module):
    """Dense layers with ReLU between them."""

    layers: tuple[Linear, ...]

    def __call__(self, x: Float32[Array, "n inputs"]) -> Float32[Array, "n outputs"]:
        """The last layer's outputs, as they are."""
        *hidden, last = self.layers
        for layer in hidden:
            x = jax.nn.relu(layer(x))
        return last(x)


class Actor(eqx.Module):
    """Features of the shared convolutions to a Gaussian over actions, before they are squashed by tanh."""

    projection: Projection | eqx.nn.Identity
    trunk: Trunk
    log_std_range: tuple[float, float] = eqx.field(static=True)

    def __call__(
        self, features: Num[Array, "n features"]
    ) -> tuple[Float32[Array, "n actions"], Float32[Array, "n actions"]]:
        """Mean and log standard deviation; the latter by tanh into its range."""
        mean, log_std = jnp.split(self.trunk(self.projection(features)), 2, axis=-1)
        low, high = self.log_std_range
        return mean, low + 0.5 * (high - low) * (jnp.tanh(log_std) + 1)


class Critic(eqx.Module):
    """Two estimates of the return, from one encoder. Leaves of `heads` have an axis of two in front."""

    convolutions: Convolutions | eqx.nn.Identity
    projection: Projection | eqx.nn.Identity
    heads: Trunk

    def values(
        self, projected: Float32[Array, "n features"], action: Float32[Array, "n actions"]
    ) -> Float32[Array, "2 n"]:
        """Both estimates, from what the projection gave."""
        x = jnp.concatenate([projected, action], axis=-1)
        return jax.vmap(lambda head: head(x))(self.heads)[..., 0]

    def __call__(
        self, observation: Num[Array, "n *shape"], action: Float32[Array, "n actions"]
    ) -> Float32[Array, "2 n"]:
        """Both estimates, from the observation."""
        return self.values(self.projection(self.convolutions(observation)), action)


def build_actor(
    key: Key[Array, ""],
    inputs: int,
    features: int,
    hidden: Sequence[int],
    actions: int,
    log_std_range: tuple[float, float],
) -> Actor:
    """An actor for flat inputs; `features` 0: vectors that need no projection."""
    projection_key, trunk_key = jax.random.split(key)
    trunk = build_trunk(trunk_key, (features or inputs, *hidden, 2 * actions))
    return Actor(build_projection(projection_key, inputs, features), trunk, log_std_range)


def build_critic(
    key: Key[Array, ""],
    convolutions: Convolutions | eqx.nn.Identity,
    inputs: int,
    features: int,
    hidden: Sequence[int],
    actions: int,
) -> Critic:
    """A critic on these convolutions, which give so many `inputs`; `features` 0 as for the actor."""
    projection_key, head_key = jax.random.split(key)
    sizes = ((features or inputs) + actions, *hidden, 1)
    heads = jax.vmap(lambda key: build_trunk(key, sizes))(jax.random.split(head_key))
    return Critic(convolutions, build_projection(projection_key, inputs, features), heads)


def build_convolutions(
    key: Key[Array, ""], size: tuple[int, int], inputs: int, channels: int
) -> tuple[Convolutions, int]:
    """Orthogonal convolutions of pictures of this size, and how many features they give."""
    layers, (height, width) = [], size
    for one, stride in zip(jax.random.split(key, len(STRIDES)), STRIDES, strict=True):
        kernel = orthogonal(one, KERNEL * KERNEL * inputs, channels, RELU_GAIN)
        kernel = kernel.reshape(KERNEL, KERNEL, inputs, channels)
        layers.append(Convolution(kernel, jnp.zeros(channels), stride))
        height, width = layers[-1].left_of(height), layers[-1].left_of(width)
        inputs = channels
    return Convolutions(tuple(layers)), math.prod((height, width, channels))


def build_projection(key: Key[Array, ""], inputs: int, features: int) -> Projection | eqx.nn.Identity:
    """To so many features; 0: none is needed."""
    if not features:
        return eqx.nn.Identity()
    linear = orthogonal_linear(key, inputs, features, gain=1.0)
    return Projection(linear, jnp.ones(features), jnp.zeros(features))


def build_trunk(key: Key[Array, ""], sizes: Sequence[int]) -> Trunk:
    """Orthogonal dense layers between layers of these sizes."""
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return Trunk(tuple(orthogonal_linear(one, i, o, gain=1.0) for one, i, o in pairs))


def encoder_in(part: Part, dtype: jnp.dtype) -> Part:
    """An actor, a critic or what acts, with convolutions and the projection's linear map in this dtype.

    Trunks, normalisation and the convolutions' biases stay in float32: they cost next to nothing, and values
    are sums of small things.
    """

    def is_encoder(node: object) -> bool:
        return isinstance(node, Convolution | Projection)

    def cast(node):
        if isinstance(node, Projection):
            return eqx.tree_at(lambda projection: projection.linear, node, _in(node.linear, dtype))
        if isinstance(node, Convolution):
            return eqx.tree_at(lambda layer: layer.kernel, node, _in(node.kernel, dtype))
        return node

    return jax.tree.map(cast, part, is_leaf=is_encoder)


def _in(part: Part, dtype: jnp.dtype) -> Part:
    return jax.tree.map(lambda array: array.astype(dtype), part)
