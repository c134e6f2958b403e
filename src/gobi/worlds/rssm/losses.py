"""What the world model learns from: pixels reconstructed, and a prior that agrees with the posterior."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32

from gobi.worlds.rssm.dynamics import Gaussian
from gobi.worlds.rssm.network import Network

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
        "world/pixel_error": jnp.sqrt(jnp.mean(jnp.square(decoded - frames))),
        "world/prior_std": jnp.mean(prior.std),
        "world/posterior_std": jnp.mean(posterior.std),
    }
    return loss, jax.lax.stop_gradient(metrics)
