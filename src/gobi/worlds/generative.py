"""A generative grid model: what is behind the door is unknown, so there are several futures to sample.

A conditional variational autoencoder (Sohn et al., 2015) with categorical latents. Given panorama x, action a
and next view y:

    prior      p(z | x, a)       what might happen
    posterior  q(z | x, a, y)    what did
    decoder    p(y | x, a, z)    the view, a softmax for each channel of each cell

and the loss is the negative evidence lower bound, -E_q[log p(y | x, a, z)] + KL(q || p) >= -log p(y | x, a).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Integer, Key, UInt8

from gobi.networks import layers, symbols
from gobi.networks.layers import Linear
from gobi.worlds.copying import Encoded, Painter, Trunk, painter, trunk
from gobi.worlds.network import Network, Settings, Size

VARIABLES, CLASSES = 8, 8
"""The latent is eight choices among eight: up to 16.6 nats of what the panorama does not show."""
FREE_NATS = 0.1
"""A mean KL that is not pressed any lower, lest the latent be given up before the decoder can read it."""

Latent = Float32[Array, "*batch variables classes"]


class Generative(Network):
    """Samples futures: a latent from the prior, then the most likely view given it."""

    trunk: Trunk
    prior: Linear
    posterior_view: Linear
    posterior: Linear
    latent: Linear
    painter: Painter
    settings: Settings = eqx.field(static=True)

    @property
    def stochastic(self) -> bool:
        """Whether two predictions for the same panorama and action can differ."""
        return True

    def encode(self, panorama: UInt8[Array, "n 4 7 7 3"]) -> Encoded:
        """The features' part of the first layer, and the cells to copy from."""
        return self.trunk.encode(panorama, self.settings, self.views)

    def predict(
        self,
        encoded: Encoded,
        actions: Integer[Array, "n a"],
        keys: Key[Array, " n"],
        noise: Float32[Array, " a"],
    ) -> UInt8[Array, "n a views 7 7 3"]:
        """The most likely view given a latent from the prior: a sampled one, or its mode where noise is 0."""
        features = self.trunk(encoded.features, actions)
        prior = self._distribution(self.prior(features))
        shape = prior.shape[1:]
        gumbel = jax.vmap(lambda key: jax.random.gumbel(key, shape))(keys)
        z = _chosen(prior + noise[:, None, None] * gumbel)
        best = self.painter.best(self._known(features, z), actions, encoded.cells)
        return best.reshape(*actions.shape, self.views, 7, 7, 3)

    def loss(
        self,
        panorama: UInt8[Array, "n 4 7 7 3"],
        action: Integer[Array, " n"],
        target: UInt8[Array, "n views 7 7 3"],
        key: Key[Array, ""],
    ) -> Float32[Array, " n"]:
        """The negative evidence lower bound in nats; where the KL is small on average it is not trained."""
        encoded, actions = self.encode(panorama), action[:, None]
        features = self.trunk(encoded.features, actions)
        prior, posterior = self.distributions(features, target)
        gumbel = jax.random.gumbel(key, posterior.shape)
        z = _chosen(posterior + gumbel)
        # Straight through: the decoder reads the choice, the gradient flows as if it were the probabilities.
        probabilities = jnp.exp(posterior)
        z = z + probabilities - jax.lax.stop_gradient(probabilities)
        logits = self._logits(features, z, actions, encoded.cells)[:, 0]
        reconstruction = symbols.log_likelihood(logits, target.reshape(len(target), -1, 3)).sum(axis=-1)
        divergence = kl(posterior, prior)[:, 0]
        # Free on average, not row by row: a likely outcome costs little, and must still train the prior.
        costs = jnp.mean(divergence) > FREE_NATS
        return jnp.where(costs, divergence, jax.lax.stop_gradient(divergence)) - reconstruction

    def distributions(
        self, features: Float[Array, "n a units"], target: UInt8[Array, "n views 7 7 3"]
    ) -> tuple[Latent, Latent]:
        """Log probabilities of the prior, and of the posterior that has seen the outcome."""
        seen = self.posterior_view(symbols.one_hot(target, features.dtype).reshape(len(target), -1))
        posterior = self.posterior(jax.nn.relu(seen[:, None] + features))
        return self._distribution(self.prior(features)), self._distribution(posterior)

    def bound(
        self,
        panorama: UInt8[Array, "n 4 7 7 3"],
        action: Integer[Array, " n"],
        target: UInt8[Array, "n views 7 7 3"],
        key: Key[Array, ""],
        samples: int = 16,
    ) -> Float32[Array, " n"]:
        """A lower bound on log p(target | panorama, action) in nats per row.

        Importance-weighted (Burda et al., 2016): log mean_s p(y | z_s) p(z_s) / q(z_s) with z_s from q. One
        sample gives the evidence lower bound; more come closer to the likelihood.
        """
        encoded, actions = self.encode(panorama), action[:, None]
        features = self.trunk(encoded.features, actions)
        prior, posterior = self.distributions(features, target)
        shown = target.reshape(len(target), -1, 3)

        def weight(one: Key[Array, ""]) -> Float32[Array, " n"]:
            z = _chosen(posterior + jax.random.gumbel(one, posterior.shape))
            logits = self._logits(features, z, actions, encoded.cells)[:, 0]
            ratio = jnp.sum(z * (prior - posterior), axis=(1, 2, 3))
            return symbols.log_likelihood(logits, shown).sum(axis=-1) + ratio

        # One sample after the other: side by side they would need that many times the memory.
        weights = jax.lax.map(weight, jax.random.split(key, samples))
        return jax.nn.logsumexp(weights, axis=0) - jnp.log(samples)

    def _logits(self, features, z, actions, cells) -> Float32[Array, "n a cells 20"]:
        return self.painter(self._known(features, z), actions, cells)

    def _known(self, features: Float[Array, "n a units"], z: Latent) -> Float[Array, "n a units"]:
        """What the panorama, the action and the latent tell together."""
        return jax.nn.relu(features + self.latent(z.reshape(*z.shape[:-2], -1)))

    def _distribution(self, logits: Float[Array, "*batch latents"]) -> Latent:
        shaped = logits.astype(jnp.float32).reshape(*logits.shape[:-1], VARIABLES, CLASSES)
        return jax.nn.log_softmax(shaped, axis=-1)


def kl(posterior: Latent, prior: Latent) -> Float32[Array, "*batch"]:
    """KL divergence in nats of independent categorical variables, from their log probabilities."""
    return jnp.sum(jnp.exp(posterior) * (posterior - prior), axis=(-2, -1))


def _chosen(scores: Latent) -> Latent:
    """One-hot of the largest score; with Gumbel noise on log probabilities that is a sample."""
    return jax.nn.one_hot(scores.argmax(-1), scores.shape[-1])


def generative(key: Key[Array, ""], settings: Settings, size: Size) -> Generative:
    """A new network."""
    keys = jax.random.split(key, 6)
    views = 4 if settings.predicts == "panorama" else 1
    outputs, latents = views * symbols.CELLS * symbols.ALL_CLASSES, VARIABLES * CLASSES
    return Generative(
        trunk=trunk(keys[0], settings, size),
        prior=layers.torch_linear(keys[1], size.width, latents),
        posterior_view=layers.torch_linear(keys[2], outputs, size.width),
        posterior=layers.torch_linear(keys[3], size.width, latents),
        latent=layers.torch_linear(keys[4], latents, size.width),
        painter=painter(keys[5], size.width, views),
        settings=settings,
    )
