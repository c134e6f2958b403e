"""The replay against lists that store whole stacks."""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gobi.agents.rad import Replay, empty, slots_for
from gobi.errors import GobiError
from gobi.types import Spec

PIXELS = Spec("pixels", (2, 1, 3), "uint8", 0, 500, 2)
VECTORS = Spec("vectors", (3,), "float32", 0, 500, 2)
DRAWN = 2000

begin = jax.jit(Replay.begin, donate_argnums=0)
add = jax.jit(Replay.add, donate_argnums=0)
sample = jax.jit(Replay.sample, static_argnums=(2, 3))
sequences = jax.jit(Replay.sequences, static_argnums=(2, 3))


class Lists:
    """The oracle: every transition with copies of all its frames, and the numbers of those still held."""

    def __init__(self, slots: int, spec: Spec, stack: int):
        self.slots, self.spec, self.stack = slots, spec, stack
        self.episodes: list[list[int]] = []
        self.transitions: list[dict[str, Any]] = []
        self.held: deque[int] = deque(maxlen=slots)
        self.led: dict[int, tuple[np.ndarray, float]] = {}
        self.seen = 0

    def frame(self, number: int) -> np.ndarray:
        """A frame that no other frame equals."""
        shape, dtype = self.spec.observation_shape, self.spec.observation_dtype
        values = [number // 256**place % 256 for place in range(np.prod(shape))]
        return np.array(values).reshape(shape).astype(dtype)

    def begin(self) -> np.ndarray:
        self.episodes.append([])
        return self.see()

    def see(self) -> np.ndarray:
        self.episodes[-1].append(self.seen)
        self.held.append(self.seen)
        self.seen += 1
        return self.frame(self.seen - 1)

    def step(self) -> tuple[Any, ...]:
        """What the replay is told of the next step, kept here too."""
        number = len(self.transitions)
        action = np.array([number, -number], np.float32)
        reward, terminated, stored = np.float32(0.5 * number), np.bool_(number % 3 == 0), np.float32(-number)
        start = self.episodes[-1][-1]
        after = self.see()
        episode = self.episodes[-1]
        shown = [episode[max(len(episode) - 1 - back, 0)] for back in range(self.stack, -1, -1)]
        self.led[episode[-1]] = (action, float(reward))
        self.transitions.append(
            {
                "needs": shown,
                "index": start % self.slots,
                "frames": np.stack([self.frame(one) for one in shown]),
                "action": action,
                "reward": reward,
                "terminated": terminated,
                "stored": stored,
            }
        )
        return action, reward, terminated, stored, after

    def drawable(self) -> list[dict[str, Any]]:
        held = set(self.held)
        return [one for one in self.transitions if held.issuperset(one["needs"])]

    def runs(self, length: int) -> list[list[int]]:
        held = set(self.held)
        every = [
            episode[start : start + length]
            for episode in self.episodes
            for start in range(len(episode) - length + 1)
        ]
        return [run for run in every if held.issuperset(run)]


def lived(slots: int, spec: Spec, lengths: list[int], stack: int = 3) -> tuple[Replay, Lists]:
    """Episodes of so many steps, in the replay and in the lists."""
    replay, lists = empty(slots, spec), Lists(slots, spec, stack)
    for length in lengths:
        replay = begin(replay, lists.begin())
        for _ in range(length):
            replay = add(replay, *lists.step())
    return replay, lists


LIVES = st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any)
SLOTS = st.sampled_from([5, 8, 13])


@settings(max_examples=25, deadline=None)
@given(SLOTS, LIVES)
def test_all_and_only_transitions_whose_frames_are_held_are_drawn(slots, lengths):
    replay, lists = lived(slots, PIXELS, lengths)
    drawable = lists.drawable()
    assert int(replay.size) == len(drawable)
    if not drawable:
        return
    drawn = jax.tree.map(np.asarray, sample(replay, jax.random.key(0), DRAWN, 3))
    by_index = {one["index"]: one for one in drawable}
    # Of 13, one is missed by 2000 draws with probability 1e-69.
    assert set(drawn.index.tolist()) == set(by_index)
    for row in np.unique(drawn.index, return_index=True)[1]:
        expected = by_index[int(drawn.index[row])]
        for name in ("frames", "action", "reward", "terminated", "stored"):
            np.testing.assert_array_equal(getattr(drawn, name)[row], expected[name])


@settings(max_examples=10, deadline=None)
@given(SLOTS, LIVES)
def test_vectors_come_as_before_and_after(slots, lengths):
    replay, lists = lived(slots, VECTORS, lengths, stack=1)
    expected = {one["index"]: one["frames"] for one in lists.drawable()}
    if not expected:
        return
    drawn = jax.tree.map(np.asarray, sample(replay, jax.random.key(0), DRAWN, 3))
    assert drawn.frames.dtype == np.float32
    assert set(drawn.index.tolist()) == set(expected)
    for row in np.unique(drawn.index, return_index=True)[1]:
        np.testing.assert_array_equal(drawn.frames[row], expected[int(drawn.index[row])])


