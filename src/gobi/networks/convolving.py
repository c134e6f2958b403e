"""Plain convolutions of pictures: as such for a batch, as a matrix product for a few."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LAYOUT = ("NHWC", "HWIO", "NHWC")
FEW = 16
"""Up to so many pictures a GPU is given a product."""


def convolved(
    x: Float[Array, "n h w c"], kernel: Float[Array, "k k c outputs"], stride: int = 1
) -> Float[Array, "n h2 w2 outputs"]:
    """Each neighbourhood times the kernel, without a border; x and kernel have one dtype.

    A GPU's library of convolutions is made for batches, and XLA launches each of them by itself: of a few
    pictures its host takes longer to ask for one than the device to do it. Products it can ask for together.
    """
    if len(x) <= FEW and jax.default_backend() != "cpu":
        return as_product(x, kernel, stride)
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "VALID", dimension_numbers=LAYOUT)


def as_product(
    x: Float[Array, "n h w c"], kernel: Float[Array, "k k c outputs"], stride: int = 1
) -> Float[Array, "n h2 w2 outputs"]:
    """The same as one product of all neighbourhoods, which takes as much memory as they have numbers."""
    size = kernel.shape[0]
    height, width = ((length - size) // stride + 1 for length in x.shape[1:3])
    shifted = [
        x[:, down : down + stride * height : stride, right : right + stride * width : stride]
        for down in range(size)
        for right in range(size)
    ]
    return jnp.concatenate(shifted, axis=-1) @ kernel.reshape(-1, kernel.shape[-1])
