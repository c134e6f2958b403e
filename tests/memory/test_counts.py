"""The lifelong counts against Python's `dict`: duplicates in and across batches, high load, growth, seeds."""

from __future__ import annotations

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gobi.errors import GobiError
from gobi.memory import counts, mix, table

add = jax.jit(counts.add, donate_argnums=0)
kept = jax.jit(counts.add)


def as_codes(numbers: np.ndarray) -> np.ndarray:
    """Codes that share words and differ in few bits, as a poor hash would make them."""
    return np.stack([numbers % 1000, numbers // 1000], axis=-1).astype(np.uint32)


def counted(seen: dict[int, int], numbers: np.ndarray, valid: np.ndarray) -> list[int]:
    after = []
    for number, counts_in in zip(numbers.tolist(), valid.tolist(), strict=True):
        if counts_in:
            seen[number] += 1
        after.append(seen[number] if counts_in else 0)
    return after


def test_a_million_additions_equal_a_python_dict():
    rng, seen, memory = np.random.default_rng(0), collections.defaultdict(int), counts.empty(400_000)
    for _ in range(20):
        numbers = (2_000_000 * rng.random(60_000) ** 4).astype(np.uint64)
        valid = rng.random(60_000) < 0.95
        memory, after = add(memory, as_codes(numbers), valid)
        np.testing.assert_array_equal(after, counted(seen, numbers, valid))
    assert memory.used == sum(count > 0 for count in seen.values()) > 200_000
    assert memory.dropped == 0


def test_three_million_additions_at_half_load_equal_counting_with_numpy():
    rng, slots = np.random.default_rng(1), 2**20
    distinct = slots // 2
    memory, total = counts.empty(distinct), np.zeros(distinct, np.int64)
    everything = rng.permutation(
        np.concatenate([np.arange(distinct), rng.integers(0, distinct, 5 * distinct)])
    )
    for numbers in np.split(everything, 24):
        memory, after = add(memory, as_codes(numbers), np.ones(len(numbers), bool))
        order = np.argsort(numbers, kind="stable")
        run = numbers[order]
        place = np.arange(len(run)) - np.searchsorted(run, run)
        np.testing.assert_array_equal(np.asarray(after)[order], total[run] + place + 1)
        np.add.at(total, numbers, 1)
    assert memory.num_slots == slots
    assert memory.load == 0.5
    assert memory.dropped == 0


@pytest.mark.parametrize(("slots", "batch"), [(2**10, 64), (2**14, 1024), (2**18, 2**12), (2**18, 2**16)])
def test_nothing_is_dropped_below_half_load(slots, batch):
    rng, memory = np.random.default_rng(batch), counts.empty(slots // 2)
    for _ in range(slots // 2 // batch):
        memory, after = add(memory, rng.integers(0, 2**32, (batch, 2), np.uint32), np.ones(batch, bool))
        assert np.all(np.asarray(after) == 1)
    assert memory.num_slots == slots
    assert memory.load == 0.5
    assert memory.dropped == 0


def test_an_overfull_table_keeps_what_it_has_and_counts_the_rest():
    rng, memory = np.random.default_rng(3), counts.empty(512)
    codes, valid = rng.integers(0, 2**32, (2000, 2), np.uint32), np.ones(2000, bool)
    memory, _ = add(memory, codes, valid)
    assert memory.used + memory.dropped == 2000
    assert 0.9 < memory.load <= 1
    used, dropped = int(memory.used), int(memory.dropped)
    memory, after = add(memory, codes, valid)
    assert np.sum(np.asarray(after) == 2) == used
    assert np.sum(np.asarray(after) == 1) == dropped
    assert memory.dropped > dropped


def test_growing_keeps_every_count():
    rng, memory = np.random.default_rng(4), counts.empty(4096)
    codes, valid = rng.integers(0, 2**32, (6000, 2), np.uint32), np.ones(6000, bool)
    for batch in np.split(codes, 20):
        memory, _ = add(memory, np.repeat(batch, 3, axis=0), np.ones(900, bool))
    assert memory.load > 0.7
    lost = int(memory.dropped)
    for factor in (4, 8):
        memory = counts.grow(memory, factor)
        after = np.asarray(kept(memory, codes, valid)[1])
        assert np.sum(after == 4) == memory.used == 6000 - lost
        assert np.sum(after == 1) == lost
    assert memory.num_slots == 8192 * 32


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=10, max_size=10), max_size=4))
def test_small_batches_equal_a_python_dict(batches):
    seen, memory = collections.defaultdict(int), counts.empty(32)
    for batch in batches:
        numbers, valid = np.array(batch, np.int64).T
        memory, after = kept(memory, as_codes(numbers * 500), valid.astype(bool))
        np.testing.assert_array_equal(after, counted(seen, numbers, valid.astype(bool)))
    assert memory.dropped == 0


def test_counts_stop_before_they_wrap():
    codes, valid = np.full((3, 2), 9, np.uint32), np.ones(3, bool)
    memory, _ = kept(counts.empty(8), codes, valid)
    near = jnp.where(memory.slots[..., table.MARK :] > 0, np.uint32(2**31 - 3), np.uint32(0))
    memory = counts.LifelongCounts(memory.slots.at[..., table.MARK :].set(near), memory.used, memory.dropped)
    memory, after = kept(memory, codes, valid)
    np.testing.assert_array_equal(after, [2**31 - 2, 2**31 - 1, 2**31 - 1])
    assert kept(memory, codes, valid)[1][0] == 2**31 - 1


def test_environments_can_be_counted_apart_in_one_table():
    same = np.full((4, 2), 5, np.uint32)
    apart = mix(jnp.asarray(same), jnp.array([0, 1, 0, 2]))
    _, after = kept(counts.empty(8), apart, np.ones(4, bool))
    np.testing.assert_array_equal(after, [1, 1, 2, 1])


def test_seeds_as_an_axis_equal_separate_runs():
    codes = as_codes(np.random.default_rng(5).integers(0, 300, (3, 2, 200)))
    valid = np.ones((2, 200), bool)
    alone = [counts.empty(400) for _ in range(2)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone)
    over_seeds = jax.jit(jax.vmap(counts.add))
    for batch in codes:
        together, after = over_seeds(together, batch, valid)
        results = [kept(memory, one, ones) for memory, one, ones in zip(alone, batch, valid, strict=True)]
        np.testing.assert_array_equal(after, np.stack([result[1] for result in results]))
        alone = [result[0] for result in results]
        jax.tree.map(np.testing.assert_array_equal, together, jax.tree.map(lambda *a: jnp.stack(a), *alone))


def test_a_batch_is_counted_without_a_loop():
    memory = jax.eval_shape(functools.partial(counts.empty, 1000))
    codes, valid = jax.ShapeDtypeStruct((3200, 2), jnp.uint32), jax.ShapeDtypeStruct((3200,), bool)
    program = str(jax.make_jaxpr(counts.add)(memory, codes, valid))
    assert "while[" not in program
    assert "scan[" not in program


def test_a_table_grows_by_less_near_the_limit_and_by_nothing_at_it(monkeypatch):
    monkeypatch.setattr(table, "LARGEST", 512)
    memory = counts.empty(32)
    sizes = [memory.slots[..., 0].size]
    for _ in range(4):
        memory = counts.grow(memory)
        sizes.append(memory.slots[..., 0].size)
    assert sizes == [64, 256, 512, 512, 512]


def test_tables_of_several_seeds_grow_as_each_would_alone(monkeypatch):
    monkeypatch.setattr(table, "LARGEST", 256)
    alone = counts.empty(32)
    together = jax.tree.map(lambda leaf: jnp.stack([leaf] * 8), alone)
    assert counts.grow(together).slots.shape == (8, *counts.grow(alone).slots.shape)


def test_a_table_above_the_limit_is_refused():
    with pytest.raises(GobiError, match="above the limit"):
        counts.empty(2**28)
    with pytest.raises(GobiError, match="above the limit"):
        counts.grow(counts.empty(16), factor=2**24)
