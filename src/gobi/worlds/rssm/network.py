"""The world model's weights: encoder, state-space model, decoder; and their sizes."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
from jaxtyping import Array, Key, PyTree

from gobi.worlds.rssm.dynamics import Dynamics, dynamics
from gobi.worlds.rssm.pictures import Decoder, Encoder, decoder, encoder


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How wide the network is; the defaults are Dreamer's.

    depth:          channels of the first convolution; an embedded frame has 32 times as many numbers.
    deterministic:  the GRU's units.
    stochastic:     dimensions of the Gaussian.
    hidden:         units of the layers around the GRU.
    """

    depth: int = 32
    deterministic: int = 200
    stochastic: int = 30
    hidden: int = 200


DREAMER = Sizes()


class Network(eqx.Module):
    """Encoder, state-space model, decoder. Dreamer's reward head is left out: GoBI imagines states alone."""

    encoder: Encoder
    dynamics: Dynamics
    decoder: Decoder


def build(key: Key[Array, ""], action_size: int, sizes: Sizes = DREAMER) -> Network:
    """A new network for actions of this many numbers."""
    encoder_key, dynamics_key, decoder_key = jax.random.split(key, 3)
    return Network(
        encoder(encoder_key, sizes.depth),
        dynamics(
            dynamics_key,
            action_size,
            embedding=32 * sizes.depth,
            deterministic=sizes.deterministic,
            stochastic=sizes.stochastic,
            hidden=sizes.hidden,
        ),
        decoder(decoder_key, sizes.stochastic + sizes.deterministic, sizes.depth),
    )


def cast(weights: PyTree, dtype: str) -> PyTree:
    """Weights for products in another precision; biases, which join float32 sums, stay as they are."""
    return jax.tree.map(lambda array: array.astype(dtype) if array.ndim > 1 else array, weights)
