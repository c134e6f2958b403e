"""Our grid model: classes per cell, drawn by a small network or copied from what the panorama shows."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Integer, Key, UInt8

from gobi.envs.minigrid.rules import NUM_ACTIONS
from gobi.networks import layers, symbols
from gobi.networks.layers import ConvStack, Linear
from gobi.worlds.copies import SOURCES, copied, most_likely, sources
from gobi.worlds.erasure import erased
from gobi.worlds.network import ActionLinear, Network, Settings, Size, action_linear

GATE_SCALE = 8.0
"""A gate must reach several nats to settle a cell; scaled up, it gets there in a few hundred small steps."""
PAINTS = 8
"""Of the narrow network."""


class Encoded(NamedTuple):
    """What all actions share: the features' part of the first layer, and the cells to copy from."""

    features: Float[Array, "n units"]
    cells: UInt8[Array, "3 8 cells n"]


class Trunk(eqx.Module):
    """Panorama and action into features.

    extractor:  convolutions on each view, in the paper's size; the others read the cells directly.
    reads:      how many views the features are of, the last of the panorama's; the others can be copied.
    """

    extractor: ConvStack | None
    joint: ActionLinear
    hidden: Linear
    reads: int = eqx.field(static=True, default=4)

    def encode(self, panorama: UInt8[Array, "n 4 7 7 3"], settings: Settings, views: int) -> Encoded:
        """What all actions share."""
        inputs = symbols.encode_views(panorama[:, -self.reads :], settings.inputs, self.joint.action.dtype)
        features = inputs if self.extractor is None else self.extractor(inputs)
        features = self.joint.features(features.reshape(len(panorama), -1))
        return Encoded(features, sources(erased(panorama, settings.erase), views))

    def __call__(
        self, features: Float[Array, "n units"], actions: Integer[Array, "n a"]
    ) -> Float[Array, "n a units"]:
        """The features of each action."""
        x = jax.nn.relu(features[:, None] + self.joint.rows(actions))
        return jax.nn.relu(self.hidden(x))


class Painter(eqx.Module):
    """Features into logits for every cell: what is drawn, plus gates times what could be copied.

    draw:       how much of each paint goes into each cell.
    palette:    what each paint adds to the logits of object, colour and state; None: a paint for each class.
    gates:      how strongly each source is copied into each cell, by the features.
    by_action:  the same by the action alone.
    """

    draw: Linear
    gates: Linear
    by_action: Float[Array, "actions gates"]
    palette: Float[Array, "paints 20"] | None = None

    def __call__(
        self,
        features: Float[Array, "n a units"],
        actions: Integer[Array, "n a"],
        cells: UInt8[Array, "3 8 cells n"],
    ) -> Float32[Array, "n a cells 20"]:
        """Logits of object, colour and state."""
        drawn, gates = self._strokes(features, actions)
        return jnp.transpose(drawn + copied(cells, gates), (3, 2, 1, 0)).astype(jnp.float32)

    def best(
        self,
        features: Float[Array, "n a units"],
        actions: Integer[Array, "n a"],
        cells: UInt8[Array, "3 8 cells n"],
    ) -> UInt8[Array, "n a cells 3"]:
        """The most likely object, colour and state, as cells that there are in the game."""
        drawn, gates = self._strokes(features, actions)
        best = symbols.legal_channels(*most_likely(drawn, cells, gates))
        return jnp.transpose(jnp.stack(best), (3, 2, 1, 0))

    def _strokes(
        self, features: Float[Array, "n a units"], actions: Integer[Array, "n a"]
    ) -> tuple[Float32[Array, "20 cells a n"], Float32[Array, "8 cells a n"]]:
        """What is drawn, and the gates of what could be copied.

        Biases are rows of the product for a one-hot action: to add them later is another pass over its
        output, which is far larger than all else.
        """
        drawn_by_action = jnp.broadcast_to(self.draw.bias, (NUM_ACTIONS, *self.draw.bias.shape))
        weight = jnp.concatenate(
            [
                jnp.concatenate([self.draw.weight, GATE_SCALE * self.gates.weight], axis=1),
                jnp.concatenate([drawn_by_action, GATE_SCALE * (self.gates.bias + self.by_action)], axis=1),
            ]
        )
        chosen = actions[..., None] == jnp.arange(NUM_ACTIONS)
        rows = jnp.concatenate([features.astype(weight.dtype), chosen.astype(weight.dtype)], axis=-1)
        rows = jnp.swapaxes(rows, 0, 1).reshape(-1, rows.shape[-1])
        strokes = layers.product(weight.T, rows.T)
        cells = self.by_action.shape[-1] // SOURCES
        strokes = strokes.reshape(-1, cells, *actions.T.shape)
        drawn, gates = strokes[:-SOURCES], strokes[-SOURCES:]
        if self.palette is None:
            return drawn, gates
        mixed = layers.product(self.palette.T, drawn.astype(self.palette.dtype).reshape(len(drawn), -1))
        return mixed.reshape(-1, *drawn.shape[1:]), gates


