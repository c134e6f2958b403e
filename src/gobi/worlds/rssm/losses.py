"""What the world model learns from: pixels reconstructed, and a prior that agrees with the posterior."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32

from gobi.worlds.rssm.network import Network
from gobi.worlds.rssm.recurrence import Belief, Gaussian

FREE_NATS = 3.0


def kl(posterior: Gaussian, prior: Gaussian) -> Float32[Array, "*batch"]:
    """KL(posterior || prior) in nats, summed over the independent dimensions."""
    ratio = jnp.square(posterior.std / prior.std)
    distance = jnp.square((posterior.mean - prior.mean) / prior.std)
    return 0.5 * jnp.sum(ratio + distance - 1 - jnp.log(ratio), axis=-1)


def log_likelihood(
    decoded: Float32[Array, "*batch 64 64 3"], frames: Float32[Array, "*batch 64 64 3"]
) -> Float32[Array, "*batch"]:
    """Log density of each frame under Gaussians of variance 1 around the decoded pixels, summed over them."""
    constant = 0.5 * math.log(2 * math.pi) * math.prod(frames.shape[-3:])
    return -0.5 * jnp.sum(jnp.square(frames - decoded), axis=(-3, -2, -1)) - constant


def model_loss(
    network: Network,
    frames: Float32[Array, "batch time 64 64 3"],
    actions: Float32[Array, "batch time size"],
    noise: Float32[Array, "time batch stochastic"],
    free_nats: float = FREE_NATS,
) -> tuple[Float32[Array, ""], dict[str, Float32[Array, ""]]]:
    """max(mean KL, free nats) less the mean log-likelihood; and what to log.

    frames:   in -0.5 .. 0.5.
    actions:  each led to the frame of the same place.
    noise:    standard normal, for the posterior's samples.
    """
    embeddings = jnp.swapaxes(network.encoder(frames), 0, 1)
    beliefs, posterior, prior = network.dynamics.unroll(jnp.swapaxes(actions, 0, 1), embeddings, noise)
    decoded = network.decoder(jnp.swapaxes(beliefs.features, 0, 1))
    divergence = jnp.mean(kl(posterior, prior))
    likelihood = jnp.mean(log_likelihood(decoded, frames))
    loss = jnp.maximum(divergence, free_nats) - likelihood
    metrics = {
        "world/loss": loss,
        "world/kl": divergence,
        "world/pixel_error": _root_mean_square(decoded - frames),
        **_foresight(network, beliefs, prior, frames),
        "world/prior_std": jnp.mean(prior.std),
        "world/posterior_std": jnp.mean(posterior.std),
    }
    return loss, jax.lax.stop_gradient(metrics)


def _foresight(
    network: Network, beliefs: Belief, prior: Gaussian, frames: Float32[Array, "batch time 64 64 3"]
) -> dict[str, Float32[Array, ""]]:
    """How far off the sequences' last frames are, foreseen from the one before; and how much they changed.

    Below the free nats the prior learns nothing, and nothing else shows it: reconstructions stay good. Of
    one frame a sequence, since decoding all of them again would take its time.
    """
    last = jax.lax.stop_gradient(Belief(beliefs.deterministic[-1], prior.mean[-1]))
    foreseen = jax.lax.stop_gradient(network).decoder(last.features)
    return {
        "world/prediction_error": _root_mean_square(foreseen - frames[:, -1]),
        "world/change": _root_mean_square(frames[:, -1] - frames[:, max(frames.shape[1] - 2, 0)]),
    }


def _root_mean_square(x: Float32[Array, "*shape"]) -> Float32[Array, ""]:
    return jnp.sqrt(jnp.mean(jnp.square(x)))
