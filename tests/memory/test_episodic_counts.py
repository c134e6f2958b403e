"""The episodic counts against Python's `dict`: duplicates, episodes that end anywhere, overflow, growth."""

from __future__ import annotations

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.memory import episodic_counts, table

add = jax.jit(episodic_counts.add)


class Dictionaries:
    """The same memory as a dictionary per environment."""

    def __init__(self, num_envs: int):
        self.met = [collections.Counter() for _ in range(num_envs)]

    def add(self, codes: np.ndarray, valid: np.ndarray, starts: np.ndarray) -> np.ndarray:
        counts = np.zeros(valid.shape, np.int32)
        for t, e in np.ndindex(starts.shape):
            if starts[t, e]:
                self.met[e].clear()
            for i in np.flatnonzero(valid[t, e]):
                name = tuple(codes[t, e, i].tolist())
                self.met[e][name] += 1
                counts[t, e, i] = self.met[e][name]
        return counts


def rollout(rng: np.random.Generator, time: int, envs: int, n: int, distinct: int, ending: float = 0.02):
    """Codes with many repetitions (some common, some rare), a tenth of them not valid."""
    numbers = (distinct * rng.random((time, envs, n)) ** 3).astype(np.uint32)
    codes = np.stack([numbers % 17, numbers // 17 * np.uint32(0x01000193)], axis=-1)
    return codes, rng.random((time, envs, n)) < 0.9, rng.random((time, envs)) < ending


@pytest.mark.parametrize(("time", "n", "distinct"), [(100, 1, 300), (100, 2, 40), (1, 2, 30), (30, 5, 3)])
def test_a_rollout_at_a_time_equals_a_python_dictionary(time, n, distinct):
    rng, memory, oracle = np.random.default_rng(time), episodic_counts.empty(5, 600), Dictionaries(5)
    highest = 0
    for _ in range(min(40, 1500 // time)):
        batch = rollout(rng, time, 5, n, distinct)
        memory, counts = add(memory, *batch)
        np.testing.assert_array_equal(counts, oracle.add(*batch))
        np.testing.assert_array_equal(memory.used, [len(met) for met in oracle.met])
        highest = max(highest, int(counts.max()))
    assert memory.dropped == 0
    assert highest > 5


@pytest.mark.parametrize("ending", [0.0, 0.3, 1.0])
def test_how_steps_are_divided_into_calls_does_not_matter(ending):
    batch = rollout(np.random.default_rng(0), 24, 3, 2, distinct=20, ending=ending)
    whole, counts = add(episodic_counts.empty(3, 60), *batch)
    for pieces in (24, 3):
        memory, parts = episodic_counts.empty(3, 60), []
        for part in zip(*(np.split(array, pieces) for array in batch), strict=True):
            memory, answers = add(memory, *part)
            parts.append(answers)
        np.testing.assert_array_equal(counts, np.concatenate(parts))
        np.testing.assert_array_equal(memory.used, whole.used)
        np.testing.assert_array_equal(memory.episode, whole.episode)


def test_a_start_empties_its_own_environment_even_when_nothing_counts_in_that_step():
    codes, valid = np.full((3, 2, 1, 2), 7, np.uint32), np.ones((3, 2, 1), bool)
    starts = np.array([[False, False], [False, True], [False, False]])
    valid[1, 1] = False
    memory, counts = add(episodic_counts.empty(2, 8), codes, valid, starts)
    np.testing.assert_array_equal(counts[:, :, 0], [[1, 1], [2, 0], [3, 1]])
    # The last step of a call starts an episode that has no codes yet.
    memory, _ = add(memory, codes[:1], ~valid[:1], ~starts[:1])
    np.testing.assert_array_equal(memory.used, [0, 0])
    np.testing.assert_array_equal(add(memory, codes[:1], valid[:1], starts[:1])[1][0, :, 0], [1, 1])


def test_what_does_not_fit_is_told_and_counts_from_one_again():
    codes = np.arange(200, dtype=np.uint32).reshape(1, 1, 100, 2)
    valid, none = np.ones((1, 1, 100), bool), np.zeros((1, 1), bool)
    memory, counts = add(episodic_counts.empty(1, 8), codes, valid, none)
    assert np.all(np.asarray(counts) == 1)
    assert memory.used[0] + memory.dropped == 100
    assert memory.load > 0.5
    _, counts = add(memory, codes, valid, none)
    assert np.sum(np.asarray(counts) == 2) == memory.used[0]
    assert np.sum(np.asarray(counts) == 1) == memory.dropped


def test_growing_keeps_the_counts_and_forgets_older_episodes():
    rng = np.random.default_rng(1)
    codes, valid, _ = rollout(rng, 40, 3, 2, distinct=100)
    starts = np.arange(40)[:, None] == np.array([[0, 20, 39]])
    memory, _ = add(episodic_counts.empty(3, 128), codes, valid, starts)
    larger = episodic_counts.grow(memory)
    assert larger.num_slots == 4 * memory.num_slots
    assert larger.load == memory.load / 4
    assert np.asarray(larger.slots[..., table.MARK] > 0).sum() == np.asarray(memory.used).sum()
    asked = rollout(rng, 40, 3, 2, distinct=100, ending=0.0)
    np.testing.assert_array_equal(add(larger, *asked)[1], add(memory, *asked)[1])


def test_seeds_as_an_axis_equal_separate_runs_and_grow_together():
    rng = np.random.default_rng(2)
    batches = [[rollout(rng, 20, 2, 2, 30, 0.1) for _ in range(3)] for _ in range(2)]
    alone = [episodic_counts.empty(2, 64) for _ in range(3)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone)
    over_seeds = jax.jit(jax.vmap(episodic_counts.add))
    for batch in batches:
        results = [add(memory, *seed) for memory, seed in zip(alone, batch, strict=True)]
        together, counts = over_seeds(together, *jax.tree.map(lambda *leaves: np.stack(leaves), *batch))
        np.testing.assert_array_equal(counts, np.stack([result[1] for result in results]))
        alone = [result[0] for result in results]
    expected = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(episodic_counts.grow(one) for one in alone))
    jax.tree.map(np.testing.assert_array_equal, episodic_counts.grow(together), expected)


def test_a_rollout_is_counted_without_a_loop():
    memory = jax.eval_shape(functools.partial(episodic_counts.empty, 32, 1000))
    codes = jax.ShapeDtypeStruct((100, 32, 2, 2), jnp.uint32)
    valid, starts = (jax.ShapeDtypeStruct(shape, bool) for shape in ((100, 32, 2), (100, 32)))
    program = str(jax.make_jaxpr(episodic_counts.add)(memory, codes, valid, starts))
    assert "sort[" in program
    assert "while[" not in program
    assert "scan[" not in program
