"""The dynamics network of the paper's text (its appendix): a regression onto the numbers of the next view."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Integer, Key, UInt8

from gobi.networks import layers, symbols
from gobi.networks.layers import ConvStack, Linear
from gobi.worlds.network import ActionLinear, Network, Settings, Size, action_linear


class Written(Network):
    """The policy's feature extractor on each view, joined; then the action, and a decoder of two layers.

    The text has the first joint layer read 4 x 1024 numbers, but the convolutions give 2048 per view. Here a
    first layer of 1024 units reads each view, and a second one the four results: the policy's "2 linear
    layers with 1024 units", and 4 x 1024 in between.
    """

    extractor: ConvStack
    each_view: Linear
    all_views: Linear
    joint: ActionLinear
    hidden: Linear
    output: Linear
    settings: Settings = eqx.field(static=True)

    @property
    def stochastic(self) -> bool:
        """Whether two predictions for the same panorama and action can differ."""
        return False

    def encode(self, panorama: UInt8[Array, "n 4 7 7 3"]) -> Float[Array, "n units"]:
        """The features' part of the decoder's first layer."""
        dtype = self.joint.action.dtype
        views = symbols.encode_views(panorama, self.settings.inputs, dtype)
        features = jax.nn.relu(self.each_view(self.extractor(views)))
        features = jax.nn.relu(self.all_views(features.reshape(len(panorama), -1)))
        return self.joint.features(features)

    def values(
        self, encoded: Float[Array, "n units"], actions: Integer[Array, "n a"]
    ) -> Float32[Array, "n a views 7 7 3"]:
        """Real numbers that should be near the integers of the next view."""
        x = jax.nn.relu(encoded[:, None] + self.joint.rows(actions))
        x = self.output(jax.nn.relu(self.hidden(x))).astype(jnp.float32)
        return x.reshape(*actions.shape, self.views, 7, 7, 3)

    def predict(
        self,
        encoded: Float[Array, "n units"],
        actions: Integer[Array, "n a"],
        keys: Key[Array, " n"],
        noise: Float32[Array, " a"],
    ) -> UInt8[Array, "n a views 7 7 3"]:
        """The nearest legal value of each number."""
        del keys, noise
        return symbols.nearest_legal(self.values(encoded, actions))

    def loss(
        self,
        panorama: UInt8[Array, "n 4 7 7 3"],
        action: Integer[Array, " n"],
        target: UInt8[Array, "n views 7 7 3"],
        key: Key[Array, ""],
    ) -> Float32[Array, " n"]:
        """Squared error, summed over the numbers of the view."""
        del key
        values = self.values(self.encode(panorama), action[:, None])[:, 0]
        return jnp.square(values - target.astype(jnp.float32)).sum(axis=(1, 2, 3, 4))


def written(key: Key[Array, ""], settings: Settings, size: Size) -> Written:
    """A new network: orthogonal feature extractor, PyTorch's default in the decoder."""
    keys = jax.random.split(key, 6)
    channels = symbols.input_channels(settings.inputs)
    views = 4 if settings.predicts == "panorama" else 1
    first, second = size.decoder
    return Written(
        extractor=layers.conv_stack(keys[0], channels, size.channels),
        each_view=layers.orthogonal_linear(keys[1], 4 * size.channels[-1], size.width),
        all_views=layers.orthogonal_linear(keys[2], 4 * size.width, size.width),
        joint=action_linear(layers.torch_linear, keys[3], size.width, first),
        hidden=layers.torch_linear(keys[4], first, second),
        output=layers.torch_linear(keys[5], second, views * symbols.CELLS * 3),
        settings=settings,
    )
