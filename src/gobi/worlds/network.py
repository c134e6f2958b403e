"""What every grid model is: panorama and action in, the next view or the next panorama out."""

from __future__ import annotations

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Integer, Key, PyTree, UInt8

from gobi.envs.minigrid.rules import NUM_ACTIONS
from gobi.errors import GobiError
from gobi.worlds.erasure import Erase

KINDS = ("copying", "written", "coded", "generative")
SIZES = ("narrow", "compact", "paper")
FRONT = 3
"""Where the panorama keeps the view straight ahead: it is right, back, left, front."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """All that is needed to build a network again; its arrays are filled in afterwards.

    kind:      `copying` (ours), `written` (the paper's text), `coded` (the public code), `generative`.
    size:      `paper`: convolutions of 32, 128 and 512 channels and 1024 units; `compact`: 128 units; or
               `narrow`: 64, and what else makes it quick on a CPU.
    predicts:  `view`, or `panorama` for several steps ahead.
    inputs:    `raw` integers or `onehot` classes; empty for the kind's own.
    noise:     `coded` draws the public code's noise, in training and in imagination; `none` leaves it out.
    erase:     what is taken out of the cells that `copying` may copy: what its targets do not show either.
    """

    kind: str = "copying"
    size: str = "compact"
    predicts: str = "view"
    inputs: str = ""
    noise: str = "none"
    erase: Erase = False

    def __post_init__(self):
        if not self.inputs:
            raw = self.kind in ("written", "coded")
            object.__setattr__(self, "inputs", "raw" if raw else "onehot")
        legal = {
            "kind": KINDS,
            "size": SIZES,
            "predicts": ("view", "panorama"),
            "inputs": ("raw", "onehot"),
            "noise": ("none", "coded"),
        }
        for name, values in legal.items():
            if getattr(self, name) not in values:
                raise GobiError(f"{name} must be one of {', '.join(values)}, got '{getattr(self, name)}'")
        if self.noise == "coded" and self.kind != "coded":
            raise GobiError(f"only the network 'coded' has the public code's noise, not '{self.kind}'")


@dataclasses.dataclass(frozen=True)
class Size:
    """Widths of a network: channels of the convolutions, units of the trunk, units of the decoder."""

    channels: tuple[int, int, int]
    width: int
    decoder: tuple[int, int]


PAPER = Size(channels=(32, 128, 512), width=1024, decoder=(256, 512))
COMPACT = Size(channels=(16, 32, 64), width=128, decoder=(64, 128))
NARROW = dataclasses.replace(COMPACT, width=64)


class Network(eqx.Module):
    """A grid model. The panorama is encoded once; then each action costs only what depends on it.

    Subclasses have `settings` (static) and the three methods below.
    """

    settings: eqx.AbstractVar[Settings]

    @property
    def views(self) -> int:
        """How many views a prediction has: 1, or the 4 of a panorama."""
        return 4 if self.settings.predicts == "panorama" else 1

    @property
    @abc.abstractmethod
    def stochastic(self) -> bool:
        """Whether two predictions for the same panorama and action can differ."""

    @abc.abstractmethod
    def encode(self, panorama: UInt8[Array, "n 4 7 7 3"]) -> PyTree:
        """What all actions share."""

    @abc.abstractmethod
    def predict(
        self,
        encoded: PyTree,
        actions: Integer[Array, "n a"],
        keys: Key[Array, " n"],
        noise: Float32[Array, " a"],
    ) -> UInt8[Array, "n a views 7 7 3"]:
        """A future for each of a row's actions, symbolic like a real one.

        `noise` scales the randomness of each of the a predictions: 1 samples, 0 gives the most likely
        future. Deterministic networks look at neither `keys` nor `noise`.
        """

    @abc.abstractmethod
    def loss(
        self,
        panorama: UInt8[Array, "n 4 7 7 3"],
        action: Integer[Array, " n"],
        target: UInt8[Array, "n views 7 7 3"],
        key: Key[Array, ""],
    ) -> Float32[Array, " n"]:
        """What training makes small, for each row."""


class ActionLinear(eqx.Module):
    """A linear layer on features and a one-hot action, its weight split in two.

    features @ W_f + b is worked out once per row, and an action then adds its row of W_a: the same numbers as
    the product with the concatenation, at a fraction of the cost.
    """

    features: PyTree
    action: Float[Array, "actions outputs"]

    def rows(self, actions: Integer[Array, "*batch"]) -> Float[Array, "*batch outputs"]:
        """What each action adds."""
        return action_rows(self.action, actions)


def action_rows(
    table: Float[Array, "actions outputs"], actions: Integer[Array, "*batch"]
) -> Float[Array, "*batch outputs"]:
    """Each action's row, as a product with ones and zeros: its gradient needs no scatter."""
    chosen = actions[..., None] == jnp.arange(NUM_ACTIONS)
    return chosen.astype(table.dtype) @ table


def action_linear(make, key: Key[Array, ""], inputs: int, outputs: int) -> ActionLinear:
    """The layer that `make` (an initialiser of `layers`) gives for features and action together."""
    whole = make(key, inputs + NUM_ACTIONS, outputs)
    features = eqx.tree_at(lambda linear: linear.weight, whole, whole.weight[:inputs])
    return ActionLinear(features, whole.weight[inputs:])


def normals(
    keys: Key[Array, " n"], actions: int, width: int, noise: Float32[Array, " a"]
) -> Float32[Array, "n a width"]:
    """Standard normal numbers scaled by `noise`; those of a row depend on its own key alone."""
    drawn = jax.vmap(lambda key: jax.random.normal(key, (actions, width)))(keys)
    return drawn * noise[:, None]


def accuracy(
    predicted: UInt8[Array, "*batch views 7 7 3"], target: UInt8[Array, "*batch views 7 7 3"]
) -> tuple[Bool[Array, "*batch"], Float32[Array, "*batch"]]:
    """Whether the whole prediction is right, and the share of its cells that are."""
    right = jnp.all(predicted == target, axis=-1)
    return jnp.all(right, axis=(-3, -2, -1)), jnp.mean(right.astype(jnp.float32), axis=(-3, -2, -1))
