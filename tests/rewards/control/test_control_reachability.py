"""Reachability on control tasks, step for step as a Python set would have it, in a world that is a table."""

from __future__ import annotations

import dataclasses
import functools

import control_play
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from control_play import IMAGES, PICTURES, VECTORS, Table

from gobi.agents.rad.replay import Sequences
from gobi.errors import GobiError
from gobi.rewards.control import R1, Lessons, Reachability
from gobi.worlds import StateModel
from gobi.worlds.rssm import shrink

STEPS = 160
"""Half-way through, the world has a lesson."""


def play(seed: int = 0) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, bool, bool]]:
    """Steps between eight pictures, in episodes of several lengths, and how each ended."""
    rng = np.random.default_rng(seed)
    pictures = rng.integers(0, 256, (8, *PICTURES.observation_shape), np.uint8)
    steps, at, left = [], 0, 5
    for _ in range(STEPS):
        action, to = rng.integers(-1, 2, 2).astype(np.float32), int(rng.integers(8))
        left -= 1
        ended = left == 0, left == 0 and bool(rng.integers(2))
        steps.append((pictures[at], action, pictures[to], ended[0] and not ended[1], ended[1]))
        at, left = (int(rng.integers(8)), int(rng.integers(2, 40))) if left == 0 else (to, left)
    return steps


class Oracle:
    """The episode's memory as a Python set of signs, worked out in double precision."""

    def __init__(self, reward: Reachability, projection: np.ndarray):
        self.reward, self.projection = reward, np.asarray(projection, np.float64)
        self.memory: set[tuple[bool, ...]] = set()
        self.belief, self.begun, self.learned, self.present = 1, False, 0, 0
        self.centre, self.real = np.zeros((64, 64, 3)), []
        self.new_frame = False

    def code(self, image: np.ndarray) -> tuple[bool, ...]:
        image = np.asarray(image, np.float64)
        shown = {"half": image, "raw": 255 * (image + 0.5), "centred": image - self.centre}
        return tuple(self.projection @ shown[self.reward.scaling].reshape(-1) > 0)

    def growth(self, frame: np.ndarray) -> int:
        size = len(self.memory)
        self.new_frame = self.code(small(frame)) not in self.memory
        self.memory.add(self.code(small(frame)))
        if self.present or self.reward.untrained == "imagine":
            for which in range(3):
                number = control_play.imagined(self.belief, which, self.present)
                self.memory.add(self.code(IMAGES[number]))
        return len(self.memory) - size

    def step(self, before, action, after, done) -> int:
        paid = 0
        if not self.begun:
            self.memory.clear()
            self.present = self.learned
            self.belief = control_play.advance(1, 0, int(before[0, 0, 0]))
            if self.real:
                self.centre = np.mean(self.real, axis=0)
            if self.reward.credit == "arrival":
                self.growth(before)
        if self.reward.credit == "departure":
            paid = self.growth(before)
        self.belief = control_play.advance(self.belief, int(action[0]), int(after[0, 0, 0]))
        if self.reward.credit == "arrival":
            paid = self.growth(after)
        self.real.append(small(after))
        self.begun = not done
        return paid


def begun(reward: Reachability):
    """The state before the first episode."""
    return jax.jit(reward.init, static_argnums=1)(jax.random.key(3), PICTURES)


def moved(reward: Reachability, state, made, first):
    """A step, which may be the first of its episode."""
    start = made.before["frame"][0]
    state = jax.lax.cond(first, lambda state: reward.begin(state, start), lambda state: state, state)
    return reward.step(state, made)


@functools.cache
def shrunken() -> dict[bytes, np.ndarray]:
    """All pictures of the play, as the world sees them."""
    pictures = {step[2].tobytes(): step[2] for step in play()} | {
        step[0].tobytes(): step[0] for step in play()
    }
    shown = np.asarray(jax.jit(shrink)(np.stack(list(pictures.values()))), np.float64)
    return dict(zip(pictures, shown, strict=True))


def small(frame: np.ndarray) -> np.ndarray:
    return shrunken()[frame.tobytes()]


