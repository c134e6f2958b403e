"""The layers that policies, worlds and rewards are made of: large matrix products that stay few under `vmap`.

Everything computes in the dtype of its own weights, so that a caller casts once per update; sums are float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key, Num

from gobi.networks.initial import orthogonal

RELU_GAIN = math.sqrt(2)


class Linear(eqx.Module):
    """x @ weight + bias, over the last axis."""

    weight: Float[Array, "*seeds inputs outputs"]
    bias: Float[Array, "*seeds outputs"]

    def __call__(self, x: Float[Array, "*rows inputs"]) -> Float32[Array, "*rows outputs"]:
        """The affine map of each row."""
        return product(x, self.weight) + self.bias


def orthogonal_linear(key: Key[Array, ""], inputs: int, outputs: int, gain: float = RELU_GAIN) -> Linear:
    """Orthogonal weights and zero biases."""
    return Linear(orthogonal(key, inputs, outputs, gain), jnp.zeros(outputs))


def torch_linear(key: Key[Array, ""], inputs: int, outputs: int) -> Linear:
    """PyTorch's default: weights and biases uniform within 1 / sqrt(inputs)."""
    bound = 1 / math.sqrt(inputs)
    # Drawn together: each draw is a piece of program that takes half a second to compile.
    drawn = jax.random.uniform(key, (inputs + 1, outputs), minval=-bound, maxval=bound)
    return Linear(drawn[:-1], drawn[-1])


def product(x: Float[Array, "*rows n"], weight: Float[Array, "n m"]) -> Float32[Array, "*rows m"]:
    """x @ weight in the weight's dtype with float32 sums, forwards and backwards.

    Left to itself, JAX multiplies a float32 gradient with bfloat16 weights in float32.
    """
    return _product(jnp.dtype(x.dtype).name, x, weight)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _product(dtype, x, weight):
    return jnp.matmul(x.astype(weight.dtype), weight, preferred_element_type=jnp.float32)


def _product_forward(dtype, x, weight):
    x = x.astype(weight.dtype)
    return jnp.matmul(x, weight, preferred_element_type=jnp.float32), (x, weight)


def _product_backward(dtype, saved, gradient):
    x, weight = saved
    gradient = gradient.astype(weight.dtype)
    to_x = jnp.matmul(gradient, weight.T, preferred_element_type=jnp.float32)
    return to_x.astype(dtype), weight_gradient(x, gradient, weight.dtype)


_product.defvjp(_product_forward, _product_backward)


def weight_gradient(
    x: Float[Array, "*rows n"], gradient: Float[Array, "*rows m"], dtype: Any
) -> Float[Array, "n m"]:
    """What reaches the weights of a product, all rows in one product of their own."""
    rows = x.reshape(-1, x.shape[-1]).astype(dtype)
    gradient = gradient.reshape(-1, gradient.shape[-1]).astype(dtype)
    return jnp.matmul(rows.T, gradient, preferred_element_type=jnp.float32).astype(dtype)


class Conv3x3(eqx.Module):
    """A 3x3 convolution, as patches and one matrix product.

    Under `vmap` over networks a convolution becomes a grouped one, which is slow, above all backwards; a
    product stays a product. Weight rows go through the patch column by column: [(dx, dy, channel), outputs].
    """

    linear: Linear
    stride: int = eqx.field(static=True)
    border: int = eqx.field(static=True, default=1)

    def __call__(self, x: Num[Array, "*batch w h c"]) -> Float32[Array, "*batch w2 h2 outputs"]:
        """The convolution of a picture indexed [x, y, channel]."""
        return self.linear(patches(x.astype(self.linear.weight.dtype), self.stride, self.border))


def patches(x: Num[Array, "*batch w h c"], stride: int, border: int) -> Num[Array, "*batch w2 h2 patch"]:
    """The 3x3 neighbourhood of every stride-th place, with a border of zeros around the picture."""
    around = (border, border)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 3) + [around, around, (0, 0)])
    width, height = x.shape[-3:-1]
    shifted = [
        x[..., dx : width - 2 + dx : stride, dy : height - 2 + dy : stride, :]
        for dx in range(3)
        for dy in range(3)
    ]
    return jnp.concatenate(shifted, axis=-1)


def num_patches(length: int, stride: int, border: int) -> int:
    """How many of them there are along a side."""
    return (length + 2 * border - 3) // stride + 1


class ConvStack(eqx.Module):
    """3x3 convolutions with ELU, then flattened."""

    convolutions: tuple[Conv3x3, ...]

    def __call__(self, x: Num[Array, "*batch w h c"]) -> Float[Array, "*batch features"]:
        """Features of each picture, in the dtype of the weights."""
        dtype = self.convolutions[0].linear.weight.dtype
        for convolution in self.convolutions:
            x = jax.nn.elu(convolution(x)).astype(dtype)
        return x.reshape(*x.shape[:-3], -1)


def conv_stack(
    key: Key[Array, ""], inputs: int, channels: Sequence[int], strides: Sequence[int] = (1, 2, 2)
) -> ConvStack:
    """Orthogonal convolutions with these numbers of channels.

    The strides of the policy's feature extractor take 7x7 cells to 7x7, 4x4 and 2x2.
    """
    made = []
    for one, outputs, stride in zip(jax.random.split(key, len(channels)), channels, strides, strict=True):
        made.append(Conv3x3(orthogonal_linear(one, 9 * inputs, outputs), stride))
        inputs = outputs
    return ConvStack(tuple(made))
