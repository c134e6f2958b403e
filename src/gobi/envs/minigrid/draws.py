"""Random draws for level generation: integers only, so that every device makes the same level."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, UInt32


class Draws:
    """The random words of one level, used up in the order of the calls.

    All words come from one call of the generator: a level needs dozens of draws, and each call of threefry
    costs compile time. Taking a word modulo n favours no value by more than n / 2**32.
    """

    def __init__(self, key: Key[Array, ""], words: int):
        self._words = jax.random.bits(key, (words,), jnp.uint32)
        self._used = 0

    def _take(self, count: int) -> UInt32[Array, " count"]:
        start, self._used = self._used, self._used + count
        if self._used > self._words.shape[0]:
            raise ValueError(f"a level drew more than its {self._words.shape[0]} random words")
        return self._words[start : self._used]

    def word(self) -> UInt32[Array, ""]:
        """32 random bits."""
        return self._take(1)[0]

    def integer(self, low: int | Int32[Array, ""], high: int | Int32[Array, ""]) -> Int32[Array, ""]:
        """An integer in low .. high - 1."""
        span = jnp.asarray(high - low, jnp.uint32)
        return low + (self._take(1)[0] % span).astype(jnp.int32)

    def index(self, mask: Bool[Array, "..."]) -> Int32[Array, ""]:
        """The flat index of one of the mask's true entries, each as likely as the others."""
        flat = mask.reshape(-1)
        rank = jnp.cumsum(flat, dtype=jnp.int32)
        chosen = self.integer(0, rank[-1])
        return jnp.argmax(rank > chosen).astype(jnp.int32)

    def order(self, count: int) -> Int32[Array, " count"]:
        """A permutation of 0 .. count - 1."""
        return jnp.argsort(self._take(count)).astype(jnp.int32)
