"""Networks that predict the next observation from the present one and an action: of symbols, numbers, pixels.

All of them begin with "nothing changes", and learn what does. Of an observation, what does not depend on the
action is worked out once for all actions.
"""

from __future__ import annotations

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float32, Integer, Key, Shaped, UInt8

from gobi.errors import GobiError
from gobi.types import Spec
from gobi.worlds.predictor_layers import Change, Dense, Local, dense, local, mean_square, unnoticed

MOST_ONE_HOT = 4096
"""Zeros and ones that an observation of symbols may become; with more, each symbol is read bit by bit."""
STAYS = 4.0
"""The logit by which what there is is ahead of everything else, before anything is learned."""
QUIET = 4
"""Predicted changes of a pixel below this are none: noise all over a picture would change its code."""
WILDEST = 8.0
"""Numbers are predicted to change by at most so many times what they usually do."""
LEAST_SIDE = 3
"""Cells a side from which on neighbours matter."""
MOST_BLOCKS = 14
"""Pixels are put together in blocks, of which there are at most so many a side."""


class Predictor(eqx.Module):
    """What a network here answers to. Rows of weight 0 count for nothing."""

    def predict(
        self, before: Shaped[Array, "n ..."], actions: Float32[Array, "n a size"]
    ) -> Shaped[Array, "n a ..."]:
        """The observation after each of the actions."""
        raise NotImplementedError

    def loss(
        self, before: Shaped[Array, "n ..."], action: Float32[Array, "n size"], after: Shaped[Array, "n ..."]
    ) -> Float32[Array, " n"]:
        """What to make small."""
        raise NotImplementedError

    def noticing(
        self, before: Shaped[Array, "n ..."], after: Shaped[Array, "n ..."], weight: Float32[Array, " n"]
    ) -> Predictor:
        """The same network, knowing better how large changes are."""
        del before, after, weight
        return self

    def quality(
        self,
        before: Shaped[Array, "n ..."],
        predicted: Shaped[Array, "n ..."],
        after: Shaped[Array, "n ..."],
        weight: Float32[Array, " n"],
    ) -> dict[str, Float32[Array, ""]]:
        """How good predictions are: `world/error` is 1 for "nothing changes", and 0 for perfect ones."""
        change, rest = (after.astype(jnp.float32) - part.astype(jnp.float32) for part in (before, predicted))
        change, rest = (mean_square(part, weight) for part in (change, rest))
        # Each number counts by how much of its own change is left.
        moves = change > 0
        left = jnp.sum(jnp.where(moves, rest / jnp.where(moves, change, 1), 0))
        return {"world/error": jnp.where(jnp.any(moves), left / jnp.maximum(jnp.sum(moves), 1), 1.0)}


class Numbers(Predictor):
    """Vectors: how much each number changes, in multiples of what it usually does."""

    body: Dense
    change: Change

    def predict(
        self, before: Float32[Array, "n d"], actions: Float32[Array, "n a size"]
    ) -> Float32[Array, "n a d"]:
        """The numbers after each of the actions."""
        change = jnp.clip(self.body(before, actions), -WILDEST, WILDEST)
        return before[:, None] + self.change.scale * change

    def loss(
        self, before: Float32[Array, "n d"], action: Float32[Array, "n size"], after: Float32[Array, "n d"]
    ) -> Float32[Array, " n"]:
        """Squared error of the changes, each in its own scale."""
        wanted = jnp.clip((after - before) / self.change.scale, -WILDEST, WILDEST)
        return jnp.mean(jnp.square(self.body(before, action[:, None])[:, 0] - wanted), axis=-1)

    def noticing(
        self, before: Float32[Array, "n d"], after: Float32[Array, "n d"], weight: Float32[Array, " n"]
    ) -> Numbers:
        """The scale of each number follows its changes."""
        return Numbers(self.body, self.change.noticing(mean_square(after - before, weight), jnp.sum(weight)))


