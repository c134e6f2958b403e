"""Reachability, step for step as a Python set would have it: Algorithm 1, and the public code."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import algorithms
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recordings import SPEC, STEPS, TASKS, Recorded, compiled

from gobi.envs.minigrid import make
from gobi.errors import GobiError
from gobi.memory import SimHash
from gobi.rewards import Reachability, reachability
from gobi.types import Transition
from gobi.worlds import Simulator

ALL = tuple(range(7))


def hashed(view: np.ndarray) -> tuple[bool, ...]:
    """Fifty signs of the projection that `simhash` uses, worked out with numpy."""
    return tuple(np.asarray(simhash().projection, np.float64) @ view.reshape(-1) > 0)


@functools.cache
def simhash() -> SimHash:
    return SimHash(jax.random.key(50), (7, 7, 3), 50)


@dataclasses.dataclass(frozen=True)
class Case:
    """A reachability and what pays the same in plain Python."""

    reward: Callable[[], Reachability]
    oracle: Callable[[Transition], np.ndarray]


def case(algorithm, actions=ALL[:6], oracle: dict[str, Any] | None = None, **options: Any) -> Case:
    known = {"actions": actions} | (oracle or {})
    return Case(
        lambda: Reachability(Recorded(actions), **options),
        lambda play: algorithms.growth(play, algorithm, **known),
    )


arriving = functools.partial(case, algorithms.public_code)
departing = functools.partial(case, algorithms.algorithm_1, credit="departure")
CASES = {
    "arrival": arriving(),
    "arrival, seven actions": arriving(ALL),
    "departure, seven actions": departing(ALL),
    "erased": arriving(oracle={"code": algorithms.erased}, erase=True),
    "erased where it lies": arriving(oracle={"code": algorithms.erased_where_it_lies}, erase="lying"),
    "executed, erased": arriving(
        oracle={"stop_at_executed": True, "code": algorithms.erased}, skip_executed=True, erase=True
    ),
    "simhash": dataclasses.replace(
        arriving(oracle={"code": hashed}), reward=lambda: Reachability(Recorded(), hash=simhash())
    ),
}


@pytest.fixture(scope="module")
def pays(played, misjudged):
    """What a case pays for the play with real futures, and with wrong ones; both as its oracle has it."""

    @functools.cache
    def of(name: str) -> dict[str, np.ndarray]:
        reward = CASES[name].reward()
        rollout = compiled(lambda state, play: reward.rollout(state, play))
        paid = {}
        for dynamics, play in (("real", played), ("wrong", misjudged)):
            _, bonus, logged = rollout(reward.init(jax.random.key(0), SPEC, play.action.shape[1]), play)
            np.testing.assert_array_equal(bonus, CASES[name].oracle(play), err_msg=f"{name}, {dynamics}")
            np.testing.assert_allclose(logged["growth"], np.mean(bonus), rtol=1e-5)
            memories = {"episodic", "executed"} if reward.skip_executed else {"episodic"}
            assert {n: float(v) for n, v in logged.items() if n.startswith("dropped/")} == {
                f"dropped/{memory}": 0 for memory in memories
            }
            paid[dynamics] = np.asarray(bonus)
        return paid

    return of


def test_the_recorded_play_has_what_the_tests_need(played):
    ends = np.asarray(played.done)
    assert played.terminated.any()
    assert played.truncated.any()
    assert (ends.reshape(STEPS, len(TASKS), -1).any(axis=(0, 2))).all()
    assert not ends[-1].all()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("arrival, seven actions", "departure, seven actions"),
        ("arrival", "erased"),
        ("erased", "executed, erased"),
        ("erased", "erased where it lies"),
        ("arrival", "simhash"),
    ],
    ids=["credit", "erase", "skip_executed", "carried", "hash"],
)
def test_both_values_of_an_option_pay_what_a_python_set_grows_by_and_they_differ(one, other, pays):
    for dynamics in ("real", "wrong"):
        assert (pays(one)[dynamics] != pays(other)[dynamics]).mean() > 0.001


def test_the_seventh_action_matters_only_to_a_world_that_misjudges_it(pays):
    six, seven = pays("arrival"), pays("arrival, seven actions")
    np.testing.assert_array_equal(six["real"], seven["real"])
    assert (six["wrong"] != seven["wrong"]).any()


def test_erasing_matters_only_where_there_is_something_to_carry(pays):
    differs = pays("arrival")["real"] != pays("erased")["real"]
    by_task = differs.reshape(STEPS, len(TASKS), -1).any(axis=(0, 2))
    assert by_task.tolist() == ["MultiRoom" not in task for task in TASKS]


@pytest.mark.parametrize(
    ("task", "credit", "algorithm"),
    [(TASKS[1], "departure", algorithms.algorithm_1), (TASKS[3], "arrival", algorithms.public_code)],
)
def test_compiled_and_with_the_real_simulator_it_pays_the_same(task, credit, algorithm, recorded):
    env, play = make(task), recorded(task)
    reward = Reachability(Simulator(env), credit=credit)
    assert reward.reads == {"observation", "state"}
    state = reward.init(jax.random.key(0), env.spec, play.action.shape[1])
    _, bonus, _ = compiled(lambda state, play: reward.rollout(state, play))(state, play)
    np.testing.assert_array_equal(bonus, algorithms.growth(play, algorithm, actions=range(6)))


def test_step_by_step_and_in_pieces_it_pays_the_same(played, monkeypatch):
    reward, expected = Reachability(Recorded()), CASES["arrival"].oracle(played)
    start = reward.init(jax.random.key(0), SPEC, played.action.shape[1])
    _, bonus = compiled(lambda state, play: jax.lax.scan(reward.step, state, play))(start, played)
    np.testing.assert_array_equal(bonus, expected)

    # Few first states at a time: more than one turn of the loop that imagines from them.
    monkeypatch.setattr(reachability, "CHUNK", 5)
    rollout, state, now = compiled(reward.rollout), start, 0
    for length in (7, 93, 93, 7, 7, 93):
        piece = jax.tree.map(lambda leaf, now=now, length=length: leaf[now : now + length], played)
        state, bonus, _ = rollout(state, piece)
        np.testing.assert_array_equal(bonus, expected[now : now + length])
        now += length
    assert now == STEPS


class Chunked(Recorded):
    """The same, imagining from few states at a time; of equal futures only once, if it may."""

    rows_at_once: int = eqx.field(static=True, default=7)
    repeatable: bool = eqx.field(static=True, default=False)


@pytest.mark.parametrize("repeatable", [False, True])
@pytest.mark.parametrize("rows_at_once", [7, 10_000])
def test_imagining_from_a_few_states_at_a_time_and_once_from_equal_ones_pays_the_same(
    rows_at_once, repeatable, played
):
    reward = Reachability(Chunked(rows_at_once=rows_at_once, repeatable=repeatable))
    start = reward.init(jax.random.key(0), SPEC, played.action.shape[1])
    rollout, state, expected = compiled(reward.rollout), start, CASES["arrival"].oracle(played)
    for half in (slice(0, STEPS // 2), slice(STEPS // 2, None)):
        state, bonus, _ = rollout(state, jax.tree.map(lambda leaf, half=half: leaf[half], played))
        np.testing.assert_array_equal(bonus, expected[half])


def test_from_states_that_look_the_same_a_repeatable_world_imagines_once(played):
    asked = []

    class Asked(Chunked):
        def imagine(self, ws, keys, views):
            jax.debug.callback(lambda: asked.append(len(keys)))
            return super().imagine(ws, keys, views)

    few = jax.tree.map(lambda leaf: leaf[:20], played)
    still = eqx.tree_at(lambda play: (play.before, play.after), few, (few.before, few.before))
    still = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1, :1], leaf.shape), still)
    for repeatable, turns in ((True, 1), (False, -(-20 * played.action.shape[1] // 7))):
        asked.clear()
        reward = Reachability(Asked(repeatable=repeatable))
        state = reward.init(jax.random.key(0), SPEC, played.action.shape[1])
        state = eqx.tree_at(lambda s: s.begun, state, jnp.ones_like(state.begun))
        jax.block_until_ready(compiled(reward.rollout)(state, still))
        jax.effects_barrier()
        assert len(asked) == turns


def test_seeds_that_have_unequally_much_to_imagine_are_paid_as_if_alone(played):
    reward = Reachability(Chunked(repeatable=True))
    start = reward.init(jax.random.key(0), SPEC, played.action.shape[1])
    plays = [jax.tree.map(lambda leaf, now=now: leaf[now : now + 50], played) for now in (0, 50)]
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *plays)
    _, bonus, _ = compiled(jax.vmap(reward.rollout, in_axes=(None, 0)))(start, both)
    for number, play in enumerate(plays):
        np.testing.assert_array_equal(bonus[number], compiled(reward.rollout)(start, play)[1])


@pytest.mark.parametrize(
    ("credit", "predictions", "sampled"),
    [("departure", 6, 0), ("arrival", 42, 0), ("arrival", 6, 6)],
    ids=["credit", "two steps ahead", "six random actions"],
)
def test_the_rule_on_executed_actions_is_refused_where_it_has_no_meaning(credit, predictions, sampled):
    world = types.SimpleNamespace(actions=range(6), predictions=predictions, sampled=sampled)
    with pytest.raises(GobiError, match=r"^skip_executed [^\n]*$"):
        Reachability(world, credit=credit, skip_executed=True)
    Reachability(world, credit=credit)


def test_an_unknown_credit_is_refused():
    # Here the type checker would refuse it first.
    unchecked = types.SimpleNamespace(credit="both", skip_executed=False, world=Recorded())
    with pytest.raises(GobiError, match="credit must be arrival or departure, got 'both'"):
        Reachability.__check_init__(unchecked)
