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
from gobi.networks.convolving import convolved
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
    # Without the barrier XLA sees that y > 0 where x > 0, and keeps x after all.
    return (jnp.where(jax.lax.optimization_barrier(y) > 0, gradient, 0),)


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
        return relu(add_bias(convolved(x, self.kernel, self.stride), self.bias))

    def on_blocks(self, x: Float[Array, "n h w inputs"], frames: int = 1) -> Float[Array, "n h2 w2 outputs"]:
        """The same for blocks of `BLOCK` times the stride, of so many frames; gives blocks of `BLOCK`."""
        kernel = blocks.block_kernel(self.kernel, self.stride, BLOCK, frames)
        return relu(add_bias(convolved(x, kernel), jnp.tile(self.bias, BLOCK * BLOCK)))

    def left_of(self, length: int) -> int:
        """Rows, or columns, that come out of so many."""
        return (length - KERNEL) // self.stride + 1


def gives_blocks(dtype: jnp.dtype) -> bool:
    """Whether convolutions in this dtype give blocks: who makes features and who reads them must agree."""
    return dtype == jnp.bfloat16


class Convolutions(eqx.Module):
    """Pixels to flat features: four convolutions."""

    layers: tuple[Convolution, ...]

    def __call__(self, pixels: UInt8[Array, "n stack h w c"]) -> Float[Array, "n features"]:
        """Features of each stack of frames, in the dtype of the weights; in bfloat16 they come in blocks.

        The first kernel is divided by 255, not the pixels: 0 to 255 are exact in bfloat16, 255ths are not.
        """
        first, *rest = self.layers
        layers = eqx.tree_at(lambda layer: layer.kernel, first, first.kernel / BRIGHTEST), *rest
        x = (_on_blocks if gives_blocks(first.kernel.dtype) else _on_pixels)(layers, pixels)
        return x.reshape(x.shape[0], -1)


def _on_pixels(
    layers: Sequence[Convolution], x: UInt8[Array, "n stack h w c"]
) -> Float[Array, "n h2 w2 outputs"]:
    """The colours of all frames of a stack are the channels of one picture, the oldest frame's first."""
    x = jnp.moveaxis(x, 1, 3).reshape(x.shape[0], *x.shape[2:4], -1).astype(layers[0].kernel.dtype)
    for layer in layers:
        x = layer(x)
    return x


def _on_blocks(
    layers: Sequence[Convolution], x: UInt8[Array, "n stack h w c"]
) -> Float[Array, "n down across inside"]:
    """What `_on_pixels` gives, but for rounding, in blocks of `BLOCK`, which may reach beyond the picture."""
    first, (stack, height, width) = layers[0], x.shape[1:4]
    down, across = (-(-first.left_of(length) // BLOCK) + 1 for length in (height, width))
    # Without the barrier pixels are cropped and put into blocks in one go, which takes several times as long.
    x = blocks.stacks_to_blocks(jax.lax.optimization_barrier(x), BLOCK * first.stride, down, across)
    x = first.on_blocks(x.astype(first.kernel.dtype), stack)
    for layer in layers[1:]:
        x = layer.on_blocks(x)
    return x


class Projection(eqx.Module):
    """Features to few: a linear map, layer normalisation, tanh.

    shape:  height, width and channels of the picture whose features it is given, pixel after pixel; or block
            after block, see `gives_blocks`.
    """

    linear: Linear
    scale: Float32[Array, " features"]
    offset: Float32[Array, " features"]
    shape: tuple[int, int, int] = eqx.field(static=True)

    def __call__(self, x: Float[Array, "n inputs"]) -> Float32[Array, "n features"]:
        """Features between -1 and 1."""
        x = self.linear(x)
        x = x - jnp.mean(x, axis=-1, keepdims=True)
        x = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + NORM_EPSILON)
        return jnp.tanh(x * self.scale + self.offset)

    def in_blocks(self) -> Projection:
        """The same for features that come in blocks of `BLOCK`."""
        weight = blocks.rows_in_block_order(self.linear.weight, self.shape, BLOCK)
        return eqx.tree_at(lambda projection: projection.linear.weight, self, weight)


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
    shape: tuple[int, ...],
    features: int,
    hidden: Sequence[int],
    actions: int,
    log_std_range: tuple[float, float],
) -> Actor:
    """An actor for flat inputs of this shape; `features` 0: vectors that need no projection."""
    projection_key, trunk_key = jax.random.split(key)
    trunk = build_trunk(trunk_key, (features or math.prod(shape), *hidden, 2 * actions))
    return Actor(build_projection(projection_key, shape, features), trunk, log_std_range)


