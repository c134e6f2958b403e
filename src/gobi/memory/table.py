"""The hash table under every memory: buckets of eight slots, two buckets per code, filled a batch at a time.

A slot is a row of uint32: the two words of a code, a mark that says whether the slot is live, and what the
memory keeps with the code, if anything. Live slots fill their bucket from the front. Nothing loops until it
succeeds: lookups read sixteen slots, insertions make a fixed number of tries, what does not fit is counted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from gobi.errors import GobiError
from gobi.memory.codes import scramble

WIDTH = 8
MARK = 2
LARGEST = 2**28
"""Slots of one agent's memory, all its environments together, at most."""
# How far a bucket may be filled in each try of an insertion, see `place`.
LEVELS = (6, 7, 8)

Live = Callable[[UInt32[Array, "..."]], Bool[Array, "..."]]
"""Says of marks whether their slots are live."""


def buckets_for(capacity: int, tables: int = 1) -> int:
    """How many buckets hold `capacity` codes at a load of at most one half, where tries do not fail.

    capacity:  codes in one table.
    tables:    how many such tables there will be; all of them together have at most 2^28 slots (`LARGEST`).
    """
    if capacity < 1:
        raise GobiError(f"a memory must hold at least one code, not {capacity}")
    buckets = max(2, 2 ** math.ceil(math.log2(2 * capacity / WIDTH)))
    check_size(buckets * tables)
    return buckets


def growth(buckets: int) -> int:
    """By how much a memory of so many buckets grows when it is crowded: 4, near the limit 2, at the limit 1.

    It depends on one agent's memory alone: agents side by side grow as each would by itself.
    """
    return next((factor for factor in (4, 2) if buckets * WIDTH * factor <= LARGEST), 1)


def check_size(buckets: int) -> None:
    """Refuses a memory with more than 2^28 slots."""
    if buckets * WIDTH > LARGEST:
        raise GobiError(
            f"a memory of {buckets * WIDTH:,} slots is above the limit of {LARGEST:,}: "
            "use fewer environments, or codes that repeat more often (SimHash with fewer bits)"
        )


class Runs(eqx.Module):
    """A batch of codes in sorted order, so that equal codes stand side by side in a run.

    order:  where each code was in the batch; within a run it ascends, but codes that are not valid come last.
    codes:  the codes.
    valid:  which are part of the batch at all.
    first:  the first of its run and segment; `last` the last one. Both only where valid.
    start:  where its run begins.
    """

    order: Int32[Array, "n"]
    codes: UInt32[Array, "n 2"]
    valid: Bool[Array, "n"]
    first: Bool[Array, "n"]
    last: Bool[Array, "n"]
    start: Int32[Array, "n"]


def runs(codes: UInt32[Array, "n 2"], valid: Bool[Array, "n"], segment: Int32[Array, "n"]) -> Runs:
    """Sorts a batch into runs of equal codes in equal segments; segments must not descend along the batch."""
    n = codes.shape[0]
    index = jnp.arange(n, dtype=jnp.int32)
    # The segment needs no key of its own: it follows the index.
    high, low, key = jax.lax.sort(
        (codes[:, 0], codes[:, 1], index + jnp.where(valid, 0, n)), num_keys=3, is_stable=False
    )
    valid = key < n
    order = jnp.where(valid, key, key - n)
    part = segment[order]
    same = (
        (high[1:] == high[:-1]) & (low[1:] == low[:-1]) & (part[1:] == part[:-1]) & (valid[1:] == valid[:-1])
    )
    edge = jnp.ones(1, bool)
    first = jnp.concatenate([edge, ~same])
    return Runs(
        order=order,
        codes=jnp.stack([high, low], axis=-1),
        valid=valid,
        first=first & valid,
        last=jnp.concatenate([~same, edge]) & valid,
        start=jax.lax.cummax(jnp.where(first, index, 0)),
    )


def unsorted(batch: Runs, values: jax.Array) -> jax.Array:
    """Values that stand in the order of the runs, put back where the batch had them."""
    return jnp.zeros_like(values).at[batch.order].set(values, unique_indices=True)


def candidates(codes: UInt32[Array, "*n 2"], buckets: int) -> Int32[Array, "*n 2"]:
    """The two buckets in which a code may lie.

    They are the leading bits of two hashes of the code, so that in a table of twice the size each bucket has
    become two: growing never brings the codes of different buckets together.
    """
    shift = np.uint32(32 - int(math.log2(buckets)))
    one = scramble(codes[..., 0] ^ scramble(codes[..., 1], lane=1))
    two = scramble(codes[..., 1] + scramble(codes[..., 0] + np.uint32(0x9E3779B9)), lane=1)
    return (jnp.stack([one, two], axis=-1) >> shift).astype(jnp.int32)


def look_up(
    slots: UInt32[Array, "buckets width words"], codes: UInt32[Array, "n 2"], live: Live
) -> tuple[Bool[Array, "n"], Int32[Array, "n"]]:
    """Whether each code is in the table, and its slot, counted through all buckets (0 where it is not)."""
    where = candidates(codes, slots.shape[0])
    found, slot = jnp.zeros(codes.shape[0], bool), jnp.zeros(codes.shape[0], jnp.int32)
    for choice in (0, 1):
        bucket = slots[where[:, choice]]
        equal = (bucket[..., 0] == codes[:, None, 0]) & (bucket[..., 1] == codes[:, None, 1])
        equal &= live(bucket[..., MARK])
        hit = jnp.any(equal, axis=-1)
        at = where[:, choice] * WIDTH + jnp.argmax(equal, axis=-1).astype(jnp.int32)
        found, slot = found | hit, jnp.where(hit, at, slot)
    return found, slot


