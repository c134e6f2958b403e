"""Frames as the world model and the hash see them: 64x64, around zero; and their scaling before SimHash."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt8

from gobi.errors import GobiError, unknown

SIDE = 64
SHAPE = (SIDE, SIDE, 3)
SCALINGS = ("raw", "half", "centred")


def shrink(frames: UInt8[Array, "*batch h w 3"]) -> Float32[Array, "*batch 64 64 3"]:
    """Rendered frames down-sampled to 64x64, from 0 .. 255 to -0.5 .. 0.5.

    The same as `jax.image.resize` with linear interpolation and antialiasing, as one product per axis.
    """
    rows, columns = (_interpolation(length) for length in frames.shape[-3:-1])
    # The default precision of a GPU (TF32) would round the weights, and codes would depend on the device.
    small = jnp.einsum(
        "ih,...hwc,jw->...ijc",
        rows,
        frames.astype(jnp.float32),
        columns,
        precision=jax.lax.Precision.HIGHEST,
    )
    return small / 255 - 0.5


@functools.cache
def _interpolation(length: int) -> Float32[np.ndarray, "64 length"]:
    """How much of each pixel of a line goes into each of 64: triangles as wide as these are far apart."""
    step = length / SIDE
    centres = (np.arange(SIDE) + 0.5) * step - 0.5
    distance = np.abs(centres[:, None] - np.arange(length)) / max(step, 1.0)
    weights = np.maximum(1 - distance, 0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def scaled(
    frames: Float32[Array, "*batch 64 64 3"], scaling: str, mean: Float32[Array, "64 64 3"] | None = None
) -> Float32[Array, "*batch 64 64 3"]:
    """Frames in -0.5 .. 0.5 as SimHash is to see them.

    `raw`: 0 .. 255. `half`: as they are. `centred`: less a mean image, which must then be given.
    Where a hyperplane through the origin cuts depends on it: what most pixels share fixes most bits.
    """
    if scaling == "raw":
        return (frames + 0.5) * 255
    if scaling == "half":
        return frames
    if scaling == "centred":
        if mean is None:
            raise GobiError("the scaling 'centred' needs a mean image")
        return frames - mean
    raise unknown("scaling", scaling, SCALINGS)


class MeanImage(eqx.Module):
    """The mean of all frames it was given. Codes must not change within an episode: add between episodes.

    mean:   zero before the first frame.
    count:  how many frames there were.
    """

    mean: Float32[Array, "64 64 3"]
    count: Int32[Array, ""]

    @classmethod
    def empty(cls) -> MeanImage:
        """The mean of nothing yet."""
        return cls(jnp.zeros(SHAPE, jnp.float32), jnp.zeros((), jnp.int32))

    def add(self, frames: Float32[Array, "n 64 64 3"]) -> MeanImage:
        """The mean with n more frames in it."""
        count = self.count + len(frames)
        change = jnp.sum(frames - self.mean, axis=0) / jnp.maximum(count, 1)
        return MeanImage(self.mean + change, count)
