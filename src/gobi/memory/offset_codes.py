"""Codes by similarity for vectors of few numbers: hyperplanes that do not all pass through the origin."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key, Shaped, UInt32

from gobi.errors import GobiError
from gobi.memory.codes import SimHash, coded_signs

FINEST = 1 / 1024
"""Numbers are rounded to multiples of this before they are coded, see `OffsetHash`."""
FARTHEST = 2.0
"""From the origin to a hyperplane, at most.

The projection of numbers in [-1, 1] onto a random direction is rarely longer, however many they are.
"""


class OffsetHash(SimHash):
    """Signs of w.x + b: cells between random hyperplanes, so that near observations often share a code.

    Those of a SimHash pass through the origin: of two numbers, such as a place on a line and a speed, it
    would tell the direction and nothing else.

    Weights are multiples of 1/64 and numbers are rounded to 1/1024. Sums over a few hundred numbers of about
    [-1, 1] are then exact in float32, and codes do not depend on the device or on the rest of the batch.

    offset:  b of each bit.
    """

    offset: Float32[Array, " bits"]

    def __init__(self, key: Key[Array, ""], shape: tuple[int, ...], bits: int = 50, spread: float = 1.0):
        """Hyperplanes for observations of about [-1, 1] in each number.

        spread:  the farther apart the hyperplanes, the coarser the codes: 2 for numbers in [-2, 2].
        """
        if not (spread > 0 and math.isfinite(spread)):
            raise GobiError(f"spread must be a positive number, got {spread}")
        directions, offsets = jax.random.split(key)
        super().__init__(directions, shape, bits)
        # Of one or two weights, all may have been rounded to 0.
        flat = jnp.all(self.projection == 0, axis=1)
        self.projection = self.projection.at[:, 0].add(flat.astype(jnp.float32))
        reach = spread * min(math.sqrt(math.prod(shape)), FARTHEST)
        lengths = jnp.linalg.norm(self.projection, axis=1)
        self.offset = lengths * jax.random.uniform(offsets, (bits,), minval=-reach, maxval=reach)

    @classmethod
    def centred(
        cls, key: Key[Array, ""], shape: tuple[int, ...], bits: int = 50, centre: float = 127.5
    ) -> OffsetHash:
        """A SimHash whose hyperplanes pass through the middle of the range instead: for pictures of bytes."""
        made = cls(key, shape, bits)
        return eqx.tree_at(lambda made: made.offset, made, -centre * jnp.sum(made.projection, axis=1))

    def __call__(self, observation: Shaped[Array, "..."]) -> UInt32[Array, "... 2"]:
        """The code of each observation: bit i is set where it lies on the positive side of hyperplane i."""
        flat = self._flat(observation)
        if jnp.issubdtype(observation.dtype, jnp.floating):
            flat = jnp.round(flat / FINEST) * FINEST
        # Compared, not added: the sum is exact, and stays so.
        return coded_signs(self._products(flat) > -self.offset)