def build_critic(
    key: Key[Array, ""],
    convolutions: Convolutions | eqx.nn.Identity,
    shape: tuple[int, ...],
    features: int,
    hidden: Sequence[int],
    actions: int,
) -> Critic:
    """A critic on these convolutions, which give this shape; `features` 0 as for the actor."""
    projection_key, head_key = jax.random.split(key)
    sizes = ((features or math.prod(shape)) + actions, *hidden, 1)
    heads = jax.vmap(lambda key: build_trunk(key, sizes))(jax.random.split(head_key))
    return Critic(convolutions, build_projection(projection_key, shape, features), heads)


def build_convolutions(
    key: Key[Array, ""], size: tuple[int, int], inputs: int, channels: int
) -> tuple[Convolutions, tuple[int, int, int]]:
    """Orthogonal convolutions of pictures of this size, and the shape of what they give."""
    layers, (height, width) = [], size
    for one, stride in zip(jax.random.split(key, len(STRIDES)), STRIDES, strict=True):
        kernel = orthogonal(one, KERNEL * KERNEL * inputs, channels, RELU_GAIN)
        kernel = kernel.reshape(KERNEL, KERNEL, inputs, channels)
        layers.append(Convolution(kernel, jnp.zeros(channels), stride))
        height, width = layers[-1].left_of(height), layers[-1].left_of(width)
        inputs = channels
    return Convolutions(tuple(layers)), (height, width, channels)


def build_projection(
    key: Key[Array, ""], shape: tuple[int, ...], features: int
) -> Projection | eqx.nn.Identity:
    """To so many features; 0: none is needed."""
    if not features:
        return eqx.nn.Identity()
    height, width, channels = shape
    linear = orthogonal_linear(key, math.prod(shape), features, gain=1.0)
    return Projection(linear, jnp.ones(features), jnp.zeros(features), (height, width, channels))


def build_trunk(key: Key[Array, ""], sizes: Sequence[int]) -> Trunk:
    """Orthogonal dense layers between layers of these sizes."""
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return Trunk(tuple(orthogonal_linear(one, i, o, gain=1.0) for one, i, o in pairs))


def encoder_in(part: Part, dtype: jnp.dtype) -> Part:
    """An actor, a critic or what acts, with convolutions and the projection's linear map in this dtype.

    Trunks, normalisation and the convolutions' biases stay in float32: they cost next to nothing, and values
    are sums of small things. In bfloat16 convolutions give blocks: to put the projection's weights into that
    order is far less work than to put the features of a whole batch back into the order of pixels.
    """

    def is_encoder(node: object) -> bool:
        return isinstance(node, Convolution | Projection)

    def cast(node):
        if isinstance(node, Projection):
            node = node.in_blocks() if gives_blocks(dtype) else node
            return eqx.tree_at(lambda projection: projection.linear, node, _in(node.linear, dtype))
        if isinstance(node, Convolution):
            return eqx.tree_at(lambda layer: layer.kernel, node, _in(node.kernel, dtype))
        return node

    return jax.tree.map(cast, part, is_leaf=is_encoder)


def _in(part: Part, dtype: jnp.dtype) -> Part:
    return jax.tree.map(lambda array: array.astype(dtype), part)
