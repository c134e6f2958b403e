"""The bonus engine: what it pays, what it refuses, and that it goes on from a file as if nothing had been."""

from __future__ import annotations

import decimal
import json
import logging
import sys
from collections import Counter
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from toy_worlds import Recorder

from gobi import GobiError, Spec
from gobi.adapters import bonus as engine
from gobi.adapters.advice import Sizes
from gobi.adapters.bonus import Bonus
from gobi.rewards import Count, Reachability, Reward
from gobi.worlds import Nowhere

GRID = Spec("a grid", (7, 7, 3), "uint8", 7, 20)
NUMBERS = Spec("numbers", (2,), "float32", 0, 20, action_size=1)
SYMBOLS = Spec("symbols", (3,), "uint8", 3, 20, classes=4)
LANES = 4


class Constant(Reward):
    """Pays the same everywhere; `traced` counts how often it is compiled."""

    pays: float = eqx.field(static=True, default=1.0)
    traced: Any = eqx.field(static=True, default=None)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"observation"})

    def init(self, key: Any, spec: Spec, num_envs: int) -> Any:
        return jnp.int32(0)

    def step(self, state: Any, transition: Any) -> tuple[Any, Any]:
        if self.traced is not None:
            self.traced.append("step")
        return state + 1, jnp.full_like(transition.reward, self.pays)


def views(number: int, lanes: int = LANES, spec: Spec = GRID) -> np.ndarray:
    """What the environments see at a time: a dozen views that come again."""
    draws = [np.random.default_rng(number * (lane + 1) % 12) for lane in range(lanes)]
    return np.stack([draw.integers(0, 3, spec.observation_shape, np.uint8) for draw in draws])


def play(bonus: Bonus, start: int, count: int, length: int = 6) -> np.ndarray:
    """What is paid for so many steps from a time on; the episodes of all end together, and pay 1."""
    spec, lanes = bonus.spec, bonus.num_envs
    paid = []
    for number in range(start, start + count):
        over = np.full(lanes, number % length == length - 1)
        before, after = views(number, lanes, spec), views(number + 1, lanes, spec)
        paid.append(bonus.step(before, np.arange(lanes) % 3, after, over.astype(float), over, over & False))
    return np.array(paid)


def one(bonus: Bonus, **changed: Any) -> np.ndarray:
    """One step, with something about it changed."""
    spec, lanes = bonus.spec, bonus.num_envs
    seen = np.zeros((lanes, *spec.observation_shape), spec.observation_dtype)
    step = {
        "before": seen,
        "action": np.zeros((lanes, spec.action_size)) if spec.action_size else np.zeros(lanes, int),
        "after": seen,
        "reward": np.zeros(lanes),
        "terminated": np.zeros(lanes, bool),
        "truncated": np.zeros(lanes, bool),
    }
    return bonus.step(**step | changed)


# The coefficient.


def test_the_coefficient_decays_by_frames_not_by_calls():
    few, many = (Bonus(Constant(), GRID, lanes, coefficient=0.5, decay=1e-2) for lanes in (2, 8))
    for _ in range(12):
        fewer = one(few)
    for _ in range(3):
        more = one(many)
    assert few.frames == many.frames == 24
    assert few.steps == 12
    np.testing.assert_allclose(fewer[0], 0.5 * 0.99**22, rtol=1e-6)
    np.testing.assert_allclose(more[0], 0.5 * 0.99**16, rtol=1e-6)


@pytest.mark.parametrize(("rho", "frames"), [(5e-8, 70_000_000), (1.5e-6, 8_000_000), (1e-9, 10**9)])
def test_the_decay_is_exact_after_millions_of_frames(rho, frames):
    bonus = Bonus(Constant(), GRID, 1, coefficient=0.01, decay=rho)
    bonus.frames = frames
    exact = decimal.Decimal("0.01") * (1 - decimal.Decimal(repr(rho))) ** frames
    np.testing.assert_allclose(bonus.present_coefficient(), float(exact), rtol=1e-9)


def test_environments_that_only_reset_are_no_frames():
    bonus = Bonus(Constant(), GRID, 3, coefficient=2.0)
    paid = one(bonus, real=np.array([True, False, True]))
    assert paid.tolist() == [2.0, 0.0, 2.0]
    assert bonus.raw.tolist() == [1.0, 0.0, 1.0]
    assert bonus.frames == 2
    one(bonus, real=np.zeros(3, bool))
    assert (bonus.frames, bonus.steps) == (2, 2)
    assert bonus.program is not None
    assert int(bonus.program.running.state) == 1


@pytest.mark.parametrize(
    "options", [{"decay": 1.0}, {"decay": -0.1}, {"coefficient": np.nan}, {"learn_every": 0}]
)
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(GobiError):
        Bonus(Constant(), GRID, 2, **options)


