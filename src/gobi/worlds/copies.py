"""Copying cells that the panorama already shows into the next view.

Most of the next view can be seen before the step: a turn brings up another of the four views, a step forward
moves the front one down by a cell. So a network need not draw a cell: it may point to where it comes from.

Everything here has the rows of a batch along its last axis: what is done to all of them alike then runs over
memory in a row, which is several times faster on a CPU than with classes or cells last.
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


def sources(panorama: UInt8[Array, "n 4 7 7 3"], views: int) -> UInt8[Array, "3 8 cells n"]:
    """Where each cell of the next view (or the next panorama's four) might come from; unseen outside."""
    by_channel = jnp.transpose(panorama, (4, 1, 2, 3, 0))
    found = []
    for view in [FRONT] if views == 1 else range(4):
        itself = jnp.pad(by_channel[:, view], [(0, 0), (1, 1), (1, 1), (0, 0)])
        neighbours = [itself[:, :-2, 1:-1], itself[:, 2:, 1:-1], itself[:, 1:-1, :-2], itself[:, 1:-1, 2:]]
        found.append(jnp.stack([*(by_channel[:, other] for other in range(4)), *neighbours], axis=1))
    return jnp.stack(found, axis=2).reshape(3, SOURCES, views * symbols.CELLS, len(panorama))


def copied(
    cells: UInt8[Array, "3 8 cells n"], gates: Float[Array, "8 cells a n"]
) -> Float[Array, "20 cells a n"]:
    """Logits that favour what each source shows, by as much as its gate says."""
    channels = []
    for channel, size in enumerate(symbols.CLASSES):
        classes = np.arange(size, dtype=np.uint8)[:, None, None, None]
        total = jnp.zeros((), gates.dtype)
        # One source after the other: the compiler fuses them into one pass.
        for source in range(SOURCES):
            shown = cells[channel, source, :, None] == classes
            total = total + jnp.where(shown, gates[source], 0)
        channels.append(total)
    return jnp.concatenate(channels)


def most_likely(
    drawn: Float[Array, "20 cells a n"],
    cells: UInt8[Array, "3 8 cells n"],
    gates: Float[Array, "8 cells a n"],
) -> UInt8[Array, "3 cells a n"]:
    """The arg-max of drawn and copied logits together, class by class: they are never written down."""
    channels, place = [], 0
    for channel, size in enumerate(symbols.CLASSES):
        largest = best = None
        for number in range(size):
            score = drawn[place + number]
            for source in range(SOURCES):
                shown = cells[channel, source, :, None] == number
                score = score + jnp.where(shown, gates[source], 0)
            if largest is None or best is None:
                largest, best = score, jnp.zeros(score.shape, jnp.uint8)
            else:
                best = jnp.where(score > largest, jnp.uint8(number), best)
                largest = jnp.maximum(score, largest)
        channels.append(best)
        place += size
    # Fused with what reads it, the arg-max would be worked out again for every use.
    return jax.lax.optimization_barrier(jnp.stack(channels))
