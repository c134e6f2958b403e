"""Pictures as thumbnails: averaged down by a whole factor, the channels last."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Shaped, UInt8

from gobi.adapters.batches import checked
from gobi.errors import GobiError

MOST_PIXELS = 42
"""Pixels along a thumbnail, at most."""
MOST_CELLS = 16
"""A grid of symbols has at most so many cells a side.

A first axis of no more, with two longer ones behind it, counts channels or frames.
"""
LEAST_PIXELS = 4
"""What is no wider than this is a table."""


@dataclasses.dataclass(frozen=True)
class Thumbnails:
    """Turns pictures into thumbnails.

    announced:  the shape of a picture: [height, width], either with channels, first or last; or with frames
                before all of that, which become channels.
    shape:      the shape of a thumbnail: [height, width, channels].
    factor:     how many pixels a side become one.
    low, high:  the range of the pixels, which becomes 0 .. 255.
    """

    announced: tuple[int, ...]
    shape: tuple[int, int, int]
    factor: int
    low: float
    high: float

    def __call__(self, batch: Shaped[np.ndarray, "envs ..."]) -> UInt8[np.ndarray, "envs h w c"]:
        """The thumbnails of a batch."""
        array = channels_last(checked(batch, self.announced), batch=1)
        height, width, channels = self.shape
        factor = self.factor
        # The last row and column of blocks may lack pixels: those at the border stand in for them.
        there = array.shape[1:3]
        lacking = [(0, height * factor - there[0]), (0, width * factor - there[1])]
        if any(more for _, more in lacking):
            array = np.pad(array, [(0, 0), *lacking, (0, 0)], mode="edge")
        blocks = array.reshape(-1, height, factor, width, factor, channels)
        mean = blocks.mean(axis=(2, 4), dtype=np.float32)
        scaled = (mean - self.low) * (255 / max(self.high - self.low, 1e-12))
        return np.clip(np.rint(scaled), 0, 255).astype(np.uint8)


def thumbnails(shape: tuple[int, ...], low: float, high: float) -> Thumbnails:
    """What makes thumbnails of pictures of this shape."""
    height, width, channels = channels_last(np.broadcast_to(np.uint8(0), shape), batch=0).shape
    factor = -(-max(height, width) // MOST_PIXELS)
    return Thumbnails(shape, (-(-height // factor), -(-width // factor), channels), factor, low, high)


def large(shape: tuple[int, ...]) -> bool:
    """Whether an array of this shape has more pixels a side than a grid of symbols has cells."""
    if len(shape) not in (2, 3, 4):
        return False
    height, width, _ = channels_last(np.broadcast_to(np.uint8(0), shape), batch=0).shape
    return max(height, width) > MOST_CELLS and min(height, width) > LEAST_PIXELS


def channels_last(array: Shaped[np.ndarray, "..."], batch: int) -> Shaped[np.ndarray, "*batch h w c"]:
    """The same pictures with channels last, whatever shape they had; `batch` axes come before it."""
    shape = array.shape[batch:]
    if len(shape) == 2:
        return array[..., None]
    if len(shape) == 3:
        first = shape[0] <= MOST_CELLS < min(shape[1:])
        return np.moveaxis(array, batch, -1) if first else array
    if len(shape) == 4:
        inner = channels_last(array, batch + 1)
        moved = np.moveaxis(inner, batch, -2)
        return moved.reshape(*moved.shape[:-2], -1)
    raise GobiError(f"pictures have two to four axes, got the shape {list(shape)}")