# What it costs.


def test_a_step_is_compiled_once():
    traced: list[str] = []
    bonus = Bonus(Constant(traced=traced), GRID, 2, learn_every=4)
    play(bonus, 0, 1)
    first = len(traced)
    play(bonus, 1, 11)
    assert len(traced) == first


def test_python_does_the_same_work_for_many_environments_as_for_few():
    """No loop over environments: as many lines of Python run for 40 of them as for 3."""

    def lines(lanes: int) -> int:
        bonus = Bonus(Constant(), GRID, lanes)
        before, after = views(0, lanes), views(1, lanes)
        flags = np.arange(lanes) < 2
        for _ in range(3):
            bonus.step(before, np.zeros(lanes, int), after, np.zeros(lanes), flags, ~flags, None)
        run = Counter()

        def trace(frame: Any, event: str, _: Any) -> Any:
            ours = "adapters" in frame.f_code.co_filename
            run[event] += ours
            return trace if ours else None

        tracer = sys.gettrace()
        sys.settrace(trace)
        try:
            bonus.step(before, np.zeros(lanes, int), after, np.zeros(lanes), flags, ~flags, None)
        finally:
            sys.settrace(tracer)
        return run["line"]

    assert lines(3) == lines(40) > 20


def test_observations_may_come_in_memory_that_is_used_again():
    """JAX takes memory that is aligned as it is, without a copy: what is kept of it must be one."""
    lanes = 64
    size = lanes * 7 * 7 * 3
    memory = np.zeros(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    seen = memory[begin : begin + size].reshape(lanes, 7, 7, 3)
    bonus = Bonus(Recorder(), GRID, lanes)
    bonus.restart(seen)
    for number in range(1, 5):
        seen[:] = number
        one(bonus, before=None, after=seen)
    assert bonus.program is not None
    kept = bonus.program.running.state
    assert np.asarray(kept["before"][:4, 0, 0, 0, 0]).tolist() == [0, 1, 2, 3]
    assert np.asarray(kept["after"][:4, 0, 0, 0, 0]).tolist() == [1, 2, 3, 4]


# Memories.


def test_memories_grow_and_forget_nothing():
    """A table with room for few codes pays as a dictionary does, which has room for all."""
    bonus = Bonus(Count(capacity=32), GRID, LANES, coefficient=1.0, learn_every=2)
    seen: Counter[tuple[int, bytes]] = Counter()
    for number in range(30):
        after = np.random.default_rng(number % 23).integers(0, 3, (LANES, 7, 7, 3), np.uint8)
        paid = one(bonus, after=after)
        for lane in range(LANES):
            code = lane, after[lane].tobytes()
            seen[code] += 1
            assert paid[lane] == np.float32(1) / np.sqrt(np.float32(seen[code]))
    assert bonus.ledger.grown[0] == ["lifelong"]
    assert bonus.metrics["dropped/lifelong"] == 0
    assert bonus.metrics["load/lifelong"] <= 0.5


# Metrics and advice.


def test_metrics_tell_of_the_last_rollout():
    bonus = Bonus(Constant(3.0), GRID, LANES, coefficient=0.25, learn_every=6)
    play(bonus, 0, 6)
    told = bonus.metrics
    assert told["bonus"] == 3.0
    assert told["bonus_std"] == 0.0
    assert told["bonus_share"] == pytest.approx(6 * 0.75 / (6 * 0.75 + 1))
    assert told["coefficient"] == 0.25


def test_networks_learn_every_so_many_steps():
    bonus = Bonus("rnd", GRID, LANES, learn_every=4)
    play(bonus, 0, 3)
    assert "predictor_loss" not in bonus.metrics
    first = play(bonus, 3, 1)
    assert bonus.metrics["predictor_loss"] > 0
    again = play(bonus, 3, 1)
    assert (again < first).all()


def test_advice_is_given_once(monkeypatch, caplog):
    monkeypatch.setattr(engine, "ADVICE_AT", 30)
    bonus = Bonus(Constant(), GRID, LANES, coefficient=0.5)
    with caplog.at_level(logging.WARNING, "gobi"):
        play(bonus, 0, 7)
        assert not caplog.records
        play(bonus, 7, 20)
    (said,) = caplog.records
    assert "after 32 frames" in said.getMessage()


def test_the_advice_of_a_bonus_proposes_what_to_set():
    bonus = Bonus("gobi", SYMBOLS, LANES, coefficient=0.5, decay=0.1)
    bonus.frames = 100
    bonus.ledger.sizes = Sizes(np.zeros(1), np.zeros(1), 100, bonuses=400.0, rewarded=50, returns=40.0)
    assert bonus.present_coefficient() < 0.001
    assert "the coefficient 0.03 instead of 0.5" in bonus.advice()


def test_the_advice_of_a_bonus_knows_its_reward():
    bonus = Bonus("gobi", SYMBOLS, LANES)
    bonus.ledger.sizes.at_first = 1.0
    assert "try another reward" in bonus.advice()
    assert "(noveld, ride" in bonus.advice()


def test_sizes_are_summed_over_episodes():
    bonus = Bonus(Constant(), GRID, 2, coefficient=0.5)
    play(bonus, 0, 13, length=6)
    sizes = bonus.ledger.sizes
    assert (sizes.episodes, sizes.bonuses, sizes.rewarded, sizes.returns) == (4, 12.0, 4, 4.0)
    assert sizes.bonus.tolist() == [0.5, 0.5]


# Evaluation.


def test_nothing_is_paid_or_remembered_while_frozen():
    bonus = Bonus("count", GRID, LANES, learn_every=4)
    play(bonus, 0, 3)
    with bonus.frozen():
        assert not play(bonus, 50, 5).any()
    unfrozen = Bonus("count", GRID, LANES, learn_every=4)
    play(unfrozen, 0, 3)
    np.testing.assert_array_equal(play(bonus, 3, 4), play(unfrozen, 3, 4))
    assert bonus.frames == unfrozen.frames


def test_episodes_begin_anew_after_being_frozen():
    bonus = Bonus(Reachability(Nowhere()), GRID, LANES, coefficient=1.0)
    first = play(bonus, 0, 4, length=99)
    with bonus.frozen():
        play(bonus, 4, 2, length=99)
    np.testing.assert_array_equal(play(bonus, 0, 4, length=99), first)
    assert first.any()


# Files.

SAVED = {"count": GRID, "rnd": GRID, "noveld": GRID, "gobi": SYMBOLS}


@pytest.mark.parametrize("name", SAVED)
def test_a_restored_bonus_goes_on_bit_for_bit(name, tmp_path):
    def made(seed: int) -> Bonus:
        return Bonus(name, SAVED[name], LANES, learn_every=4, decay=1e-3, seed=seed)

    bonus = made(seed=1)
    play(bonus, 0, 10)
    path = bonus.save(tmp_path / "bonus.safetensors")
    expected = play(bonus, 10, 14)
    other = made(seed=2)
    play(other, 3, 2)
    other.restore(path)
    np.testing.assert_array_equal(play(other, 10, 14), expected)
    assert other.metrics == bonus.metrics
    assert (other.steps, other.frames) == (bonus.steps, bonus.frames)
    loaded = Bonus.load(path)
    np.testing.assert_array_equal(play(loaded, 10, 14), expected)
    assert loaded.advice() == bonus.advice()


def test_what_was_saved_before_the_first_step_can_be_restored(tmp_path):
    bonus = Bonus("rnd", GRID, LANES, learn_every=4, seed=3)
    path = bonus.save(tmp_path / "bonus.safetensors")
    np.testing.assert_array_equal(play(Bonus.load(path), 0, 3), play(bonus, 0, 3))


def test_memories_are_restored_in_the_size_they_had_grown_to(tmp_path):
    def made() -> Bonus:
        return Bonus(Count(capacity=16), GRID, LANES, learn_every=2)

    bonus = made()
    play(bonus, 0, 15)
    assert bonus.ledger.grown
    path = bonus.save(tmp_path / "bonus.safetensors")
    other = made()
    other.restore(path)
    np.testing.assert_array_equal(play(other, 15, 10), play(bonus, 15, 10))
    assert other.ledger.grown == bonus.ledger.grown


def test_the_suffix_of_a_file_may_be_left_out(tmp_path):
    bonus = Bonus("count", GRID, LANES)
    play(bonus, 0, 3)
    path = bonus.save(tmp_path / "car_0.5")
    assert path == tmp_path / "car_0.5.safetensors"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["car_0.5.json", "car_0.5.safetensors"]
    restored = Bonus("count", GRID, LANES)
    restored.restore(str(tmp_path / "car_0.5"))
    assert restored.frames == Bonus.load(tmp_path / "car_0.5").frames == Bonus.load(path).frames == 12


def test_a_reward_without_a_name_must_be_given_to_load(tmp_path):
    bonus = Bonus(Count(), GRID, LANES)
    play(bonus, 0, 3)
    path = bonus.save(tmp_path / "bonus.safetensors")
    with pytest.raises(GobiError, match="reward="):
        Bonus.load(path)
    np.testing.assert_array_equal(play(Bonus.load(path, reward=Count()), 3, 5), play(bonus, 3, 5))


def damaged(tmp_path, what: str):
    bonus = Bonus("count", GRID, LANES, learn_every=4)
    play(bonus, 0, 4)
    path = bonus.save(tmp_path / "bonus.safetensors")
    content = bytearray(path.read_bytes())
    beside = path.with_suffix(".json")
    if what == "truncated":
        path.write_bytes(content[:-10])
    elif what == "altered":
        content[-5] ^= 1
        path.write_bytes(content)
    elif what == "json":
        facts = json.loads(beside.read_text())
        facts["about"]["facts"]["progress"]["frames"] = 7
        beside.write_text(json.dumps(facts))
    else:
        beside.unlink()
    return path


@pytest.mark.parametrize(
    ("what", "says"),
    [("truncated", "truncated"), ("altered", "altered"), ("json", "altered"), ("missing", "missing")],
)
def test_a_damaged_file_is_refused_and_changes_nothing(tmp_path, what, says):
    path = damaged(tmp_path, what)
    bonus, untouched = (Bonus("count", GRID, LANES, learn_every=4) for _ in range(2))
    play(bonus, 0, 3)
    play(untouched, 0, 3)
    for read in (bonus.restore, Bonus.load):
        with pytest.raises(GobiError, match=says):
            read(path)
    np.testing.assert_array_equal(play(bonus, 3, 4), play(untouched, 3, 4))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"num_envs": 2}, "num_envs 4; here it is 2"),
        ({"reward": "rnd"}, "reward 'count'; here it is 'rnd'"),
        ({"learn_every": 5}, "learn_every 128; here it is 5"),
        ({"spec": Spec("another", (7, 7, 3), "uint8", 7, 20)}, "spec"),
    ],
)
def test_a_file_of_another_bonus_is_refused_with_the_difference(tmp_path, changed, says):
    path = Bonus("count", GRID, LANES).save(tmp_path / "bonus.safetensors")
    other = Bonus(**{"reward": "count", "spec": GRID, "num_envs": LANES} | changed)
    with pytest.raises(GobiError, match=says):
        other.restore(path)


