"""Codes: 64-bit names for observations, exact or by similarity, as two uint32 (JAX runs without 64 bits)."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Integer, Key, Shaped, UInt32

from gobi.errors import GobiError

# Weights of a SimHash are multiples of this, see there.
GRAIN = 1 / 64


def scramble(words: UInt32[Array, "..."], lane: int = 0) -> UInt32[Array, "..."]:
    """A bijection of 32-bit words in which every bit of the input moves about half of the output's bits.

    Two of them, by `lane`: lowbias32 (Wellons) and the finaliser of MurmurHash3 (Appleby).
    """
    first, factor, second, other, third = (
        (16, 0x7FEB352D, 15, 0x846CA68B, 16),
        (16, 0x85EBCA6B, 13, 0xC2B2AE35, 16),
    )[lane]
    words = (words ^ (words >> first)) * np.uint32(factor)
    words = (words ^ (words >> second)) * np.uint32(other)
    return words ^ (words >> third)


def exact(observation: Shaped[Array, "..."], ndim: int = 3) -> UInt32[Array, "... 2"]:
    """The code of each observation; the last `ndim` axes are one observation, those before them a batch.

    Equal observations of one shape and dtype have equal codes; different ones differ but for a chance of
    about 2^-64 per pair. Integers, booleans and floats are taken by their bits (so -0.0 is not 0.0).

    Every 32-bit word of the observation goes through a function of its own (a random key for its place, then
    a scramble), and the results are added: no step waits for the one before it. Were the words added without
    the scramble, differences in high bits would cancel; with it, two observations that differ in one word
    differ in both sums for certain.
    """
    words = _words(observation, ndim)
    count = words.shape[-1]
    keys = np.random.default_rng(0x60B1).integers(0, 2**32, (2, count + 1), np.uint32)
    first, second = (
        jnp.sum(scramble(words ^ keys[lane, :-1], lane), axis=-1, dtype=jnp.uint32) + keys[lane, -1]
        for lane in (0, 1)
    )
    return _finish(first, second)


def mix(codes: UInt32[Array, "*batch 2"], numbers: Integer[Array, "..."]) -> UInt32[Array, "*batch 2"]:
    """Codes that also depend on a number each, the environment's index say; numbers broadcast to the batch.

    Different codes with equal numbers, and equal codes with different numbers, never collide.
    """
    salt = jnp.broadcast_to(numbers, codes.shape[:-1]).astype(jnp.uint32)
    return _finish(
        codes[..., 0] + salt * np.uint32(0x9E3779B1), codes[..., 1] ^ scramble(salt + np.uint32(0xC2B2AE3D))
    )


class SimHash(eqx.Module):
    """Codes by similarity (Charikar 2002): signs of random projections; near observations often share one.

    projection:  Gaussian weights, one row per bit, rounded to multiples of 1/64. Sums over observations of up
                 to about a thousand bytes are then exact in float32: the code of a view does not depend on
                 the device, or on how many others are coded beside it.
    shape:       the shape of one observation.
    """

    projection: Float32[Array, "bits size"]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, key: Key[Array, ""], shape: tuple[int, ...], bits: int = 50):
        if bits < 1:
            raise GobiError(f"a SimHash needs at least 1 bit, not {bits}")
        weights = jax.random.normal(key, (bits, math.prod(shape)), jnp.float32)
        self.projection = jnp.round(weights / GRAIN) * GRAIN
        self.shape = tuple(shape)

    @property
    def bits(self) -> int:
        """How many signs make a code."""
        return self.projection.shape[0]

    def __call__(self, observation: Shaped[Array, "..."]) -> UInt32[Array, "... 2"]:
        """The code of each observation: bit i is set where projection i is positive.

        Up to 64 bits are the code itself, bit 0 the lowest of its first word; more are folded by `exact`,
        which keeps apart what differs in any bit.
        """
        return coded_signs(self._products(self._flat(observation)) > 0)

    def _flat(self, observation: Shaped[Array, "..."]) -> Float32[Array, "... size"]:
        batch = observation.ndim - len(self.shape)
        if observation.shape[max(batch, 0) :] != self.shape:
            raise GobiError(f"this hash codes observations of shape {self.shape}, not {observation.shape}")
        return observation.reshape(*observation.shape[:batch], -1).astype(jnp.float32)

    def _products(self, flat: Float32[Array, "... size"]) -> Float32[Array, "... bits"]:
        # The default precision of a GPU (TF32) would round the inputs.
        return jnp.matmul(flat, self.projection.T, precision=jax.lax.Precision.HIGHEST)


def coded_signs(signs: Bool[Array, "... bits"]) -> UInt32[Array, "... 2"]:
    """Signs as a code: themselves if there are at most 64, else folded."""
    words = _packed(signs, at_least=2)
    return words if words.shape[-1] == 2 else exact(words, ndim=1)


def _words(observation: Shaped[Array, "..."], ndim: int) -> UInt32[Array, "... words"]:
    """The bits of each observation as a row of 32-bit words, padded with zeros."""
    batch = observation.shape[: observation.ndim - ndim]
    if observation.dtype == jnp.bool_:
        observation = observation.astype(jnp.uint8)
    flat = observation.reshape(*batch, -1)
    per_word = max(1, 4 // flat.dtype.itemsize)
    flat = jnp.pad(flat, [(0, 0)] * len(batch) + [(0, -flat.shape[-1] % per_word)])
    if per_word > 1:
        flat = flat.reshape(*batch, -1, per_word)
    return jax.lax.bitcast_convert_type(flat, jnp.uint32).reshape(*batch, -1)


def _packed(signs: Shaped[Array, "... bits"], at_least: int) -> UInt32[Array, "... words"]:
    bits = signs.shape[-1]
    padding = 32 * max(at_least, -(-bits // 32)) - bits
    padded = jnp.pad(signs, [(0, 0)] * (signs.ndim - 1) + [(0, padding)])
    grouped = padded.reshape(*signs.shape[:-1], -1, 32).astype(jnp.uint32)
    return jnp.sum(grouped << np.arange(32, dtype=np.uint32), axis=-1, dtype=jnp.uint32)


def _finish(first: UInt32[Array, "*batch"], second: UInt32[Array, "*batch"]) -> UInt32[Array, "*batch 2"]:
    """Two sums as a code, one to one, every bit of it depending on the first sum."""
    first = scramble(first)
    return jnp.stack([first, scramble(second ^ first, lane=1)], axis=-1)
