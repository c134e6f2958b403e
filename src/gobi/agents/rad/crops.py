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
) -> UInt8[Array, "n {size} {size} channels"]:
    """Stacks of frames cut at their corners, the colours of all frames of a stack as channels, oldest first.

    Frames are cut while they are gathered: nothing is read of a frame but what the crop shows.
    """

    def one(slot: Int32[Array, ""], corner: Int32[Array, " 2"]) -> UInt8[Array, "size size c"]:
        start = (slot, corner[0], corner[1], jnp.int32(0))
        return jax.lax.dynamic_slice(frames, start, (1, size, size, frames.shape[-1]))[0]

    stacks = jax.vmap(jax.vmap(one, in_axes=(0, None)))(slots, corners)
    return jnp.moveaxis(stacks, 1, 3).reshape(slots.shape[0], size, size, -1)
