"""Bonuses over gobi.vector, over Farama's own environments with views, and for continuous actions."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Key, UInt8
from toy_worlds import ROOM, Recorder, recorded

import gobi
from gobi.adapters.environments import name_of
from gobi.adapters.gymnasium import IntrinsicReward, IntrinsicRewardEnv, Views
from gobi.adapters.single import Plain
from gobi.envs.minigrid import DoorKey, numbered_levels, oracle
from gobi.envs.minigrid.state import State, nth
from gobi.rewards import GoBI
from gobi.types import Transition
from gobi.worlds import Nowhere

gymnasium = pytest.importorskip("gymnasium")

TASK = "MiniGrid-MultiRoom-N2-S4-v0"
"""Random play reaches its goal now and then, and its limit of 40 steps."""
KEYCORRIDOR = "MiniGrid-KeyCorridorS3R3-v0"
LANES = 3


class Around(Nowhere):
    """Imagines what the panorama shows: rewards then depend on every cell of it."""

    predictions: int = eqx.field(static=True, default=4)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"panorama"})

    def imagine(
        self, ws: Any, keys: Key[Array, " n"], views: dict[str, Any]
    ) -> tuple[UInt8[Array, "n 4 7 7 3"], Bool[Array, "n 4"]]:
        return views["panorama"], jnp.ones((len(keys), 4), bool)


def walk(steps: int, lanes: int, seed: int) -> np.ndarray:
    """Random play that mostly walks and opens doors; the last lane only turns, until its time is up."""
    actions = np.random.default_rng(seed).choice([0, 1, 2, 2, 2, 5, 5], (steps, lanes))
    actions[:, -1] %= 2
    return actions


@functools.cache
def functions():
    env = gobi.make(TASK)

    def seen(states: State):
        return {"observation": jax.vmap(env.observe)(states), "panorama": jax.vmap(env.panorama)(states)}

    return jax.jit(jax.vmap(env.step)), jax.jit(seen)


def transitions(actions: np.ndarray, mode: str) -> Iterator[Transition]:
    """The true steps of the lanes by our pure functions, level after level, without any adapter."""
    step, seen = functions()
    levels = jax.device_get(numbered_levels(gobi.make(TASK), 0, 0, 64))
    fresh = (nth(levels, number) for number in range(64))
    states, over = [next(fresh) for _ in range(LANES)], np.zeros(LANES, bool)

    def stacked() -> State:
        return jax.tree.map(lambda *parts: np.stack(parts), *states)

    for row in actions:
        before = seen(stacked())
        moved, outcome = jax.device_get(step(stacked(), row.astype(np.int32)))
        real = ~over if mode == "NextStep" else np.ones(LANES, bool)
        states = [nth(moved, lane) if real[lane] else next(fresh) for lane in range(LANES)]
        after = seen(stacked())
        yield Transition(
            before={
                name: jnp.stack([(before if real[i] else after)[name][i] for i in range(LANES)])
                for name in after
            },
            action=jnp.where(real, row, 0).astype(jnp.int32),
            after=after,
            reward=jnp.where(real, outcome.reward, 0),
            terminated=jnp.asarray(outcome.terminated | ~real),
            truncated=jnp.asarray(outcome.truncated & real),
            real=jnp.asarray(real),
        )
        over = (outcome.terminated | outcome.truncated) & real
        if mode == "SameStep":
            states = [next(fresh) if over[lane] else states[lane] for lane in range(LANES)]


@pytest.mark.parametrize("to", ["numpy", "jax"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_vector_of_ours_is_paid_what_the_reward_itself_pays_for_the_same_steps(mode, to):
    env = IntrinsicReward(
        gobi.vector(TASK, LANES, autoreset_mode=mode, views=("panorama",), to=to),
        reward="gobi",
        world=Around(),
        coefficient=0.5,
    )
    assert env.bonus.reads == {"observation", "panorama"}
    reward = GoBI(Around())
    # The same key as the engine's own, though nothing here draws from it.
    state = reward.init(jax.random.split(jax.random.key(0))[1], env.bonus.spec, LANES)
    pay = jax.jit(reward.step)
    env.reset()
    ends = np.zeros(2, int)
    actions = walk(110, LANES, seed=9)
    for row, transition in zip(actions, transitions(actions, mode), strict=True):
        _, total, terminated, truncated, infos = env.step(row)
        state, bonus = pay(state, transition)
        np.testing.assert_allclose(infos["intrinsic_reward"], 0.5 * np.asarray(bonus), rtol=1e-6)
        np.testing.assert_allclose(infos["extrinsic_reward"], transition.reward, rtol=1e-6)
        np.testing.assert_allclose(total, 0.5 * bonus + transition.reward, rtol=1e-6)
        ends += [int(terminated.sum()), int(truncated.sum())]
    assert (ends >= 2).all(), "nobody reached the goal, or the limit of steps"
    assert env.bonus.metrics["coefficient"] == 0.5


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: gobi.vector(KEYCORRIDOR, 2), KEYCORRIDOR),
        (lambda: gobi.vector("KeyCorridorS3R3", 2), KEYCORRIDOR),
        (lambda: gymnasium.make_vec(f"gobi/{KEYCORRIDOR}", 2), KEYCORRIDOR),
        (lambda: gymnasium.make_vec(f"gobi/{KEYCORRIDOR}", 2, vectorization_mode="sync"), KEYCORRIDOR),
        (lambda: gymnasium.vector.SyncVectorEnv([lambda: Plain(KEYCORRIDOR)]), KEYCORRIDOR),
        (lambda: gymnasium.wrappers.vector.RecordEpisodeStatistics(gobi.vector(KEYCORRIDOR, 2)), KEYCORRIDOR),
        (lambda: gobi.vector(DoorKey(7), 2), DoorKey(7).name),
    ],
    ids=["vector", "short", "make_vec", "sync", "plain", "wrapped", "family"],
)
def test_a_reward_is_told_the_task_and_the_length_of_its_episodes(made, name):
    bonus = IntrinsicReward(made(), reward="ride").bonus
    assert bonus.spec.id == name
    assert bonus.spec.max_steps == gobi.make(DoorKey(7) if "DoorKey" in name else name).spec.max_steps
    assert bonus.coefficient == (0.1 if name == KEYCORRIDOR else 0.5)


def test_environments_in_other_processes_have_the_name_that_the_tasks_are_listed_by():
    class Elsewhere(gymnasium.vector.VectorEnv):
        def __init__(self, name: str):
            self.spec = gymnasium.spec(name)

    assert name_of(Elsewhere(f"gobi/{KEYCORRIDOR}")) == KEYCORRIDOR
    assert name_of(Elsewhere("gobi/MultiRoom-N2-S4-noisy-v0")) == "gobi/MultiRoom-N2-S4-noisy-v0"
    assert name_of(Elsewhere("CartPole-v1")) == "CartPole-v1"


@pytest.mark.parametrize("made", [lambda: Plain(KEYCORRIDOR), lambda: gymnasium.make(f"gobi/{KEYCORRIDOR}")])
def test_one_lane_tells_its_task_too(made):
    bonus = IntrinsicRewardEnv(made(), reward="ride").bonus
    assert (bonus.spec.id, bonus.spec.max_steps, bonus.coefficient) == (KEYCORRIDOR, 270, 0.1)


class Panoramas(Recorder):
    """Keeps the panoramas that it was given."""

    view: str = eqx.field(static=True, default="panorama")

    def init(self, key: Any, spec: Any, num_envs: int) -> dict[str, Array]:
        views = jnp.zeros((ROOM, num_envs, 4, 7, 7, 3), jnp.uint8)
        return super().init(key, spec, num_envs) | {"before": views, "after": views}


def doorkey() -> Any:
    """Farama's own: the longest episodes end after seven steps."""
    return gymnasium.make("MiniGrid-DoorKey-5x5-v0", max_steps=7)


