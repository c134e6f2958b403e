"""Convolutions over blocks of pixels: the same sums, in shapes that keep a GPU's tensor cores busy.

A 3x3 convolution of 32 channels is too narrow for them. With the pixels of a 2x2 block as channels of one
pixel it is a 2x2 convolution of 128 channels: 16/9 of the products, some of them with zeros, in less time.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

REACH = 2
"""Blocks that a kernel reaches over, each way."""


def to_blocks(
    x: Shaped[Array, "n h w c"], side: int, down: int, across: int
) -> Shaped[Array, "n {down} {across} inside"]:
    """So many blocks of pixels as pixels: a block's rows one after the other. Beyond the picture is zero."""
    return stacks_to_blocks(x[:, None], side, down, across)


def stacks_to_blocks(
    x: Shaped[Array, "n frames h w c"], side: int, down: int, across: int
) -> Shaped[Array, "n {down} {across} inside"]:
    """The same of several frames at once: in a block, each row of the first frame, of the second, ...

    A row stays in one piece, which is why it is this order: single bytes are moved slowly.
    """
    n, frames, height, width, channels = x.shape
    more = side * down - height, side * across - width
    x = jnp.pad(x, [(0, 0), (0, 0), (0, more[0]), (0, more[1]), (0, 0)])
    x = x.reshape(n, frames, down, side, across, side * channels).transpose(0, 2, 4, 3, 1, 5)
    return x.reshape(n, down, across, -1)


def to_pixels(
    x: Shaped[Array, "n down across inside"], side: int, height: int, width: int
) -> Shaped[Array, "n {height} {width} c"]:
    """The pixels of the blocks, up to this height and width."""
    n, down, across, _ = x.shape
    x = x.reshape(n, down, across, side, side, -1).swapaxes(2, 3)
    return x.reshape(n, down * side, across * side, -1)[:, :height, :width]


def rows_in_block_order(
    weight: Float[Array, "inputs outputs"], shape: tuple[int, int, int], side: int
) -> Float[Array, "inputs2 outputs"]:
    """The rows of a matrix that reads a flat picture of this shape, in the order of the picture's blocks.

    Whatever blocks hold beyond the picture is multiplied with zero.
    """
    height, width, _ = shape
    rows = weight.reshape(1, height, width, -1)
    return to_blocks(rows, side, -(-height // side), -(-width // side)).reshape(-1, weight.shape[-1])


def block_kernel(
    kernel: Float[Array, "k k c o"], stride: int, side: int, frames: int = 1
) -> Float[Array, "2 2 inside outside"]:
    """What a kernel is on blocks of `side * stride` pixels, where it is to give blocks of `side`.

    frames:  how many of them are stacked in its channels; see `stacks_to_blocks`.
    """
    size, _, channels, _ = kernel.shape
    taken = side * stride
    room = REACH * taken - size
    assert (side - 1) * stride <= room, f"a kernel of {size} reaches over more than {REACH} blocks of {taken}"

    def placed(above: int, left: int) -> Array:
        return jnp.pad(kernel, [(above, room - above), (left, room - left), (0, 0), (0, 0)])

    # One copy for each pixel of the block that comes out, in its place above the pixels that go in.
    corners = range(0, taken, stride)
    copies = jnp.concatenate([placed(above, left) for above in corners for left in corners], axis=-1)
    copies = copies.reshape(REACH, taken, REACH, taken, frames, channels // frames, -1)
    copies = copies.transpose(0, 2, 1, 4, 3, 5, 6)
    return copies.reshape(REACH, REACH, taken * taken * channels, -1)
