"""Copying cells that the panorama already shows into the next view.

Most of the next view can be seen before the step: a turn brings up another of the four views, a step forward
moves the front one down by a cell. So a network need not draw a cell: it may point to where it comes from.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from gobi.worlds import layers
from gobi.worlds.network import FRONT

SOURCES = 8
"""The same place in each of the four views, and the four neighbours of that place in the view itself."""


def sources(panorama: UInt8[Array, "n 4 7 7 3"], views: int) -> UInt8[Array, "n cells 8 3"]:
    """Where each cell of the next view (or the next panorama's four) might come from; unseen outside."""
    shown = [FRONT] if views == 1 else range(4)
    found = []
    for view in shown:
        itself = jnp.pad(panorama[:, view], [(0, 0), (1, 1), (1, 1), (0, 0)])
        neighbours = [itself[:, :-2, 1:-1], itself[:, 2:, 1:-1], itself[:, 1:-1, :-2], itself[:, 1:-1, 2:]]
        found.append(jnp.stack([*(panorama[:, other] for other in range(4)), *neighbours], axis=-2))
    return jnp.stack(found, axis=1).reshape(len(panorama), views * layers.CELLS, SOURCES, 3)


def copied(
    cells: UInt8[Array, "n cells 8 3"], gates: Float[Array, "n a cells 8"]
) -> Float[Array, "n a cells 20"]:
    """Logits that favour what each source shows, by as much as its gate says."""
    total = jnp.zeros((), gates.dtype)
    # One source after the other: the compiler fuses them into one pass, without an [n, a, cells, 8, 20].
    for number in range(SOURCES):
        shown = layers.one_hot(cells[:, None, :, number], gates.dtype)
        total = total + gates[..., number, None] * shown
    return total