def overwrite(
    slots: UInt32[Array, "buckets width words"],
    rows: UInt32[Array, "n words"],
    at: Int32[Array, "n"],
    wanted: Bool[Array, "n"],
) -> UInt32[Array, "buckets width words"]:
    """The table with rows written into slots of it, all different, where wanted."""
    buckets, width, words = slots.shape
    # Rows not wanted go to places outside, each to another one, so that all the places differ.
    outside = buckets * width + jnp.arange(rows.shape[0], dtype=jnp.int32)
    flat = slots.reshape(buckets * width, words)
    flat = flat.at[jnp.where(wanted, at, outside)].set(rows, mode="drop", unique_indices=True)
    return flat.reshape(slots.shape)


def place(
    slots: UInt32[Array, "buckets width words"],
    rows: UInt32[Array, "n words"],
    wanted: Bool[Array, "n"],
    live: Live,
) -> tuple[UInt32[Array, "buckets width words"], Int32[Array, ""]]:
    """Writes rows, all different and not yet in the table, where wanted; says how many found no slot.

    Every row tries the emptier of its two buckets. Those that chose the same one take its free slots in turn;
    those that come too late try again, now that the others have settled. Rows of one batch cannot see each
    other's choices: early tries leave the last slots of a bucket to those who have no other, or large batches
    would overflow long before the table is full.
    """
    buckets = slots.shape[0]
    where = candidates(rows[:, :2], buckets)
    for level in LEVELS:
        fill = jnp.sum(live(slots[where, :, MARK]), axis=-1, dtype=jnp.int32)
        second = fill[:, 1] < fill[:, 0]
        bucket = jnp.where(wanted, jnp.where(second, where[:, 1], where[:, 0]), buckets)
        bucket, order = _sorted(bucket, buckets)
        slot = jnp.min(fill, axis=-1)[order] + _turn(bucket)
        rows, where, wanted = rows[order], where[order], wanted[order]
        fits = wanted & (slot < level)
        slots = overwrite(slots, rows, bucket * WIDTH + slot, fits)
        wanted &= ~fits
    return slots, jnp.sum(wanted, dtype=jnp.int32)


@functools.partial(jax.jit, static_argnames="factor")
def grown(
    slots: UInt32[Array, "*batch buckets width words"], live: Bool[Array, "*batch buckets width"], factor: int
) -> UInt32[Array, "*batch larger width words"]:
    """The table with `factor` times as many buckets (a power of two) and the same live codes; always fits.

    The caller sees to it that this is not too large.

    A code stays with the hash it was placed by, and moves to one of the buckets that its old one has become.
    """
    if factor < 2 or factor & (factor - 1):
        raise GobiError(f"a memory grows by a power of two, not by {factor}")
    *batch, buckets, width, words = slots.shape
    new = candidates(slots[..., :2], buckets * factor)
    here = jnp.arange(buckets, dtype=jnp.int32)[:, None]
    child = jnp.where(new[..., 0] // factor == here, new[..., 0], new[..., 1]) % factor
    earlier = np.tri(width, k=-1, dtype=bool)
    siblings = live[..., None, :] & (child[..., :, None] == child[..., None, :]) & earlier
    slot = jnp.sum(siblings, axis=-1, dtype=jnp.int32)
    # Bucket b becomes buckets b * factor to b * factor + factor - 1, through all tables of the batch alike.
    old = jnp.arange(math.prod(batch) * buckets, dtype=jnp.int32).reshape(*batch, buckets, 1)
    at = ((old * factor + child) * width + slot).reshape(-1)
    empty = jnp.zeros((math.prod(batch) * buckets * factor, width, words), slots.dtype)
    filled = overwrite(empty, slots.reshape(-1, words), at, live.reshape(-1))
    return filled.reshape(*batch, buckets * factor, width, words)


def _sorted(numbers: Int32[Array, "n"], largest: int) -> tuple[Int32[Array, "n"], Int32[Array, "n"]]:
    """Numbers from 0 to `largest` in ascending order, and where each of them was."""
    n = numbers.shape[0]
    index = jnp.arange(n, dtype=jnp.uint32)
    bits = n.bit_length()
    if largest.bit_length() + bits > 32:
        numbers, index = jax.lax.sort((numbers, index), num_keys=2, is_stable=False)
        return numbers, index.astype(jnp.int32)
    # Sorting one array is several times faster than sorting one by another.
    both = jax.lax.sort(numbers.astype(jnp.uint32) << bits | index, is_stable=False)
    return (both >> bits).astype(jnp.int32), (both & np.uint32(2**bits - 1)).astype(jnp.int32)


def _turn(groups: Int32[Array, "n"]) -> Int32[Array, "n"]:
    """Each element's place among equals, of a sorted array."""
    index = jnp.arange(groups.shape[0], dtype=jnp.int32)
    first = jnp.concatenate([jnp.ones(1, bool), groups[1:] != groups[:-1]])
    return index - jax.lax.cummax(jnp.where(first, index, 0))