class Symbols(Predictor):
    """Integers: logits of the classes of each, or of its bits where there are many; the present one ahead."""

    body: Dense
    local: Local | None
    shape: tuple[int, ...] = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    @property
    def bitwise(self) -> bool:
        """Whether symbols are read and predicted bit by bit."""
        return self.width < self.classes

    @property
    def width(self) -> int:
        """Zeros and ones that make a symbol."""
        return symbol_width(self.shape, self.classes)

    def predict(
        self, before: Integer[Array, "n ..."], actions: Float32[Array, "n a size"]
    ) -> Integer[Array, "n a ..."]:
        """The likeliest symbols after each of the actions."""
        logits = self.logits(before, actions)
        if self.bitwise:
            best = jnp.sum((logits > 0) << np.arange(self.width), axis=-1)
            best = jnp.minimum(best, self.classes - 1)
        else:
            best = jnp.argmax(logits, axis=-1)
        return best.astype(self.dtype).reshape(*actions.shape[:2], *self.shape)

    def loss(
        self,
        before: Integer[Array, "n ..."],
        action: Float32[Array, "n size"],
        after: Integer[Array, "n ..."],
    ) -> Float32[Array, " n"]:
        """Cross-entropy, summed over symbols."""
        logits, wanted = self.logits(before, action[:, None])[:, 0], self.marks(after).astype(jnp.float32)
        if self.bitwise:
            return jnp.sum(optax.sigmoid_binary_cross_entropy(logits, wanted), axis=(1, 2))
        return jnp.sum(optax.softmax_cross_entropy(logits, wanted), axis=1)

    def quality(
        self,
        before: Integer[Array, "n ..."],
        predicted: Integer[Array, "n ..."],
        after: Integer[Array, "n ..."],
        weight: Float32[Array, " n"],
    ) -> dict[str, Float32[Array, ""]]:
        """Shares of observations predicted right in every symbol: of all, and of those that changed."""
        rows = len(weight)
        right = jnp.all((predicted == after).reshape(rows, -1), axis=1)
        changing = weight * jnp.any((before != after).reshape(rows, -1), axis=1)
        return {
            "world/exact": jnp.sum(right * weight) / jnp.maximum(jnp.sum(weight), 1),
            "world/exact_changes": jnp.sum(right * changing) / jnp.maximum(jnp.sum(changing), 1),
        }

    def logits(
        self, before: Integer[Array, "n ..."], actions: Float32[Array, "n a size"]
    ) -> Float32[Array, "n a symbols width"]:
        """Of the classes, or of the bits, of each symbol."""
        marks = self.marks(before)
        features = marks.astype(jnp.float32)
        out = self.body(features.reshape(len(before), -1), actions)
        if self.local is not None:
            grid = features.reshape(len(before), *self.shape[:2], -1)
            out = out + self.local(grid, actions).reshape(out.shape)
        ahead = jnp.where(marks, STAYS, -STAYS if self.bitwise else 0.0)
        return out.reshape(*out.shape[:2], -1, self.width) + ahead[:, None]

    def marks(self, symbols: Integer[Array, "n ..."]) -> Bool[Array, "n symbols width"]:
        """Each symbol as zeros and ones."""
        flat = symbols.reshape(len(symbols), -1, 1).astype(jnp.int32)
        numbers = np.arange(self.width, dtype=np.int32)
        return (flat >> numbers) & 1 == 1 if self.bitwise else flat == numbers