CASES = {
    "arrival": {"untrained": "imagine"},
    "departure, centred, few bits": {
        "untrained": "imagine",
        "credit": "departure",
        "scaling": "centred",
        "bits": 8,
    },
    "raw, real until taught": {"scaling": "raw"},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_a_step_is_paid_what_a_python_set_grows_by(options):
    reward = Reachability(Table(), **options)
    state = begun(reward)
    oracle = Oracle(reward, np.asarray(state.hashing.hash.projection))
    made = [control_play.transition(*step[:3], 0, *step[3:]) for step in play()]
    firsts = jnp.array([True, *(terminated or truncated for *_, terminated, truncated in play())][:-1])
    steps = jax.tree.map(lambda *parts: jnp.stack(parts), *made), firsts
    halves = jax.tree.map(lambda part: part.reshape(2, -1, *part.shape[1:]), steps)
    run = jax.jit(lambda state, steps: jax.lax.scan(lambda s, one: moved(reward, s, *one), state, steps))

    state, first = run(state, jax.tree.map(lambda part: part[0], halves))
    state, logged = reward.learn(state, jax.random.key(0), sequences())
    assert "world/loss" in logged
    state, second = run(state, jax.tree.map(lambda part: part[1], halves))
    paid = np.concatenate([first, second])[:, 0].astype(int).tolist()

    wanted = []
    for number, (before, action, after, terminated, truncated) in enumerate(play()):
        oracle.learned = int(number >= STEPS // 2)
        wanted.append(oracle.step(before, action, after, terminated or truncated))
    assert paid == wanted
    # Some steps add nothing, some nearly all they could.
    assert min(paid) == 0
    assert max(paid) >= 3
    assert int(state.memory.dropped) == 0


def test_of_the_last_step_it_tells_the_codes_and_whether_its_own_frame_was_new():
    reward = Reachability(Table(), untrained="imagine")
    state = begun(reward)
    oracle = Oracle(reward, np.asarray(state.hashing.hash.projection))
    step = jax.jit(functools.partial(moved, reward))
    sampled = jax.jit(lambda state: reward.at_sampling(state, jax.random.key(0), jnp.zeros(1), None)[2])
    told, wanted, first = [], [], True
    for before, action, after, terminated, truncated in play()[:12]:
        made = control_play.transition(before, action, after, 0, terminated, truncated)
        state, _ = step(state, made, jnp.bool_(first))
        logged = sampled(state)
        told.append((float(logged["growth/made"]), bool(logged["growth/seen"])))
        first = terminated or truncated
        wanted.append((oracle.step(before, action, after, first), oracle.new_frame))
    assert told == wanted
    assert {new for _, new in wanted} == {False, True}


def sequences() -> Sequences:
    frames = jnp.zeros((2, 12, *PICTURES.observation_shape), jnp.uint8)
    return Sequences(frames, jnp.zeros((2, 12, 2)), jnp.zeros((2, 12)))


@pytest.mark.parametrize(("credit", "unpaid"), [("arrival", 4), ("departure", 0)])
def test_the_growth_of_the_first_state_is_paid_on_departure_only(credit, unpaid):
    made = control_play.transition(*play()[0][:3], 0)
    reward = Reachability(Table(), credit=credit, untrained="imagine")
    state, paid = jax.jit(functools.partial(moved, reward))(begun(reward), made, jnp.bool_(True))
    # A frame and three images.
    assert int(state.memory.used[0]) == float(paid[0]) + unpaid
    assert float(paid[0]) == 4 or credit == "arrival"


def test_from_state_vectors_a_step_is_paid_what_a_python_set_grows_by():
    """Codes are worked out in double precision, by the side of each hyperplane on which a state lies."""
    world = StateModel(4, 2, steps=2, actions=3, units=16, learning_rate=0.03)
    reward = Reachability(world, bits=6)
    state = jax.jit(reward.init, static_argnums=1)(jax.random.key(3), VECTORS)
    rng = np.random.default_rng(0)
    for lesson in range(5):
        frames = jnp.asarray(rng.normal(3, 2, (8, 12, 4)), jnp.float32)
        lived = Sequences(frames, jnp.ones((8, 12, 2)), jnp.zeros((8, 12)))
        state, logged = jax.jit(reward.learn)(state, jax.random.key(lesson), lived)
    assert {"world/loss", "world/error"} <= set(logged)

    hashed = state.hashing.hash
    directions, offset = np.float64(hashed.projection), np.float64(hashed.offset)
    memory: set[tuple[bool, ...]] = set()

    def growth(number: int, seen: np.ndarray, at_a_step: bool) -> int:
        keys = reward.draws(dataclasses.replace(state, steps=jnp.int32(number)))
        imagined = jax.jit(world.imagine)(state.world, jnp.asarray(seen), keys[3 if at_a_step else 2])
        rows = np.concatenate([state.world.standard(jnp.asarray(seen))[None], imagined])
        size = len(memory)
        memory.update(tuple(row) for row in np.round(rows * 1024) / 1024 @ directions.T > -offset)
        return len(memory) - size

    at = np.float32(rng.normal(3, 2, 4))
    lived = jax.jit(reward.begin)(state, at)
    growth(0, at, at_a_step=False)
    paid, wanted, step = [], [], jax.jit(reward.step)
    for number in range(25):
        to, action = np.float32(at + rng.normal(0, 0.7, 4)), np.float32(rng.uniform(-1, 1, 2))
        lived, stored = step(lived, control_play.transition(at, action, to, number))
        paid.append(int(stored[0]))
        wanted.append(growth(number, to, at_a_step=True))
        at = to
    assert paid == wanted
    assert min(paid) == 0
    assert max(paid) >= 2


def test_the_stored_growth_is_the_bonus_of_r1():
    reward = R1(Table())
    state = begun(reward)
    stored = jnp.array([0.0, 3.0, 1.0])
    _, bonus, logged = jax.jit(reward.at_sampling)(state, jax.random.key(0), stored, None)
    np.testing.assert_array_equal(bonus, stored)
    np.testing.assert_allclose(logged["growth"], 4 / 3)
    assert set(reward.logs) <= set(logged)


def test_lessons_come_after_the_prefill_and_then_once_an_episode():
    lessons = Lessons(every=500, steps=100, prefill=2500, pretrain=70)
    due = {step: lessons.due(step) for step in range(1, 4001) if lessons.due(step)}
    assert due == {2500: 70, 3000: 100, 3500: 100, 4000: 100}
    assert Lessons(prefill=0, pretrain=9).due(1) == 9
    with pytest.raises(GobiError, match="every of the lessons must be at least 1"):
        Lessons(every=0)


def test_what_cannot_be_is_refused():
    for options, told in (({"codes": "learned"}, "codes=learned"), ({"scaling": "raw"}, "scaling=raw")):
        with pytest.raises(GobiError, match=f"{told} is for pictures, and 'vectors' gives state vectors"):
            Reachability(Table(), **options).init(jax.random.key(0), VECTORS)
    with pytest.raises(GobiError, match="one environment, not 2"):
        Reachability(Table()).init(jax.random.key(0), PICTURES, 2)
    with pytest.raises(GobiError, match="at least 1 bit"):
        Reachability(Table(), bits=0)
