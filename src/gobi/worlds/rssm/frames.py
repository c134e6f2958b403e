"""Frames as the world model and the hash see them: 64x64, around zero; and their scaling before SimHash."""

from __future__ import annotations

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, Num, UInt8

from gobi.errors import GobiError, unknown

SIDE = 64
SHAPE = (SIDE, SIDE, 3)
SCALINGS = ("raw", "half", "centred")


def shrink(frames: UInt8[Array, "*batch h w 3"]) -> Float32[Array, "*batch 64 64 3"]:
    """Rendered frames down-sampled to 64x64, from 0 .. 255 to -0.5 .. 0.5.

    The same as `jax.image.resize` with linear interpolation and antialiasing.
    """
    # Each way by itself, and once: a GPU would else do the whole of it for every pixel, wherever it is used.
    rows = jax.lax.optimization_barrier(_resampled(frames, -3))
    return jax.lax.optimization_barrier(_resampled(rows, -2) / 255 - 0.5)


def _resampled(frames: Num[Array, "*shape"], axis: int) -> Float32[Array, "*shape2"]:
    """Every line along an axis made of 64 pixels.

    A sum of the few pixels that count for each. A product with a matrix would be mostly with zeros, and a
    GPU would round in it: codes would depend on the device.
    """
    first, weights = _interpolation(frames.shape[axis])
    shape = (-1, *[1] * (-axis - 1))
    terms = [
        jnp.take(frames, first + place, axis, mode="clip") * weight.reshape(shape)
        for place, weight in enumerate(weights.T)
    ]
    return functools.reduce(jnp.add, terms)


@functools.cache
def _interpolation(length: int) -> tuple[Int32[np.ndarray, "64"], Float32[np.ndarray, "64 some"]]:
    """For each of 64 pixels the first of a line that counts for it, and how much that and the next ones do.

    The weights are triangles as wide as the 64 are far apart.
    """
    step = length / SIDE
    width = max(step, 1.0)
    centres = (np.arange(SIDE) + 0.5) * step - 0.5
    some = min(math.ceil(2 * width), length)
    first = np.clip(np.ceil(centres - width), 0, length - some).astype(np.int32)
    distance = np.abs(centres[:, None] - (first[:, None] + np.arange(some))) / width
    weights = np.maximum(1 - distance, 0)
    return first, (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


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
