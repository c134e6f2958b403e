"""Observations of any kind as vectors: integers that are symbols, vectors of numbers, pictures.

MiniGrid's own views have embeddings of their own, see `embeddings`; these serve every other task.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Key, Num

from gobi.errors import GobiError
from gobi.networks.layers import Linear, torch_linear
from gobi.rewards.embeddings import SIDE, through
from gobi.types import Spec
from gobi.worlds.rssm.pictures import Convolution, glorot

Kind = Literal["view", "symbols", "numbers", "picture"]

LONGEST = 2**14
"""Zeros and ones of a one-hot observation, at most; larger ones are read as binary digits."""


class Size(NamedTuple):
    """Widths of an embedding's layers: its hidden dense layers, and the channels of convolutions."""

    hidden: tuple[int, ...]
    channels: tuple[int, ...]


SIZES = {
    "small": Size((64,), (16, 32, 32, 32)),
    "ride": Size((256, 256), (32, 64, 64, 64)),
    "paper": Size((1024, 1024), (32, 64, 128, 128)),
}
"""By the names that MiniGrid's networks have."""


class AnyEmbedding(eqx.Module):
    """Observations of one kind as vectors: convolutions with ELU, if any, then dense layers with ReLU.

    shape:    of one observation.
    classes:  how many symbols there are; 0 for numbers and pixels.
    scale:    what numbers are divided by: 255 for pixels.
    linear:   whether the last dense layer has no ReLU.
    """

    convolutions: tuple[Convolution, ...]
    dense: tuple[Linear, ...]
    shape: tuple[int, ...] = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    linear: bool = eqx.field(static=True, default=True)

    def __call__(self, observations: Num[Array, "..."]) -> Float32[Array, "... units"]:
        """The embedding of each observation; axes before the observation's own are a batch."""
        batch = observations.shape[: observations.ndim - len(self.shape)]
        if observations.shape[len(batch) :] != self.shape:
            raise GobiError(f"this embedding reads observations {self.shape}, not {observations.shape}")
        rows = observations.reshape(-1, *self.shape)
        if self.classes:
            rows = _spelt(rows, self.classes)
        elif self.scale != 1:
            rows = rows.astype(jnp.float32) / self.scale
        for convolution in self.convolutions:
            rows = jax.nn.elu(convolution(rows))
        flat = rows.reshape(len(rows), -1).astype(jnp.float32)
        return through(self.dense, flat, self.linear).reshape(*batch, -1)


def kind_of(spec: Spec) -> Kind:
    """What a task's observations are; those that are none of it are refused."""
    shape, dtype = spec.observation_shape, spec.observation_dtype
    if spec.classes > 0:
        return "symbols"
    if dtype == "uint8" and shape == (SIDE, SIDE, 3):
        return "view"
    if dtype == "uint8" and len(shape) == 3:
        return "picture"
    if dtype.startswith("float"):
        return "numbers"
    raise GobiError(
        "this reward reads cells (uint8 [7, 7, 3]), pictures (uint8 [height, width, channels]), floats, or "
        f"integers whose spec tells the number of classes; {spec.id} gives {dtype} {list(shape)}"
    )


def any_embedding(
    key: Key[Array, ""], spec: Spec, size: str, units: int, linear: bool = True
) -> AnyEmbedding:
    """A fresh embedding of a task's observations, as vectors of `units` numbers.

    size:    `small`, `ride` or `paper`: how wide its layers are, see `SIZES`.
    linear:  whether the last layer has no ReLU.
    """
    kind, shape = kind_of(spec), tuple(spec.observation_shape)
    if kind == "symbols":
        inputs, active = _spelt_length(spec)
        return AnyEmbedding((), _dense(key, size, inputs, active, units), shape, spec.classes, 1.0, linear)
    if kind == "numbers":
        inputs = math.prod(shape)
        return AnyEmbedding((), _dense(key, size, inputs, inputs, units), shape, 0, 1.0, linear)
    one, other = jax.random.split(key)
    convolutions, inputs = _convolutions(one, shape, SIZES[size].channels)
    return AnyEmbedding(convolutions, _dense(other, size, inputs, inputs, units), shape, 0, 255.0, linear)


def _spelt(symbols: Num[Array, "rows ..."], classes: int) -> Float32[Array, "rows inputs"]:
    """Integers as zeros and ones: one place for each class, or binary digits where that would be too long."""
    flat = symbols.reshape(len(symbols), -1)
    if flat.shape[1] * classes <= LONGEST:
        ones = flat[..., None] == np.arange(classes)
    else:
        ones = (flat[..., None].astype(jnp.int32) >> np.arange(_digits(classes))) & 1
    return ones.reshape(len(flat), -1).astype(jnp.float32)


def _spelt_length(spec: Spec) -> tuple[int, int]:
    """How many zeros and ones `_spelt` gives, and about how many of them are ones."""
    integers = math.prod(spec.observation_shape)
    if integers * spec.classes <= LONGEST:
        return integers * spec.classes, integers
    digits = integers * _digits(spec.classes)
    return digits, -(-digits // 2)


def _digits(classes: int) -> int:
    return max(1, (classes - 1).bit_length())


def _convolutions(
    key: Key[Array, ""], shape: tuple[int, ...], channels: tuple[int, ...]
) -> tuple[tuple[Convolution, ...], int]:
    """4x4 convolutions of stride 2 until a side is too short for another one; and the features they leave."""
    height, width, inputs = shape
    made = []
    for one, outputs in zip(jax.random.split(key, len(channels)), channels, strict=True):
        if min(height, width) < 4:
            break
        made.append(Convolution(glorot(one, (4, 4, inputs, outputs)), jnp.zeros(outputs)))
        height, width, inputs = height // 2 - 1, width // 2 - 1, outputs
    return tuple(made), height * width * inputs


def _dense(key: Key[Array, ""], size: str, inputs: int, active: int, units: int) -> tuple[Linear, ...]:
    """Dense layers: hidden ones as wide as the size says, then one of `units`.

    Weights and biases are torch's, made larger so that ReLU leaves signals as large as they come: `active` of
    the inputs are not zero at a time. Biases matter: without them, functions of a short vector would know
    directions and no distances.
    """
    sizes = (inputs, *SIZES[size].hidden, units)
    layers = []
    for index, (rows, columns) in enumerate(pairwise(sizes)):
        gain = 3.0 if index == len(sizes) - 2 else 6.0
        factor = math.sqrt(gain * (rows / active if index == 0 else 1.0))
        drawn = torch_linear(jax.random.fold_in(key, index), rows, columns)
        layers.append(Linear(factor * drawn.weight, factor * drawn.bias))
    return tuple(layers)
