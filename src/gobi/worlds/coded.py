"""The dynamics network of the public code: classes per cell by arg-max, and two sources of noise."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Float32, Integer, Key, UInt8

from gobi.networks import layers, symbols
from gobi.networks.layers import ConvStack, Linear
from gobi.worlds.network import ActionLinear, Network, Settings, Size, action_linear, normals

SMALL_NOISE = 4
"""Numbers that the small noise network appends to the latent."""
SMALL_HIDDEN = 16


class Coded(Network):
    """Convolutions on each view; action and features into two layers; half mean, half log-variance; decoders.

    Both halves come out of a ReLU, so the noise's standard deviation is never below 1: with `noise="coded"`
    it is drawn in training and imagination alike, as in the public code. There is no KL term.
    """

    extractor: ConvStack
    joint: ActionLinear
    hidden: Linear
    small: tuple[Linear, Linear, Linear]
    decoders: tuple[tuple[Linear, Linear, Linear], ...]
    settings: Settings = eqx.field(static=True)

    @property
    def stochastic(self) -> bool:
        """Whether two predictions for the same panorama and action can differ."""
        return self.settings.noise == "coded"

    def encode(self, panorama: UInt8[Array, "n 4 7 7 3"]) -> Float[Array, "n units"]:
        """The features' part of the first joint layer."""
        dtype = self.joint.action.dtype
        views = symbols.encode_views(panorama, self.settings.inputs, dtype)
        features = self.extractor(views)
        return self.joint.features(features.reshape(len(panorama), -1))

    def logits(
        self,
        encoded: Float[Array, "n units"],
        actions: Integer[Array, "n a"],
        keys: Key[Array, " n"],
        noise: Float32[Array, " a"],
    ) -> Float32[Array, "n a cells 20"]:
        """The decoders' outputs before the sigmoid."""
        x = jax.nn.relu(encoded[:, None] + self.joint.rows(actions))
        mean, log_variance = jnp.split(jax.nn.relu(self.hidden(x)), 2, axis=-1)
        large, small = self._noise(keys, actions.shape[1], mean.shape[-1], noise)
        z = mean + jnp.exp(log_variance / 2) * large.astype(mean.dtype)
        first, second, third = self.small
        statistics = third(jnp.tanh(second(jax.nn.relu(first(jax.lax.stop_gradient(z))))))
        small_mean, small_log_variance = jnp.split(statistics, 2, axis=-1)
        extra = small_mean + jnp.exp(small_log_variance / 2) * small.astype(mean.dtype)
        z = jnp.concatenate([z, extra], axis=-1)
        decoded = [last(jax.nn.relu(middle(jax.nn.relu(start(z))))) for start, middle, last in self.decoders]
        shaped = [part.reshape(*part.shape[:-1], self.views * symbols.CELLS, -1) for part in decoded]
        return jnp.concatenate(shaped, axis=-1).astype(jnp.float32)

    def predict(
        self,
        encoded: Float[Array, "n units"],
        actions: Integer[Array, "n a"],
        keys: Key[Array, " n"],
        noise: Float32[Array, " a"],
    ) -> UInt8[Array, "n a views 7 7 3"]:
        """Arg-max over the classes of each cell and channel."""
        best = symbols.most_likely(self.logits(encoded, actions, keys, noise))
        return best.reshape(*actions.shape, self.views, 7, 7, 3)

    def loss(
        self,
        panorama: UInt8[Array, "n 4 7 7 3"],
        action: Integer[Array, " n"],
        target: UInt8[Array, "n views 7 7 3"],
        key: Key[Array, ""],
    ) -> Float32[Array, " n"]:
        """Binary cross-entropy with the one-hot target, summed over cells and classes."""
        keys = jax.random.split(key, len(action))
        logits = self.logits(self.encode(panorama), action[:, None], keys, jnp.ones(1))
        wanted = symbols.one_hot(target).reshape(logits.shape)
        return optax.sigmoid_binary_cross_entropy(logits, wanted).sum(axis=(1, 2, 3))

    def _noise(self, keys, actions: int, width: int, noise):
        if not self.stochastic:
            return jnp.float32(0), jnp.float32(0)
        drawn = normals(keys, actions, width + SMALL_NOISE, noise)
        return drawn[..., :width], drawn[..., width:]


def coded(key: Key[Array, ""], settings: Settings, size: Size) -> Coded:
    """A new network: orthogonal feature extractor, PyTorch's default elsewhere."""
    keys = jax.random.split(key, 7)
    channels = symbols.input_channels(settings.inputs)
    latent = size.width // 2
    views = 4 if settings.predicts == "panorama" else 1
    small_sizes = ((latent, SMALL_HIDDEN), (SMALL_HIDDEN, SMALL_HIDDEN), (SMALL_HIDDEN, 2 * SMALL_NOISE))
    one, two, three = (
        layers.torch_linear(k, *sizes)
        for k, sizes in zip(jax.random.split(keys[3], 3), small_sizes, strict=True)
    )
    return Coded(
        extractor=layers.conv_stack(keys[0], channels, size.channels),
        joint=action_linear(layers.orthogonal_linear, keys[1], 4 * 4 * size.channels[-1], size.width),
        hidden=layers.orthogonal_linear(keys[2], size.width, size.width),
        small=(one, two, three),
        decoders=tuple(
            _decoder(k, latent + SMALL_NOISE, size, views * symbols.CELLS * classes)
            for k, classes in zip(keys[4:], symbols.CLASSES, strict=True)
        ),
        settings=settings,
    )


def _decoder(key: Key[Array, ""], inputs: int, size: Size, outputs: int) -> tuple[Linear, Linear, Linear]:
    one, two, three = jax.random.split(key, 3)
    first, second = size.decoder
    return (
        layers.torch_linear(one, inputs, first),
        layers.torch_linear(two, first, second),
        layers.torch_linear(three, second, outputs),
    )
