"""From 64x64 pictures to numbers and back: the convolutional encoder and decoder of Dreamer (2019).

Products are in the dtype of the weights, so that a caller casts once per update. Biases are added in float32:
what reaches one is a sum over all pixels, which bfloat16 would get wrong.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key

from gobi.networks import blocks
from gobi.networks.convolving import convolved
from gobi.networks.layers import Linear, product

DECODER_KERNELS = (5, 5, 6, 6)
ALIGNED = 8
"""In bfloat16, sizes are filled up with zeros to a multiple of this: cuDNN and XLA do so too, but slower."""


def glorot(key: Key[Array, ""], shape: tuple[int, ...]) -> Float32[Array, "..."]:
    """Weights uniform within sqrt(6 / (fan in + fan out)), the default of Keras."""
    return jax.nn.initializers.glorot_uniform()(key, shape, jnp.float32)


def glorot_linear(key: Key[Array, ""], inputs: int, outputs: int) -> Linear:
    """Glorot uniform weights and zero biases."""
    return Linear(glorot(key, (inputs, outputs)), jnp.zeros(outputs))


class Convolution(eqx.Module):
    """A 4x4 convolution with stride 2 and no border: 64 pixels to 31 to 14 to 6 to 2.

    Computed as a 2x2 convolution of stride 1 on blocks of 2x2 pixels. The gradient of a strided convolution
    is a dilated one, for which XLA has no quick way on a CPU; and three channels are few for a GPU.
    """

    weight: Float[Array, "*seeds 4 4 inputs outputs"]
    bias: Float[Array, "*seeds outputs"]

    def __call__(self, x: Float[Array, "n h w inputs"]) -> Float32[Array, "n h2 w2 outputs"]:
        """The convolution of each picture."""
        rows, columns = x.shape[1] // 2, x.shape[2] // 2
        inside = blocks.to_blocks(x[:, : 2 * rows, : 2 * columns], 2, rows, columns)
        return _convolved(inside, blocks.block_kernel(self.weight, stride=2, side=1)) + self.bias


class Deconvolution(eqx.Module):
    """A transposed convolution with stride 2 and no border: 1 to 5 to 13 (kernels of 5) to 30 to 64 (of 6).

    A pixel spreads into the kernel's square around its double place: out[2 i + u] += x[i] weight[u].
    Computed as a 3x3 convolution of stride 1 that gives blocks of 2x2 pixels, for the same reasons.
    """

    weight: Float[Array, "*seeds k k inputs outputs"]
    bias: Float[Array, "*seeds outputs"]

    def __call__(self, x: Float[Array, "n h w inputs"]) -> Float32[Array, "n h2 w2 outputs"]:
        """The transposed convolution of each picture."""
        n, height, width, inputs = x.shape
        size, outputs = self.weight.shape[0], self.weight.shape[-1]
        if height == width == 1:
            # Of a single place it is a product; as a convolution, most of it would be with zeros.
            kernel = jnp.moveaxis(self.weight, -2, 0).reshape(inputs, -1)
            spread = product(x.reshape(n, inputs), kernel)
            return spread.reshape(n, size, size, outputs) + self.bias
        kernel = jnp.pad(self.weight, [(0, 6 - size), (0, 6 - size), (0, 0), (0, 0)])
        kernel = kernel.reshape(3, 2, 3, 2, inputs, outputs)[::-1, :, ::-1]
        kernel = kernel.transpose(0, 2, 4, 1, 3, 5).reshape(3, 3, inputs, 4 * outputs)
        spread = _convolved(jnp.pad(x, [(0, 0), (2, 2), (2, 2), (0, 0)]), kernel)
        return blocks.to_pixels(spread, 2, 2 * (height - 1) + size, 2 * (width - 1) + size) + self.bias


def _convolved(
    x: Float[Array, "n h w inputs"], kernel: Float[Array, "k k inputs outputs"]
) -> Float32[Array, "n h2 w2 outputs"]:
    """A plain convolution, the product in the dtype of the kernel."""
    outputs = kernel.shape[-1]
    if kernel.dtype == jnp.bfloat16:
        more = [-channels % ALIGNED for channels in kernel.shape[-2:]]
        kernel = jnp.pad(kernel, [(0, 0), (0, 0), (0, more[0]), (0, more[1])])
        x = jnp.pad(x, [(0, 0), (0, 0), (0, 0), (0, more[0])])
    return convolved(x.astype(kernel.dtype), kernel)[..., :outputs].astype(jnp.float32)


class Encoder(eqx.Module):
    """Four convolutions with ReLU, then flattened."""

    convolutions: tuple[Convolution, ...]

    def __call__(self, frames: Float[Array, "*batch 64 64 3"]) -> Float32[Array, "*batch embedding"]:
        """The embedding of each frame."""
        x = frames.reshape(-1, *frames.shape[-3:])
        for convolution in self.convolutions:
            x = jax.nn.relu(convolution(x))
        return x.reshape(*frames.shape[:-3], -1)


class Decoder(eqx.Module):
    """A linear layer, then four transposed convolutions with ReLU between them."""

    enters: Linear
    deconvolutions: tuple[Deconvolution, ...]

    def __call__(self, features: Float[Array, "*batch features"]) -> Float32[Array, "*batch 64 64 3"]:
        """The picture of each row of features."""
        x = self.enters(features.reshape(-1, features.shape[-1]))[:, None, None]
        for layer, deconvolution in enumerate(self.deconvolutions):
            x = deconvolution(jax.nn.relu(x) if layer else x)
        return x.reshape(*features.shape[:-1], *x.shape[1:])


def encoder(key: Key[Array, ""], depth: int = 32) -> Encoder:
    """With `depth` channels at first, twice as many after each convolution; 32 x depth numbers come out."""
    channels = (3, depth, 2 * depth, 4 * depth, 8 * depth)
    keys = jax.random.split(key, 4)
    return Encoder(
        tuple(
            Convolution(glorot(k, (4, 4, inputs, outputs)), jnp.zeros(outputs))
            for k, inputs, outputs in zip(keys, channels[:-1], channels[1:], strict=True)
        )
    )


def decoder(key: Key[Array, ""], features: int, depth: int = 32) -> Decoder:
    """From 32 x depth channels at a single place to 4, 2 and 1 x depth, and three colours."""
    channels = (32 * depth, 4 * depth, 2 * depth, depth, 3)
    first, *keys = jax.random.split(key, 1 + len(DECODER_KERNELS))
    return Decoder(
        glorot_linear(first, features, channels[0]),
        tuple(
            Deconvolution(glorot(k, (size, size, inputs, outputs)), jnp.zeros(outputs))
            for k, size, inputs, outputs in zip(
                keys, DECODER_KERNELS, channels[:-1], channels[1:], strict=True
            )
        ),
    )