class Copying(Network):
    """Deterministic: the most likely class of each cell and channel, trained by cross-entropy."""

    trunk: Trunk
    painter: Painter
    settings: Settings = eqx.field(static=True)

    @property
    def stochastic(self) -> bool:
        """Whether two predictions for the same panorama and action can differ."""
        return False

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
        """The most likely class of each cell and channel."""
        del keys, noise
        best = self.painter.best(self.trunk(encoded.features, actions), actions, encoded.cells)
        return best.reshape(*actions.shape, self.views, 7, 7, 3)

    def loss(
        self,
        panorama: UInt8[Array, "n 4 7 7 3"],
        action: Integer[Array, " n"],
        target: UInt8[Array, "n views 7 7 3"],
        key: Key[Array, ""],
    ) -> Float32[Array, " n"]:
        """Cross-entropy in nats, summed over the cells and channels of the view."""
        del key
        encoded, actions = self.encode(panorama), action[:, None]
        logits = self.painter(self.trunk(encoded.features, actions), actions, encoded.cells)[:, 0]
        return -symbols.log_likelihood(logits, target.reshape(len(target), -1, 3)).sum(axis=-1)


def copying(key: Key[Array, ""], settings: Settings, size: Size) -> Copying:
    """A new network. The narrow one reads the view ahead alone, and mixes its cells from few paints."""
    trunk_key, painter_key = jax.random.split(key)
    views = 4 if settings.predicts == "panorama" else 1
    reads, paints = 4, None
    if settings.size == "narrow":
        # What the next view needs from the sides, it copies; the next panorama is drawn at its sides as well.
        reads, paints = views, PAINTS
    return Copying(
        trunk=trunk(trunk_key, settings, size, reads),
        painter=painter(painter_key, size.width, views, paints),
        settings=settings,
    )


def trunk(key: Key[Array, ""], settings: Settings, size: Size, reads: int = 4) -> Trunk:
    """A new trunk: orthogonal, as the policy's feature extractor."""
    one, two, three = jax.random.split(key, 3)
    channels = symbols.input_channels(settings.inputs)
    extractor, inputs = None, reads * symbols.CELLS * channels
    if settings.size == "paper":
        extractor, inputs = layers.conv_stack(one, channels, size.channels), reads * 4 * size.channels[-1]
    return Trunk(
        extractor=extractor,
        joint=action_linear(layers.torch_linear, two, inputs, size.width),
        hidden=layers.orthogonal_linear(three, size.width, size.width),
        reads=reads,
    )


def painter(key: Key[Array, ""], inputs: int, views: int, paints: int | None = None) -> Painter:
    """A new painter that copies nothing in particular yet."""
    one, two = jax.random.split(key)
    cells = views * symbols.CELLS
    palette = None
    if paints is not None:
        palette = jax.random.normal(jax.random.fold_in(key, 2), (paints, symbols.ALL_CLASSES))
    return Painter(
        draw=layers.torch_linear(one, inputs, cells * (paints or symbols.ALL_CLASSES)),
        gates=layers.orthogonal_linear(two, inputs, cells * SOURCES, gain=0.01),
        by_action=jnp.zeros((NUM_ACTIONS, cells * SOURCES)),
        palette=palette,
    )