@settings(max_examples=25, deadline=None)
@given(SLOTS, LIVES, st.sampled_from([2, 4]))
def test_all_and_only_runs_within_one_episode_are_drawn_as_sequences(slots, lengths, length):
    replay, lists = lived(slots, PIXELS, lengths)
    runs = {run[0]: run for run in lists.runs(length)}
    if not runs:
        return
    drawn = jax.tree.map(np.asarray, sequences(replay, jax.random.key(1), DRAWN, length))
    powers = 256 ** np.arange(6)
    firsts = drawn.frames[:, 0].reshape(DRAWN, -1) @ powers
    assert set(firsts.tolist()) == set(runs)
    for row in np.unique(firsts, return_index=True)[1]:
        run = runs[int(firsts[row])]
        led = [lists.led[number] for number in run[1:]]
        np.testing.assert_array_equal(drawn.frames[row], [lists.frame(number) for number in run])
        np.testing.assert_array_equal(drawn.actions[row], [np.zeros(2), *(action for action, _ in led)])
        np.testing.assert_array_equal(drawn.rewards[row], [0.0, *(reward for _, reward in led)])


@pytest.mark.parametrize("slots", [13, 40])
def test_every_transition_and_every_run_is_as_likely_as_any_other(slots):
    replay, lists = lived(slots, PIXELS, [7, 1, 4, 9, 2, 6, 3])
    drawn = jax.jit(Replay.sample, static_argnums=2)(replay, jax.random.key(3), 30_000)
    counts = np.bincount(np.asarray(drawn.index), minlength=slots)
    drawable = [one["index"] for one in lists.drawable()]
    assert counts.sum() == counts[drawable].sum()
    assert stats.chisquare(counts[drawable]).pvalue > 1e-3
    runs = sequences(replay, jax.random.key(4), 30_000, 3)
    counts = np.unique(np.asarray(runs.frames[:, 0]), axis=0, return_counts=True)[1]
    assert len(counts) == len(lists.runs(3))
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("draw", [sample, sequences])
def test_what_is_drawn_does_not_depend_on_room_that_is_not_used(draw):
    replays = [lived(slots, PIXELS, [5, 7, 3])[0] for slots in (18, 40)]
    drawn = [jax.tree.leaves(draw(replay, jax.random.key(0), 32, 3)) for replay in replays]
    for one, other in zip(*drawn, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_episode_s_first_frame_stands_for_those_before_it():
    replay, lists = lived(20, PIXELS, [4, 3])
    drawn = sample(replay, jax.random.key(0), DRAWN, 3)
    row = int(np.flatnonzero(np.asarray(drawn.index) == 5)[0])
    first, second = lists.frame(5), lists.frame(6)
    np.testing.assert_array_equal(drawn.frames[row], [first, first, first, second])


def test_the_slot_of_the_newest_frame_is_where_the_next_transition_starts():
    replay, lists = lived(8, PIXELS, [5, 4])
    slot = int(replay.slot)
    replay = add(replay, *lists.step())
    drawn = sample(replay, jax.random.key(0), DRAWN, 3)
    row = int(np.flatnonzero(np.asarray(drawn.index) == slot)[0])
    np.testing.assert_array_equal(drawn.action[row], [9, -9])


def test_a_step_is_written_in_place():
    replay, lists = lived(8, PIXELS, [3])
    before = replay.frames.unsafe_buffer_pointer()
    after = add(replay, *lists.step())
    assert replay.frames.is_deleted()
    assert after.frames.unsafe_buffer_pointer() == before


def test_a_hundred_thousand_transitions_of_pixels_fit_into_three_and_a_half_gigabytes():
    spec = Spec("pixels", (100, 100, 3), "uint8", 0, 500, 6)
    replay = jax.eval_shape(lambda: empty(slots_for(100_000, 500), spec))
    held = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(replay))
    assert 3.0e9 < held < 3.5e9


@pytest.mark.parametrize(("transitions", "steps"), [(12, 3), (13, 3), (5, 1), (6, 20)])
def test_the_slots_for_a_number_of_transitions_hold_them_at_any_time(transitions, steps):
    replay, lists = lived(slots_for(transitions, steps), PIXELS, [])
    fewest = []
    for _ in range(30 // steps + 3):
        replay = begin(replay, lists.begin())
        for _ in range(steps):
            replay = add(replay, *lists.step())
            fewest.append(int(replay.size))
    assert min(fewest[transitions:]) >= transitions


@pytest.mark.parametrize(
    "wrong",
    [
        functools.partial(empty, 10, Spec("discrete", (7, 7, 3), "uint8", 7, 100)),
        functools.partial(empty, 10, Spec("floats", (7, 7, 3), "float32", 0, 100, 2)),
        functools.partial(empty, 10, Spec("bytes", (7,), "uint8", 0, 100, 2)),
        functools.partial(empty, 3, PIXELS),
    ],
)
def test_what_a_replay_cannot_hold_is_refused(wrong):
    with pytest.raises(GobiError):
        wrong()


def test_a_replay_survives_a_seeds_axis():
    replays = jax.vmap(lambda _: empty(8, VECTORS))(jnp.arange(2))
    frames = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    replays = jax.vmap(Replay.begin)(replays, frames)
    np.testing.assert_array_equal(replays.frames[:, 0], frames)
