"""The numbered levels of a seed, and the bank that keeps some of them ready for lanes that need one.

Level i of a seed is the i-th level in that seed's chunks 0, 1, 2, ..., on every device.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.state import State, reachable_cells
from gobi.errors import GobiError

MOST = jnp.iinfo(jnp.int32).max
HOPELESS = 100
"""Chunks without a single level, after which a task is given up: N12-S10 gets a dozen levels out of one."""


class Bank(eqx.Module):
    """Levels in a ring. Read-only inside a compiled update; `refill` writes fresh ones between updates.

    levels:      the levels, stacked.
    views:       the first observation of each, so that a restart costs no view.
    reachable:   how many cells of each can be reached, all doors opened.
    seed:        whose levels these are.
    next_chunk:  the chunk that the next refill makes.
    fresh:       levels that nobody has taken yet when the bank was made.
    fixed:       this set of levels and no other: never refilled.
    """

    levels: State
    views: UInt8[Array, "capacity 7 7 3"]
    reachable: Int32[Array, " capacity"]
    seed: Int32[Array, ""]
    next_chunk: Int32[Array, ""]
    fresh: Int32[Array, ""]
    fixed: bool = eqx.field(static=True, default=False)

    @property
    def capacity(self) -> int:
        """How many levels the ring holds."""
        return self.views.shape[-4]


class Queue(eqx.Module):
    """How far a bank has been used up. It travels with the lanes, the bank itself does not change.

    A queue belongs to the one bank that it was made for and refilled with, and counts what its own lanes have
    had. Counts stop at 2**31 - 1.

    reader:    the ring's slot that is handed out next.
    fresh:     how many slots from there on hold levels that these lanes have not had.
    taken:     levels handed out so far.
    repeated:  how many of them had been handed out before.
    """

    reader: Int32[Array, ""]
    fresh: Int32[Array, ""]
    taken: Int32[Array, ""]
    repeated: Int32[Array, ""]

    @property
    def distinct(self) -> Int32[Array, ""]:
        """How many levels of different number have been handed out; equal ones may have several numbers."""
        return self.taken - self.repeated


def queue(bank: Bank) -> Queue:
    """A queue at the start of a bank."""
    return Queue(reader=jnp.int32(0), fresh=jnp.array(bank.fresh), taken=jnp.int32(0), repeated=jnp.int32(0))


def take(place: Queue, count: Int32[Array, ""], capacity: int) -> Queue:
    """The queue after `count` levels were handed out: the fresh ones first, then round again."""
    fresh = jnp.minimum(count, place.fresh)
    return Queue(
        reader=(place.reader + count) % capacity,
        fresh=place.fresh - fresh,
        taken=_counted(place.taken, count),
        repeated=_counted(place.repeated, count - fresh),
    )


def _counted(total: Int32[Array, ""], more: Int32[Array, ""]) -> Int32[Array, ""]:
    """The sum of two counts, or the largest number there is instead of a negative one."""
    return jnp.where(total > MOST - more, MOST, total + more)


def make_bank(
    env: MiniGrid, seed: int, capacity: int = 1024, progress: Callable[[int, int], None] | None = None
) -> Bank:
    """A bank filled with the first levels of a seed. It holds at least two chunks.

    `progress` is called with the levels made so far and the capacity: twelve rooms take a while on a laptop.
    """
    _check_seed(seed)
    bank = blank(env, seed, capacity)
    room = bank.capacity
    place = queue(bank)
    barren = 0
    while has_room(env, bank, place):
        before = int(place.fresh)
        bank, place = _refill(env, bank, place)
        barren = _barren(env, barren, int(place.fresh) - before)
        if progress is not None:
            progress(int(place.fresh), room)
    # Slots still blank repeat the first levels: whoever reads that far gets a level again, not a hole.
    source = jnp.arange(room) % place.fresh
    bank = jax.tree.map(lambda array: array[source] if array.ndim else array, bank)
    return eqx.tree_at(lambda b: b.fresh, bank, place.fresh)


def refill(env: MiniGrid, bank: Bank, place: Queue) -> tuple[Bank, Queue]:
    """Makes the next chunk of levels and puts it behind the fresh ones, if there is room for it. Pure.

    Costs nothing where there is no room, except under `vmap`, which always takes both branches.
    """
    if bank.fixed:
        return bank, place
    return jax.lax.cond(
        has_room(env, bank, place), functools.partial(_add_chunk, env), lambda *same: same, bank, place
    )


def has_room(env: MiniGrid, bank: Bank, place: Queue) -> Bool[Array, ""]:
    """Whether `refill` would add levels: a whole chunk must fit between the fresh levels and the reader."""
    return (place.fresh + env.generator.chunk_size <= bank.capacity) & (not bank.fixed)


def _add_chunk(env: MiniGrid, bank: Bank, place: Queue) -> tuple[Bank, Queue]:
    levels, count = env.generator.chunk(_chunk_key(bank.seed, bank.next_chunk))
    views = jax.vmap(env.observe)(levels)
    number = jnp.arange(env.generator.chunk_size, dtype=jnp.int32)
    slot = (place.reader + place.fresh + number) % bank.capacity
    slot = jnp.where(number < count, slot, bank.capacity)

    def written(old, new):
        return old.at[slot].set(new, mode="drop")

    filled = Bank(
        levels=jax.tree.map(written, bank.levels, levels),
        views=written(bank.views, views),
        reachable=written(bank.reachable, jax.vmap(reachable_cells)(levels)),
        seed=bank.seed,
        next_chunk=bank.next_chunk + 1,
        fresh=bank.fresh,
    )
    return filled, eqx.tree_at(lambda q: q.fresh, place, place.fresh + count)


def fixed_levels(env: MiniGrid, seed: int, count: int, start: int = 0) -> Bank:
    """A bank of exactly the levels start .. start + count - 1 of a seed, handed out in turn for ever.

    Train on `fixed_levels(env, seed, n)`, and evaluate on `fixed_levels(env, seed, m, start=n)`: the two have
    no numbered level in common. Small tasks have few different levels, so equal ones can still turn up.
    """
    levels = numbered_levels(env, seed, start, count)
    return Bank(
        levels=levels,
        views=_views(env, levels),
        reachable=_reachable(levels),
        seed=jnp.int32(seed),
        next_chunk=jnp.int32(0),
        fresh=jnp.int32(count),
        fixed=True,
    )


def numbered_levels(env: MiniGrid, seed: int, start: int, count: int) -> State:
    """The levels start .. start + count - 1 of a seed, stacked."""
    if count < 1 or start < 0:
        raise GobiError(f"a set of levels needs count >= 1 and start >= 0, got {count} and {start}")
    parts, passed = [], 0
    for levels in _chunks(env, seed):
        length = _length(levels)
        low, high = max(start - passed, 0), min(start + count - passed, length)
        if low < high:
            parts.append(jax.tree.map(lambda array, low=low, high=high: array[low:high], levels))
        passed += length
        if passed >= start + count:
            break
    return jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *parts)


def _chunks(env: MiniGrid, seed: int) -> Iterator[State]:
    """The chunks of a seed without their filler."""
    _check_seed(seed)
    barren = 0
    for number in itertools.count():
        levels, count = _chunk(env, jnp.int32(seed), jnp.int32(number))
        barren = _barren(env, barren, int(count))
        yield jax.tree.map(lambda array, count=int(count): array[:count], levels)


def _check_seed(seed: int) -> None:
    if not 0 <= seed < 2**31:
        raise GobiError(f"a seed must be in 0 .. 2**31 - 1, got {seed}")


def _barren(env: MiniGrid, chunks: int, levels: int) -> int:
    """How many chunks in a row gave no level, one more chunk counted; refuses to go on for ever."""
    chunks = 0 if levels else chunks + 1
    if chunks == HOPELESS:
        raise GobiError(
            f"{env.spec.id}: no level came through in {chunks} chunks; ask for fewer or smaller rooms"
        )
    return chunks


def _chunk_key(seed: Int32[Array, ""], number: Int32[Array, ""]):
    # Named, so that a user's choice of another generator does not renumber the levels.
    return jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), number)


@functools.partial(jax.jit, static_argnums=0)
def _chunk(env: MiniGrid, seed: Int32[Array, ""], number: Int32[Array, ""]):
    return env.generator.chunk(_chunk_key(seed, number))


_refill = jax.jit(refill, static_argnums=0)


def blank(env: MiniGrid, seed: int, capacity: int) -> Bank:
    """A bank with room for levels, two chunks at least, and none in it."""
    capacity = max(capacity, 2 * env.generator.chunk_size)
    shapes = jax.eval_shape(env.generator.one, jax.random.key(0))
    views = jnp.zeros((capacity, *env.spec.observation_shape), jnp.uint8)
    levels = jax.tree.map(lambda part: jnp.zeros((capacity, *part.shape), part.dtype), shapes)
    reachable = jnp.zeros(capacity, jnp.int32)
    return Bank(levels, views, reachable, jnp.int32(seed), next_chunk=jnp.int32(0), fresh=jnp.int32(0))


@functools.partial(jax.jit, static_argnums=0)
def _views(env: MiniGrid, levels: State) -> UInt8[Array, "capacity 7 7 3"]:
    return jax.vmap(env.observe)(levels)


_reachable = jax.jit(jax.vmap(reachable_cells))


def _length(levels: State) -> int:
    return int(np.shape(levels.direction)[0])
