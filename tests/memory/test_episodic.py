"""The episodic set against Python's `set`: duplicates, episodes that end anywhere, overflow, growth."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gobi.errors import GobiError
from gobi.memory import EpisodicSet, episodic, table

insert = jax.jit(episodic.insert)


class Sets:
    """The same memory as a Python set per environment."""

    def __init__(self, num_envs: int):
        self.seen = [set() for _ in range(num_envs)]

    def insert(self, codes: np.ndarray, valid: np.ndarray, starts: np.ndarray) -> np.ndarray:
        time, envs, n = valid.shape
        numbers = (codes[..., 0].astype(np.uint64) << np.uint64(32) | codes[..., 1]).tolist()
        new = np.zeros(valid.shape, bool)
        for t in range(time):
            for e in range(envs):
                if starts[t, e]:
                    self.seen[e] = set()
                for i in range(n):
                    if valid[t, e, i] and numbers[t][e][i] not in self.seen[e]:
                        self.seen[e].add(numbers[t][e][i])
                        new[t, e, i] = True
        return new


def rollout(rng: np.random.Generator, time: int, envs: int, n: int, distinct: int, ending: float = 0.01):
    """Codes with many repetitions (some common, some rare), a tenth of them not valid."""
    numbers = (distinct * rng.random((time, envs, n)) ** 3).astype(np.uint32)
    codes = np.stack([numbers % 17, numbers // 17 * np.uint32(0x01000193)], axis=-1)
    return codes, rng.random((time, envs, n)) < 0.9, rng.random((time, envs)) < ending


def live(memory: EpisodicSet) -> np.ndarray:
    return np.asarray(memory.slots[..., table.MARK] == memory.episode[..., None, None])


@pytest.mark.parametrize(("time", "envs", "n", "calls"), [(100, 32, 7, 50), (1, 8, 7, 200), (20, 4, 517, 5)])
def test_a_rollout_at_a_time_equals_a_python_set(time, envs, n, calls):
    rng, memory, sets = np.random.default_rng(time), episodic.empty(envs, 6000), Sets(envs)
    for _ in range(calls):
        batch = rollout(rng, time, envs, n, distinct=6000)
        memory, new = insert(memory, *batch)
        np.testing.assert_array_equal(new, sets.insert(*batch))
        np.testing.assert_array_equal(memory.used, [len(seen) for seen in sets.seen])
    assert memory.dropped == 0


def test_how_steps_are_divided_into_calls_does_not_matter():
    batch = rollout(np.random.default_rng(0), 24, 5, 6, distinct=300, ending=0.05)
    whole, new = insert(episodic.empty(5, 200), *batch)
    memory, parts = episodic.empty(5, 200), []
    for t in range(24):
        memory, part = insert(memory, *(array[t : t + 1] for array in batch))
        parts.append(part)
    np.testing.assert_array_equal(new, np.concatenate(parts))
    np.testing.assert_array_equal(memory.used, whole.used)
    np.testing.assert_array_equal(memory.episode, whole.episode)


def test_the_first_of_equal_codes_in_a_step_is_the_new_one():
    codes = np.array([[[[3, 4], [5, 6], [3, 4], [5, 6]]]], np.uint32)
    valid = np.array([[[True, False, True, True]]])
    _, new = insert(episodic.empty(1, 10), codes, valid, np.zeros((1, 1), bool))
    np.testing.assert_array_equal(new[0, 0], [True, False, False, True])


def test_a_started_episode_is_empty_and_leaves_the_other_environments_alone():
    codes = np.tile(np.arange(1, 41, dtype=np.uint32)[None, None, :, None], (1, 2, 1, 2))
    valid, none = np.ones((1, 2, 40), bool), np.zeros((1, 2), bool)
    memory, new = insert(episodic.empty(2, 40), codes, valid, none)
    assert new.all()
    memory, new = insert(memory, codes, valid, none)
    assert not new.any()
    memory, new = insert(memory, codes, valid, np.array([[True, False]]))
    assert new[0, 0].all()
    assert not new[0, 1].any()
    np.testing.assert_array_equal(memory.used, [40, 40])


def test_the_code_zero_is_a_code_like_any_other():
    codes, valid, none = np.zeros((1, 1, 2, 2), np.uint32), np.ones((1, 1, 2), bool), np.zeros((1, 1), bool)
    memory, new = insert(episodic.empty(1, 4), codes, valid, none)
    np.testing.assert_array_equal(new[0, 0], [True, False])
    assert not insert(memory, codes, valid, none)[1].any()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_small_tables_equal_a_python_set_or_say_what_they_dropped(data):
    distinct = data.draw(st.sampled_from([3, 8, 30, 200]))
    ending = data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    memory, sets = episodic.empty(2, 8), Sets(2)
    for _ in range(3):
        codes, valid, starts = rollout(rng, 5, 2, 6, distinct, ending)
        memory, new = insert(memory, codes, valid, starts)
        expected, new = sets.insert(codes, valid, starts), np.asarray(new)
        assert not np.any(expected & ~new)
        if memory.dropped == 0:
            np.testing.assert_array_equal(new, expected)
        assert not np.any(new & ~valid)
        assert np.all(np.asarray(memory.used) <= [len(seen) for seen in sets.seen])
        np.testing.assert_array_equal(live(memory).sum(axis=(1, 2)), memory.used)


def test_what_does_not_fit_is_counted_and_is_new_again():
    codes = np.arange(200, dtype=np.uint32).reshape(1, 1, 100, 2)
    valid, none = np.ones((1, 1, 100), bool), np.zeros((1, 1), bool)
    memory, new = insert(episodic.empty(1, 8), codes, valid, none)
    assert memory.num_slots == 16
    assert new.all()
    assert memory.used[0] + memory.dropped == 100
    assert memory.dropped >= 84
    again, new = insert(memory, codes, valid, none)
    assert new.sum() == 100 - memory.used[0]
    assert again.dropped == 2 * memory.dropped + memory.used[0] - again.used[0]


def test_growing_keeps_every_code_and_makes_room():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2**32, (1, 3, 600, 2), np.uint32)
    valid, none = np.ones((1, 3, 600), bool), np.zeros((1, 3), bool)
    memory, _ = insert(episodic.empty(3, 256), codes, valid, none)
    assert memory.dropped > 0
    larger = episodic.grow(memory)
    assert larger.num_slots == 4 * memory.num_slots
    assert larger.load == memory.load / 4
    _, forgotten = insert(memory, codes, valid, none)
    after, new = insert(larger, codes, valid, none)
    np.testing.assert_array_equal(new, forgotten)
    assert after.dropped == memory.dropped
    assert not insert(after, codes, valid, none)[1].any()


def test_growing_forgets_what_belonged_to_older_episodes():
    codes, valid = np.full((1, 1, 1, 2), 7, np.uint32), np.ones((1, 1, 1), bool)
    memory, _ = insert(episodic.empty(1, 8), codes, valid, np.zeros((1, 1), bool))
    memory, _ = insert(memory, codes + 1, valid, np.ones((1, 1), bool))
    larger = episodic.grow(memory, factor=2)
    assert live(larger).sum() == 1
    assert np.asarray(larger.slots).any(axis=-1).sum() == 1


def test_seeds_as_an_axis_equal_separate_runs_and_grow_together():
    rng = np.random.default_rng(2)
    batches = [[rollout(rng, 10, 3, 4, 100, 0.1) for _ in range(3)] for _ in range(2)]
    alone = [episodic.empty(3, 64) for _ in range(3)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone)
    over_seeds = jax.jit(jax.vmap(episodic.insert))
    for batch in batches:
        results = [insert(memory, *seed) for memory, seed in zip(alone, batch, strict=True)]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *batch)
        together, new = over_seeds(together, *stacked)
        np.testing.assert_array_equal(new, np.stack([result[1] for result in results]))
        alone = [result[0] for result in results]
    expected = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(episodic.grow(memory) for memory in alone))
    jax.tree.map(np.testing.assert_array_equal, episodic.grow(together), expected)


def test_a_rollout_is_inserted_without_a_loop():
    shapes = [
        jax.ShapeDtypeStruct((100, 32, 7, *rest), dtype) for rest, dtype in (((2,), jnp.uint32), ((), bool))
    ]
    starts = jax.ShapeDtypeStruct((100, 32), bool)
    memory = jax.eval_shape(functools.partial(episodic.empty, 32, 1000))
    program = str(jax.make_jaxpr(episodic.insert)(memory, *shapes, starts))
    assert "sort[" in program
    assert "while[" not in program
    assert "scan[" not in program


def test_sizes_out_of_bounds_are_refused():
    with pytest.raises(GobiError, match="limit of 268,435,456"):
        episodic.empty(1024, 1_000_000)
    with pytest.raises(GobiError, match="at least one code"):
        episodic.empty(4, 0)
    with pytest.raises(GobiError, match="power of two"):
        episodic.grow(episodic.empty(1, 4), factor=3)
