"""Learned codes: frames named by the bottleneck of an auto-encoder that is made to be binary.

Tang et al. 2017, section 2.3. The bottleneck's units are sigmoids with uniform noise added, so that they must
saturate to be told apart; a penalty draws them to 0 or 1. Rounded, they are the code, which a SimHash makes
shorter. A moving figure then counts for more than the background, which needs no bits.
"""

from __future__ import annotations

import dataclasses
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Key, PyTree, UInt32

from gobi.errors import GobiError
from gobi.memory.codes import SimHash, exact
from gobi.networks.layers import Linear
from gobi.worlds.rssm.pictures import Decoder, Encoder, decoder, encoder, glorot_linear


@dataclasses.dataclass(frozen=True)
class CodeSettings:
    """How the auto-encoder is made and taught.

    bits:           length of a code: that many signs of random projections of the rounded bottleneck; 0: the
                    rounded bottleneck itself, which may then be of any length.
    latent:         units of the bottleneck.
    depth:          channels of the first convolution.
    noise:          uniform noise on the bottleneck, at most so much either way. Above 1/4 the two halves of
                    the range overlap, so that only saturated units carry something.
    penalty:        weight of the mean of min(b, 1 - b) squared, as theirs.
    std:            of the Gaussian around a decoded pixel. Theirs is a softmax over 64 grey values, about as
                    sharp as this. With 1, as in the world model, a thin pendulum weighs so little against
                    the penalty that all units settle at one side and every frame gets the same code.
    learning_rate:  of Adam.
    """

    bits: int = 50
    latent: int = 256
    depth: int = 16
    noise: float = 0.3
    penalty: float = 10.0
    std: float = 0.1
    learning_rate: float = 1e-3


DEFAULTS = CodeSettings()


class AutoEncoder(eqx.Module):
    """Frames through a bottleneck of numbers between 0 and 1."""

    encoder: Encoder
    bottleneck: Linear
    decoder: Decoder

    def logits(self, frames: Float32[Array, "*batch 64 64 3"]) -> Float32[Array, "*batch latent"]:
        """The bottleneck before its sigmoid; positive ones round to 1."""
        return self.bottleneck(self.encoder(frames))


class LearnedCodes(eqx.Module):
    """Codes of frames by what an auto-encoder has learned of them; called like a SimHash.

    A code means something only beside others of the same weights: learn between episodes, not within one.

    network:    the auto-encoder.
    optimiser:  Adam's state.
    simhash:    makes rounded bottlenecks shorter; None where they are short enough.
    settings:   what it was made from.
    """

    network: AutoEncoder
    optimiser: PyTree
    simhash: SimHash | None
    settings: CodeSettings = eqx.field(static=True)

    @classmethod
    def init(cls, key: Key[Array, ""], settings: CodeSettings = DEFAULTS) -> LearnedCodes:
        """Codes of an auto-encoder that has learned nothing."""
        if settings.latent < 1 or settings.bits < 0:
            raise GobiError(
                f"learned codes need a bottleneck and no negative number of bits, not {settings.latent} and "
                f"{settings.bits}"
            )
        keys = jax.random.split(key, 4)
        network = AutoEncoder(
            encoder(keys[0], settings.depth),
            glorot_linear(keys[1], 32 * settings.depth, settings.latent),
            decoder(keys[2], settings.latent, settings.depth),
        )
        simhash = SimHash(keys[3], (settings.latent,), settings.bits) if settings.bits else None
        optimiser = optax.adam(settings.learning_rate).init(cast(optax.Params, network))
        return cls(network, optimiser, simhash, settings)

    def __call__(self, frames: Float32[Array, "*batch 64 64 3"]) -> UInt32[Array, "*batch 2"]:
        """The code of each frame: its rounded bottleneck, made shorter by the SimHash."""
        ones = self.network.logits(frames) > 0
        if self.simhash is None:
            return exact(ones, ndim=1)
        # Around zero: hyperplanes through the origin then cut between 0 and 1.
        return self.simhash(jnp.where(ones, 1.0, -1.0))

    def learn(
        self, key: Key[Array, ""], frames: Float32[Array, "n 64 64 3"]
    ) -> tuple[LearnedCodes, dict[str, Float32[Array, ""]]]:
        """One gradient step on frames as `shrink` makes them; and measures from before it."""
        noise = jax.random.uniform(key, (len(frames), self.settings.latent), minval=-1.0, maxval=1.0)
        noise = self.settings.noise * noise
        gradient, metrics = jax.grad(code_loss, has_aux=True)(self.network, frames, noise, self.settings)
        changes, optimiser = optax.adam(self.settings.learning_rate).update(gradient, self.optimiser)
        network = cast(AutoEncoder, optax.apply_updates(cast(optax.Params, self.network), changes))
        return LearnedCodes(network, optimiser, self.simhash, self.settings), metrics


def code_loss(
    network: AutoEncoder,
    frames: Float32[Array, "n 64 64 3"],
    noise: Float32[Array, "n latent"],
    settings: CodeSettings,
) -> tuple[Float32[Array, ""], dict[str, Float32[Array, ""]]]:
    """-log p(frame | noisy bottleneck b) + penalty x mean of min(b, 1 - b)^2, their equation 3; and measures.

    p is a Gaussian around the decoded pixels, less its constant.
    """
    units = jax.nn.sigmoid(network.logits(frames))
    decoded = network.decoder(units + noise)
    error = jnp.square(decoded - frames)
    between = jnp.minimum(units, 1 - units)
    unlikely = 0.5 * jnp.mean(jnp.sum(error, axis=(-3, -2, -1))) / settings.std**2
    loss = unlikely + settings.penalty * jnp.mean(jnp.square(between))
    metrics = {
        "codes/loss": loss,
        "codes/pixel_error": jnp.sqrt(jnp.mean(error)),
        "codes/between": jnp.mean(between),
    }
    return loss, jax.lax.stop_gradient(metrics)