class Pixels(Predictor):
    """Pictures: how much each pixel changes, by what is around its block."""

    local: Local
    change: Change
    shape: tuple[int, int, int] = eqx.field(static=True)
    block: int = eqx.field(static=True)

    def predict(
        self, before: UInt8[Array, "n h w c"], actions: Float32[Array, "n a size"]
    ) -> UInt8[Array, "n a h w c"]:
        """The picture after each of the actions."""
        change = jnp.round(self._outputs(before, actions) * self.change.scale)
        change = jnp.where(jnp.abs(change) < QUIET, 0, change)
        return jnp.clip(before[:, None] + change, 0, 255).astype(jnp.uint8)

    def loss(
        self,
        before: UInt8[Array, "n h w c"],
        action: Float32[Array, "n size"],
        after: UInt8[Array, "n h w c"],
    ) -> Float32[Array, " n"]:
        """Squared error of the changes, in their usual size."""
        wanted = (after.astype(jnp.float32) - before.astype(jnp.float32)) / self.change.scale
        return jnp.mean(jnp.square(self._outputs(before, action[:, None])[:, 0] - wanted), axis=(1, 2, 3))

    def noticing(
        self, before: UInt8[Array, "n h w c"], after: UInt8[Array, "n h w c"], weight: Float32[Array, " n"]
    ) -> Pixels:
        """One scale for all pixels follows their changes."""
        squares = jnp.mean(mean_square(after.astype(jnp.float32) - before.astype(jnp.float32), weight))
        return Pixels(self.local, self.change.noticing(squares, jnp.sum(weight)), self.shape, self.block)

    def quality(
        self,
        before: UInt8[Array, "n h w c"],
        predicted: UInt8[Array, "n h w c"],
        after: UInt8[Array, "n h w c"],
        weight: Float32[Array, " n"],
    ) -> dict[str, Float32[Array, ""]]:
        """The share of the change that is left, of all pixels together: most of them hardly ever change."""
        change, rest = (after.astype(jnp.float32) - part.astype(jnp.float32) for part in (before, predicted))
        change, rest = (jnp.sum(mean_square(part, weight)) for part in (change, rest))
        return {"world/error": jnp.where(change > 0, rest / jnp.where(change > 0, change, 1), 1.0)}

    def _outputs(
        self, before: UInt8[Array, "n h w c"], actions: Float32[Array, "n a size"]
    ) -> Float32[Array, "n a h w c"]:
        height, width, channels = self.shape
        block = self.block
        high, wide = -(-height // block), -(-width // block)
        missing = [(0, 0), (0, high * block - height), (0, wide * block - width), (0, 0)]
        padded = jnp.pad(before.astype(jnp.float32) / 127.5 - 1, missing)
        blocks = padded.reshape(-1, high, block, wide, block, channels).swapaxes(2, 3)
        out = self.local(blocks.reshape(*blocks.shape[:3], -1), actions)
        out = out.reshape(*out.shape[:4], block, block, channels).swapaxes(3, 4)
        out = out.reshape(*out.shape[:2], high * block, wide * block, channels)
        return out[:, :, :height, :width]


@functools.partial(jax.jit, static_argnums=(1, 2))
def predictor(key: Key[Array, ""], spec: Spec, units: int) -> Predictor:
    """A new network for what a task shows: symbols, numbers, or pictures."""
    acted, shape = spec.num_actions or spec.action_size, spec.observation_shape
    one, two = jax.random.split(key)
    if spec.observation_dtype == "float32" and len(shape) == 1:
        return Numbers(dense(one, shape[0], acted, shape[0], units), unnoticed(shape))
    if spec.classes:
        width = symbol_width(shape, spec.classes)
        size = math.prod(shape) * width
        grid = len(shape) >= 2 and min(shape[:2]) >= LEAST_SIDE
        around = local(two, size // math.prod(shape[:2]), acted) if grid else None
        body = dense(one, size, acted, size, units)
        return Symbols(body, around, shape, spec.classes, spec.observation_dtype)
    if spec.observation_dtype == "uint8" and len(shape) == 3:
        height, width, channels = shape
        block = -(-max(height, width) // MOST_BLOCKS)
        around = local(two, block * block * channels, acted)
        return Pixels(around, unnoticed(()), (height, width, channels), block)
    raise GobiError(
        f"there is no model for observations of {spec.observation_dtype} {list(shape)}: vectors of float32, "
        "integers (classes > 0) and pictures of uint8 can be predicted"
    )


def symbol_width(shape: tuple[int, ...], classes: int) -> int:
    """Zeros and ones that make a symbol: one for each class, or one for each bit where that is too many."""
    return classes if math.prod(shape) * classes <= MOST_ONE_HOT else max(1, (classes - 1).bit_length())
