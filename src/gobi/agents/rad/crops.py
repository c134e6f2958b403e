"""Crops of pictures: random ones to learn from, the middle one to act on."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, Key, UInt8


def random_corners(key: Key[Array, ""], n: int, room: tuple[int, int]) -> Int32[Array, "n 2"]:
    """For each of n pictures, how many rows and columns to leave out above and to the left: 0 to the room."""
    most = jnp.array(room, jnp.int32)
    return jax.random.randint(key, (n, 2), 0, most + 1, jnp.int32)


def centre(n: int, room: tuple[int, int]) -> Int32[Array, "n 2"]:
    """The corner of the middle crop, n times."""
    return jnp.broadcast_to(jnp.array(room, jnp.int32) // 2, (n, 2))


def cropped(
    frames: UInt8[Array, "slots h w c"],
    slots: Int32[Array, "n stack"],
    corners: Int32[Array, "n 2"],
    size: int,
) -> UInt8[Array, "n stack {size} {size} c"]:
    """Stacks of frames, all frames of a stack cut at the same corner.

    Frames are cut while they are gathered: nothing is read of a frame but what the crop shows.
    """
    count, height, width, colours = frames.shape
    # A row of pixels as one row of bytes: then as much as possible is copied in one piece.
    rows = frames.reshape(count, height, width * colours)

    def one(slot: Int32[Array, ""], corner: Int32[Array, " 2"]) -> UInt8[Array, "size row"]:
        start = (slot, corner[0], corner[1] * colours)
        return jax.lax.dynamic_slice(rows, start, (1, size, size * colours))[0]

    stacks = jax.vmap(jax.vmap(one, in_axes=(0, None)))(slots, corners)
    return stacks.reshape(*slots.shape, size, size, colours)
