"""Symbolic views as networks read them, and back: one-hot, arg-max, likelihood, the nearest legal cell."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from gobi.envs.minigrid import cells

CLASSES = (11, 6, 3)
"""Objects, colours and door states: the legal values of the three channels of a cell."""
ALL_CLASSES = sum(CLASSES)
CELLS = 7 * 7


def one_hot(views: UInt8[Array, "*batch 3"], dtype=jnp.float32) -> Float[Array, "*batch 20"]:
    """Object, colour and state of each cell as 11 + 6 + 3 zeros and ones."""
    channels = [views[..., channel, None] == np.arange(size) for channel, size in enumerate(CLASSES)]
    return jnp.concatenate(channels, axis=-1).astype(dtype)


def encode_views(views: UInt8[Array, "*batch 3"], inputs: str, dtype) -> Float[Array, "*batch c"]:
    """What a network reads: the integers as they are (`raw`), or zeros and ones (`onehot`)."""
    return views.astype(dtype) if inputs == "raw" else one_hot(views, dtype)


def input_channels(inputs: str) -> int:
    """Channels per cell of `encode_views`."""
    return len(CLASSES) if inputs == "raw" else ALL_CLASSES


def most_likely(logits: Float[Array, "*batch 20"]) -> UInt8[Array, "*batch 3"]:
    """The class with the largest logit, for each channel of each cell."""
    return jnp.stack([part.argmax(-1) for part in split_classes(logits)], axis=-1).astype(jnp.uint8)


def legal(views: UInt8[Array, "*batch 3"]) -> UInt8[Array, "*batch 3"]:
    """The same objects, in the colour and state that they have in the game, where there is but one.

    A network that chooses object, colour and state by themselves would invent red walls and grey floors.
    """
    return jnp.stack(legal_channels(*jnp.moveaxis(views, -1, 0)), axis=-1)


def legal_channels(
    kind: UInt8[Array, "*batch"], colour: UInt8[Array, "*batch"], state: UInt8[Array, "*batch"]
) -> tuple[UInt8[Array, "*batch"], UInt8[Array, "*batch"], UInt8[Array, "*batch"]]:
    """`legal`, channel by channel."""
    bare = (kind == cells.UNSEEN) | (kind == cells.EMPTY)
    for single, its in ((bare, 0), (kind == cells.WALL, cells.GREY), (kind == cells.GOAL, cells.GREEN)):
        colour = jnp.where(single, jnp.uint8(its), colour)
    return kind, colour, jnp.where(kind == cells.DOOR, state, 0)


def split_classes(logits: Float[Array, "*batch 20"]) -> list[Float[Array, "*batch _"]]:
    """The logits of object, colour and state by themselves."""
    return jnp.split(logits, np.cumsum(CLASSES)[:-1].tolist(), axis=-1)


def log_likelihood(
    logits: Float[Array, "*batch 20"], views: UInt8[Array, "*batch 3"]
) -> Float[Array, "*batch"]:
    """Log probability of each cell: a softmax for each of its three channels, added up."""
    logits = logits.astype(jnp.float32)
    normalisers = [jax.nn.logsumexp(part, axis=-1) for part in split_classes(logits)]
    return jnp.sum(logits * one_hot(views), axis=-1) - sum(normalisers[1:], normalisers[0])


def nearest_legal(values: Float[Array, "*batch 3"]) -> UInt8[Array, "*batch 3"]:
    """The legal cell nearest to three real numbers: rounded, and within 0..10, 0..5, 0..2."""
    top = np.array(CLASSES, np.float32) - 1
    return jnp.clip(jnp.round(values.astype(jnp.float32)), 0, top).astype(jnp.uint8)
