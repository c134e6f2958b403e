"""Which actions were executed from an observation, against a Python dictionary."""

from __future__ import annotations

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.memory import executed

query_and_add = jax.jit(executed.query_and_add)


class Dictionaries:
    """The same memory as a dictionary per environment."""

    def __init__(self, num_envs: int):
        self.done = [collections.defaultdict(int) for _ in range(num_envs)]

    def query_and_add(self, observed, acted_from, actions, starts) -> np.ndarray:
        masks = np.zeros(actions.shape, np.uint32)
        for t, e in np.ndindex(actions.shape):
            if starts[t, e]:
                self.done[e].clear()
            self.done[e][tuple(acted_from[t, e].tolist())] |= 1 << int(actions[t, e])
            masks[t, e] = self.done[e].get(tuple(observed[t, e].tolist()), 0)
        return masks


def rollout(rng: np.random.Generator, time: int, envs: int, distinct: int, num_actions: int):
    """A walk over few observations: most steps act from what was observed before them."""
    numbers = rng.integers(0, distinct, (2, time, envs)).astype(np.uint32)
    codes = np.stack([numbers % 5, numbers * np.uint32(0x01000193)], axis=-1)
    actions = rng.integers(0, num_actions, (time, envs)).astype(np.int32)
    return codes[0], codes[1], actions, rng.random((time, envs)) < 0.02


@pytest.mark.parametrize(("time", "distinct", "num_actions"), [(100, 300, 7), (1, 20, 7), (40, 5, 32)])
def test_a_rollout_at_a_time_equals_a_python_dictionary(time, distinct, num_actions):
    rng, memory, oracle = np.random.default_rng(time), executed.empty(6, 600), Dictionaries(6)
    for _ in range(3000 // time // 2):
        batch = rollout(rng, time, 6, distinct, num_actions)
        memory, masks = query_and_add(memory, *batch)
        np.testing.assert_array_equal(masks, oracle.query_and_add(*batch))
        np.testing.assert_array_equal(memory.used, [len(done) for done in oracle.done])
    assert memory.dropped == 0


def test_a_step_is_added_before_it_is_asked_for_and_a_start_empties_first():
    codes = np.full((4, 1, 2), 3, np.uint32)
    actions = np.array([[0], [2], [1], [31]], np.int32)
    starts = np.array([[False], [False], [True], [False]])
    _, masks = query_and_add(executed.empty(1, 8), codes, codes, actions, starts)
    np.testing.assert_array_equal(masks[:, 0], np.array([1, 5, 2, 2 | 1 << 31], np.uint32))


def test_growing_keeps_the_actions_and_overflow_is_counted():
    rng = np.random.default_rng(0)
    batch = rollout(rng, 50, 2, 1000, 7)
    memory, _ = query_and_add(executed.empty(2, 8), *batch)
    assert memory.dropped > 0
    memory, _ = query_and_add(executed.empty(2, 8), *rollout(rng, 50, 2, 6, 7))
    assert memory.dropped == 0
    larger = executed.grow(memory)
    assert larger.num_slots == 4 * memory.num_slots
    asked = rollout(rng, 50, 2, 6, 3)
    np.testing.assert_array_equal(query_and_add(larger, *asked)[1], query_and_add(memory, *asked)[1])


def test_seeds_as_an_axis_equal_separate_runs():
    rng = np.random.default_rng(1)
    batches = [rollout(rng, 30, 2, 20, 7) for _ in range(3)]
    memory = executed.empty(2, 64)
    alone = [query_and_add(memory, *batch) for batch in batches]
    together = jax.jit(jax.vmap(executed.query_and_add))(
        jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), memory),
        *jax.tree.map(lambda *leaves: np.stack(leaves), *batches),
    )
    jax.tree.map(np.testing.assert_array_equal, together, jax.tree.map(lambda *a: jnp.stack(a), *alone))
