"""Copying cells that the panorama already shows into the next view.

Most of the next view can be seen before the step: a turn brings up another of the four views, a step forward
moves the front one down by a cell. So a network need not draw a cell: it may point to where it comes from.

Everything here has the cells of a view along its last axis: what is done to all of them alike then runs over
memory in a row, which is much faster on a CPU than with the classes last.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from gobi.networks import symbols
from gobi.worlds.network import FRONT

SOURCES = 8
"""The same place in each of the four views, and the four neighbours of that place in the view itself."""


def sources(panorama: UInt8[Array, "n 4 7 7 3"], views: int) -> UInt8[Array, "n 3 8 cells"]:
    """Where each cell of the next view (or the next panorama's four) might come from; unseen outside."""
    shown = [FRONT] if views == 1 else range(4)
    found = []
    for view in shown:
        itself = jnp.pad(panorama[:, view], [(0, 0), (1, 1), (1, 1), (0, 0)])
        neighbours = [itself[:, :-2, 1:-1], itself[:, 2:, 1:-1], itself[:, 1:-1, :-2], itself[:, 1:-1, 2:]]
        found.append(jnp.stack([*(panorama[:, other] for other in range(4)), *neighbours], axis=1))
    every = jnp.stack(found, axis=2)
    return jnp.moveaxis(every, -1, 1).reshape(len(panorama), 3, SOURCES, views * symbols.CELLS)


def copied(
    cells: UInt8[Array, "n 3 8 cells"], gates: Float[Array, "n a 8 cells"]
) -> Float[Array, "n a 20 cells"]:
    """Logits that favour what each source shows, by as much as its gate says."""
    channels = []
    for channel, size in enumerate(symbols.CLASSES):
        classes = np.arange(size, dtype=np.uint8)[:, None]
        total = jnp.zeros((), gates.dtype)
        # One source after the other: the compiler fuses them into one pass.
        for source in range(SOURCES):
            shown = cells[:, None, channel, source, None] == classes
            total = total + jnp.where(shown, gates[:, :, source, None], 0)
        channels.append(total)
    return jnp.concatenate(channels, axis=2)


def most_likely(
    drawn: Float[Array, "n a 20 cells"],
    cells: UInt8[Array, "n 3 8 cells"],
    gates: Float[Array, "n a 8 cells"],
) -> UInt8[Array, "n a cells 3"]:
    """The arg-max of drawn and copied logits together, class by class: they are never written down."""
    channels, place = [], 0
    for channel, size in enumerate(symbols.CLASSES):
        largest = best = None
        for number in range(size):
            score = drawn[:, :, place + number]
            for source in range(SOURCES):
                shown = cells[:, None, channel, source] == number
                score = score + jnp.where(shown, gates[:, :, source], 0)
            if largest is None or best is None:
                largest, best = score, jnp.zeros(score.shape, jnp.uint8)
            else:
                best = jnp.where(score > largest, jnp.uint8(number), best)
                largest = jnp.maximum(score, largest)
        channels.append(best)
        place += size
    # Joined in the same pass, the three channels would be chosen between for every single number.
    return jnp.stack(jax.lax.optimization_barrier(channels), axis=-1)
