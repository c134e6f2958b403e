"""Lifelong memory: how often each code has come since training began."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from gobi.memory import table

MOST = np.uint32(2**31 - 1)


class LifelongCounts(eqx.Module):
    """Every code that came, with its count; one table for all environments.

    To count each environment by itself, mix its index into the codes (`codes.mix`).

    slots:    the table: a code and its count, 0 where the slot is free. Counts stop at 2^31 - 1.
    used:     how many codes are in the table.
    dropped:  codes that found no slot, since the start; 0 in a table that is large enough. A code without
              one is not remembered: in every call in which it comes its count begins at 1, and it is
              dropped again.
    """

    slots: UInt32[Array, "*seeds buckets 8 3"]
    used: Int32[Array, "*seeds"]
    dropped: Int32[Array, "*seeds"]

    @property
    def num_slots(self) -> int:
        """All slots, used or not."""
        return self.slots.shape[-3] * table.WIDTH

    @property
    def load(self) -> Float32[Array, ""]:
        """The share of used slots, where it is largest; grow the memory when it passes one half."""
        return jnp.max(self.used) / self.num_slots


def empty(capacity: int) -> LifelongCounts:
    """No counts yet, and room for `capacity` different codes, in a table of at least twice as many slots."""
    buckets = table.buckets_for(capacity)
    return LifelongCounts(
        slots=jnp.zeros((buckets, table.WIDTH, 3), jnp.uint32),
        used=jnp.zeros((), jnp.int32),
        dropped=jnp.zeros((), jnp.int32),
    )


def add(
    memory: LifelongCounts, codes: UInt32[Array, "n 2"], valid: Bool[Array, "n"]
) -> tuple[LifelongCounts, Int32[Array, "n"]]:
    """Adds one to the count of each valid code, in index order, and returns the count each one then had.

    Codes that are not valid leave no trace; 0 is returned for them.
    """
    n = codes.shape[0]
    batch = table.runs(codes, valid, jnp.zeros(n, jnp.int32))
    found, at = table.look_up(memory.slots, batch.codes, _used)
    words = memory.slots.shape[-1]
    before = jnp.where(found, memory.slots.reshape(-1, words)[at, table.MARK], 0)
    place_in_run = jnp.arange(n, dtype=jnp.int32) - batch.start
    # Both terms are below 2^31: their sum does not wrap before it is cut.
    counts = jnp.minimum(before + place_in_run.astype(jnp.uint32) + 1, MOST)

    # The last of a run holds the count of the whole run.
    rows = jnp.concatenate([batch.codes, counts[:, None]], axis=-1)
    slots = table.overwrite(memory.slots, rows, at, batch.last & found)
    wanted = batch.last & ~found
    slots, dropped = table.place(slots, rows, wanted, _used)
    memory = LifelongCounts(
        slots=slots,
        used=memory.used + jnp.sum(wanted, dtype=jnp.int32) - dropped,
        dropped=memory.dropped + dropped,
    )
    return memory, table.unsorted(batch, jnp.where(batch.valid, counts.astype(jnp.int32), 0))


def grow(memory: LifelongCounts, factor: int | None = None) -> LifelongCounts:
    """The same counts in a table `factor` times as large, a power of two; by default see `table.growth`.

    For between updates: what takes the memory as an argument compiles anew.
    Leading axes (seeds) may stand before those of the memory.
    """
    buckets = memory.slots.shape[-3]
    factor = table.growth(buckets) if factor is None else factor
    if factor == 1:
        return memory
    table.check_size(buckets * factor)
    slots = table.grown(memory.slots, _used(memory.slots[..., table.MARK]), factor)
    return LifelongCounts(slots=slots, used=memory.used, dropped=memory.dropped)


def _used(marks: UInt32[Array, "..."]) -> Bool[Array, "..."]:
    return marks > 0