# Bad input.


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused_with_environment_and_step(wrong):
    bonus = Bonus(Constant(), NUMBERS, 3)
    one(bonus)
    reward, seen = np.zeros(3), np.zeros((3, 2), np.float32)
    reward[1], seen[2, 1] = wrong, wrong
    with pytest.raises(GobiError, match=rf"reward is {wrong} in environment 1 at step 2"):
        one(bonus, reward=reward)
    with pytest.raises(GobiError, match=rf"observation holds {wrong} in environment 2 at step 2"):
        one(bonus, after=seen)
    one(bonus)
    assert bonus.steps == 2


def test_a_bonus_that_is_no_number_is_refused():
    with pytest.raises(GobiError, match="the bonus is nan in environment 0 at step 1"):
        one(Bonus(Constant(np.nan), GRID, 2))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"after": np.zeros((2, 7, 7, 3), np.uint8)}, r"\[3, 7, 7, 3\].*\[2, 7, 7, 3\]"),
        ({"after": np.zeros((3, 7, 7, 3))}, "uint8.*float64"),
        ({"action": np.zeros((3, 2))}, r"actions.*\[3\].*\[3, 2\]"),
        ({"reward": np.zeros(4)}, r"rewards.*\[3\].*\[4\]"),
        ({"terminated": np.zeros((3, 1), bool)}, r"terminated.*\[3\].*\[3, 1\]"),
        ({"after": {"panorama": np.zeros(3)}}, "reads observation, but was given only panorama"),
        ({"terminated": None}, "terminated of step 1.*None"),
        ({"truncated": [True, False]}, r"truncated of step 1.*\[3\].*\[2\]"),
        ({"reward": ["1", "2", "3"]}, r"rewards of step 1 must be numbers.*'1'"),
        ({"reward": [1.0, [2.0], 3.0]}, "rewards of step 1 must be numbers"),
    ],
)
def test_wrong_shapes_are_refused_with_both(changed, says):
    with pytest.raises(GobiError, match=says):
        one(Bonus(Constant(), GRID, 3), **changed)


def test_the_first_step_must_say_where_it_began():
    bonus = Bonus(Constant(), GRID, 3)
    with pytest.raises(GobiError, match="before"):
        one(bonus, before=None)
    bonus.restart(views(0, 3))
    one(bonus, before=None)


def test_a_reward_whose_state_changes_its_shape_is_refused():
    class Growing(Constant):
        def init(self, key: Any, spec: Spec, num_envs: int) -> Any:
            return jnp.zeros(1)

        def rollout(self, state: Any, transitions: Any) -> tuple[Any, Any, dict[str, Any]]:
            return jnp.concatenate([state, state]), jnp.zeros_like(transitions.reward), {}

    with pytest.raises(GobiError, match=r"float32\[1\] to float32\[2\]"):
        one(Bonus(Growing(), GRID, 2))
