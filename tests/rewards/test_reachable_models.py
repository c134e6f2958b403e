"""Reachability with a model of anything, against a Python set; and where no step was made at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_places import ENVS, PLACES, compiled, learned, play

from gobi.memory import exact
from gobi.memory.offset_codes import OffsetHash
from gobi.rewards import Count, GoBI, Reachability
from gobi.types import Transition
from gobi.worlds import Nowhere, OnlineModel


def grown(reward: Reachability, state: Any, rollout: Transition, code: Callable[..., Any]) -> np.ndarray:
    """The growth with a Python set: of what is imagined, only what the world itself says is used."""
    time, envs = rollout.reward.shape
    first, done = ~np.asarray(state.begun), np.asarray(rollout.done)
    paid, sets = np.zeros((time, envs)), [set() for _ in range(envs)]
    imagine = compiled(lambda ws, keys, seen: reward.world.imagine(ws, keys, {"observation": seen})[0])

    def reach(seen, keys):
        everything = jnp.concatenate([seen[:, None], imagine(state.world, keys, seen)], axis=1)
        return [set(row) for row in code(everything)]

    firsts = jnp.zeros((time, envs), bool)
    left, arrived = (reward.draws(state, firsts, which) for which in (0, 1))
    for t in range(time):
        begun = reach(rollout.before["observation"][t], left[t])
        met = reach(rollout.after["observation"][t], arrived[t])
        for lane in range(envs):
            if first[lane]:
                sets[lane] = begun[lane]
            paid[t, lane] = len(met[lane] - sets[lane])
            sets[lane] |= met[lane]
        first = done[t]
    return paid


@pytest.mark.parametrize("kind", ["numbers", "symbols"])
def test_reachability_pays_what_a_python_set_grows_by(kind):
    world, ws, _ = learned(kind)
    spec, rollout = PLACES[kind][0], play(kind, seed=100)
    hash = None if kind == "symbols" else OffsetHash(jax.random.key(0), spec.observation_shape)
    reward = Reachability(world, hash=hash)
    state = compiled(lambda key: reward.init(key, spec, ENVS))(jax.random.key(5))
    state = eqx.tree_at(lambda s: s.world, state, ws)
    _, bonus, logged = compiled(lambda state, play: reward.rollout(state, play))(state, rollout)

    def code(seen):
        if hash is None:
            return [[row.tobytes() for row in rows] for rows in np.asarray(seen)]
        return [[tuple(row) for row in rows.tolist()] for rows in np.asarray(hash(seen))]

    np.testing.assert_array_equal(bonus, grown(reward, state, rollout, code))
    assert 0 < float(logged["growth"]) == pytest.approx(float(np.mean(bonus)), rel=1e-5)
    assert float(logged["dropped/episodic"]) == 0
    step = compiled(lambda state, step: reward.step(state, step))
    for t in range(40):
        state, stepped = step(state, jax.tree.map(lambda part, t=t: part[t], rollout))
        np.testing.assert_array_equal(stepped, bonus[t])
    # Imagination is worth something: without it, the memory grows by fewer.
    real = Reachability(Nowhere(), hash=hash)
    start = compiled(lambda key: real.init(key, spec, ENVS))(jax.random.key(5))
    _, plain, _ = compiled(lambda state, play: real.rollout(state, play))(start, rollout)
    assert plain.max() <= 1
    assert plain.sum() != bonus.sum()


def test_where_no_step_was_made_nothing_is_paid_and_the_next_episode_is_as_if_it_had_not_been():
    spec = PLACES["symbols"][0]
    reward = Reachability(Nowhere())
    rollout = play("symbols", time=6)
    rollout = eqx.tree_at(lambda t: t.truncated, rollout, jnp.zeros((6, ENVS), bool))
    alone = jax.tree.map(lambda part: part[1:], rollout)
    over = jnp.zeros((6, ENVS), bool).at[0].set(True)
    first = {"observation": rollout.before["observation"].at[0].set(rollout.before["observation"][1])}
    ahead = {"observation": rollout.after["observation"].at[0].set(first["observation"][1])}
    resets = Transition(first, rollout.action, ahead, rollout.reward, over, ~over & False, real=~over)
    start = compiled(lambda key: reward.init(key, spec, ENVS))(jax.random.key(0))
    rollout = compiled(lambda state, play: reward.rollout(state, play))
    _, bonus, logged = rollout(start, resets)
    _, expected, _ = rollout(start, alone)
    assert not bonus[0].any()
    np.testing.assert_array_equal(bonus[1:], expected)
    np.testing.assert_allclose(logged["growth"], np.mean(expected), rtol=1e-6)


def test_codes_of_whole_numbers_follow_the_shape_of_the_observation():
    reward = Reachability(Nowhere())
    rows = jnp.arange(24, dtype=jnp.int32).reshape(2, 3, 4)
    np.testing.assert_array_equal(reward.code(rows), exact(rows, ndim=1))
    np.testing.assert_array_equal(reward.code(rows[..., None, None]), exact(rows[..., None, None], ndim=3))


def test_gobi_pays_less_for_the_same_ground_in_later_episodes():
    spec = PLACES["numbers"][0]
    hash = OffsetHash(jax.random.key(0), (2,))
    reward = GoBI(OnlineModel.suited(spec, units=64), Count(hash=hash, capacity=2**12), hash=hash)
    rollout = compiled(lambda state, play: reward.rollout(state, play)[:2])
    learn = compiled(lambda state, key, play: reward.learn(state, key, play)[0])
    state, paid = compiled(lambda key: reward.init(key, spec, ENVS))(jax.random.key(0)), []
    for number in range(12):
        again = play("numbers", seed=number % 2)
        state, bonus = rollout(state, again)
        state = learn(state, jax.random.key(number), again)
        assert np.isfinite(bonus).all()
        paid.append(float(bonus.mean()))
    assert 0 < paid[-1] < 0.7 * paid[2]