def farama_pairs(actions: list[int], seed: int, mode: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """The panoramas of both ends of each step that one lane makes, by Farama's own view."""
    env, made, over = doorkey(), [], False
    env.reset(seed=seed)
    for action in actions:
        if over and mode == "NextStep":
            env.reset()
            over = False
            continue
        before = oracle.farama_panorama(env)
        _, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
        made.append((before, oracle.farama_panorama(env)))
        if over and mode == "SameStep":
            env.reset()
    return made


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_panoramas_of_faramas_environments_reach_the_reward_with_their_true_ends(mode):
    pytest.importorskip("minigrid")
    inner = gymnasium.vector.SyncVectorEnv(
        [lambda: Views(doorkey(), views=("panorama",))] * 2, autoreset_mode=mode
    )
    env = IntrinsicReward(inner, reward=Panoramas())
    env.reset(seed=[3, 4])
    actions = np.random.default_rng(1).choice([0, 1, 2, 2, 3, 5], (30, 2))
    ended = 0
    for row in actions:
        *_, terminated, truncated, _ = env.step(row)
        ended += int((terminated | truncated).sum())
    assert ended >= 6
    kept = recorded(env)
    for lane, seed in enumerate([3, 4]):
        real = kept["real"][:, lane]
        expected = farama_pairs(actions[:, lane].tolist(), seed, mode)
        assert real.sum() == len(expected)
        np.testing.assert_array_equal(kept["before"][real, lane], [before for before, _ in expected])
        np.testing.assert_array_equal(kept["after"][real, lane], [after for _, after in expected])


def test_where_there_are_panoramas_gobi_imagines_from_them():
    pytest.importorskip("minigrid")
    with_views = gymnasium.vector.SyncVectorEnv([lambda: Views(doorkey(), views=("panorama",))] * 2)
    bonus = IntrinsicReward(with_views, reward="gobi").bonus
    assert bonus.reads == {"observation", "panorama"}
    assert (bonus.spec.id, bonus.spec.max_steps) == ("MiniGrid-DoorKey-5x5-v0", 7)


@pytest.mark.parametrize("reward", ["rnd", "gobi"])
def test_actions_that_are_vectors_reach_the_reward_within_their_bounds(reward):
    env = IntrinsicReward(gymnasium.make_vec("MountainCarContinuous-v0", 2), reward=reward, learn_every=4)
    env.reset(seed=0)
    given = np.array([[[0.5], [-1.0]], [[3.0], [0.25]], [[-2.0], [1.0]]], np.float32)
    paid = np.stack([env.step(action)[-1]["intrinsic_reward"] for action in given])
    program = env.bonus.program
    assert program is not None
    rollout = program.running.rollout
    assert rollout is not None
    np.testing.assert_array_equal(rollout.action[:3], given.clip(-1, 1))
    assert (env.bonus.spec.num_actions, env.bonus.spec.action_size) == (0, 1)
    assert np.isfinite(paid).all()
    assert (paid > 0).any()
    env.step(given[0])
    assert env.bonus.ledger.lessons == 1
    assert np.isfinite(env.step(given[1])[1]).all()
