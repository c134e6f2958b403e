"""E3B against matrices inverted afresh at every step."""

from __future__ import annotations

import equinox as eqx
import far_goal
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recordings import SPEC, TASKS, compiled

from gobi.errors import GobiError
from gobi.rewards.e3b import E3B
from gobi.types import Transition

SHORT = 90
SMALL = {"network": "small", "units": 8, "relative": False}


@pytest.fixture(scope="module")
def short(recorded) -> Transition:
    """The end of a play, in which episodes end."""
    part = jax.tree.map(lambda leaf: leaf[-SHORT:], recorded(TASKS[0]))
    assert part.done.any()
    return part


@pytest.fixture(scope="module")
def start():
    return E3B(**SMALL).init(jax.random.key(0), SPEC, 3)


def paid(reward: E3B, state, play: Transition, cuts: tuple[int, ...] = ()):
    rollout, bonuses = compiled(lambda state, play: reward.rollout(state, play)), []
    for part in np.split(np.arange(len(play.action)), cuts):
        state, bonus, logged = rollout(state, jax.tree.map(lambda leaf, part=part: leaf[part], play))
        bonuses.append(np.asarray(bonus))
    return np.concatenate(bonuses), state, logged


@pytest.mark.parametrize("ridge", [0.1, 3.0])
def test_it_pays_the_length_in_the_inverse_of_the_episodes_covariance(ridge, short, start):
    reward = E3B(**SMALL, ridge=ridge)
    state = reward.init(jax.random.key(0), SPEC, 3)
    bonus, state, logged = paid(reward, state, short)
    embed = compiled(lambda views: start.learner.network.embed(views))
    before, after = (
        np.asarray(embed(seen["observation"]), np.float64) for seen in (short.before, short.after)
    )
    for lane in range(3):
        c = ridge * np.eye(8)
        for t in range(SHORT):
            c += np.outer(before[t, lane], before[t, lane])
            expected = after[t, lane] @ np.linalg.solve(c, after[t, lane])
            assert bonus[t, lane] == pytest.approx(expected, rel=2e-3, abs=1e-5)
            held = c
            if short.done[t, lane]:
                c = ridge * np.eye(8)
        np.testing.assert_allclose(state.inverse[lane], np.linalg.inv(held), rtol=5e-3, atol=1e-4)
    assert logged["e3b/bonus"] == pytest.approx(bonus.mean(), rel=1e-4)
    assert logged["e3b/largest"] == pytest.approx(bonus.max(), rel=1e-4)


def test_of_one_hot_features_it_is_one_over_the_visits_and_the_ridge(start):
    """The features are put in place of the network: each of eight places has its own axis."""

    class Places(eqx.Module):
        units = 8

        def embed_both(self, before, after):
            return before["observation"], after["observation"]

    state = eqx.tree_at(lambda s: s.learner.network, start, Places())
    path = np.array([0, 1, 0, 1, 2, 2, 2, 0])
    one_hot = jnp.asarray(np.repeat(np.eye(8)[:, None][path], 3, axis=1), jnp.float32)
    nothing = jnp.zeros((7, 3))
    play = Transition(
        {"observation": one_hot[:-1]},
        nothing.astype(jnp.int32),
        {"observation": one_hot[1:]},
        nothing,
        nothing > 0,
        nothing > 0,
    )
    bonus, _, _ = paid(E3B(**SMALL, ridge=0.5), state, play)
    visits = [np.sum(path[: t + 1] == path[t + 1]) for t in range(7)]
    np.testing.assert_allclose(bonus[:, 0], 1 / (np.array(visits) + 0.5), rtol=1e-5)


def test_rollouts_cut_anywhere_pay_the_same(short, start):
    reward = E3B(**SMALL)
    whole, state, _ = paid(reward, start, short)
    pieces, same, _ = paid(reward, start, short, cuts=(30, 60))
    np.testing.assert_allclose(pieces, whole, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(same.inverse, state.inverse, rtol=1e-3, atol=1e-4)
    step = compiled(lambda state, transition: reward.step(state, transition))
    _, bonus = step(start, jax.tree.map(lambda leaf: leaf[0], short))
    np.testing.assert_allclose(bonus, whole[0], rtol=1e-3)


def test_the_features_learn_to_tell_their_own_actions(short):
    reward = E3B(**SMALL, rate=3e-3)
    state = reward.init(jax.random.key(0), SPEC, 3)
    learn = compiled(lambda state, play: reward.learn(state, jax.random.key(0), play))
    losses = []
    for _ in range(40):
        state, logged = learn(state, short)
        losses.append(float(logged["inverse_loss"]))
    assert losses[-1] < 0.7 * losses[0]


def test_a_relative_ridge_is_a_share_of_the_features_variance(short):
    reward = E3B(network="small", units=8, ridge=0.2)
    rollout = compiled(lambda state: reward.rollout(state, short))
    learn = compiled(lambda state: reward.learn(state, jax.random.key(0), short))
    state, variances = reward.init(jax.random.key(0), SPEC, 3), []
    np.testing.assert_array_equal(rollout(state)[1], 0)
    for _ in range(3):
        state, logged = learn(state)
        features = np.asarray(state.learner.network.embed(short.after["observation"]))
        variances.append(features.var(axis=(0, 1)).sum())
    assert logged["e3b/variance"] == pytest.approx(np.mean(variances), rel=1e-3)
    plain = E3B(**SMALL, ridge=float(0.2 * state.variance))
    alone = eqx.tree_at(lambda s: s.learner, plain.init(jax.random.key(0), SPEC, 3), state.learner)
    np.testing.assert_allclose(rollout(state)[1], paid(plain, alone, short)[0], rtol=1e-3, atol=1e-5)
    assert rollout(state)[1].max() > 0.5


def test_episodes_begun_before_the_first_lesson_begin_anew_with_it(short):
    """Their ridge was a share of nothing; the second lesson leaves them as they are."""
    reward = E3B(**{**SMALL, "relative": True})
    _, state, _ = paid(reward, reward.init(jax.random.key(0), SPEC, 3), short)
    lesson = compiled(lambda state: reward.learn(state, jax.random.key(1), short)[0])
    going_on = ~np.asarray(short.done[-1])
    assert going_on.any()
    once = lesson(state)
    assert once.fresh.all()
    _, state, _ = paid(reward, once, short)
    np.testing.assert_array_equal(lesson(state).fresh, ~going_on)


def test_seeds_side_by_side_are_each_as_alone(short):
    reward = E3B(**SMALL)
    keys = jax.random.split(jax.random.key(3))
    states = compiled(jax.vmap(lambda key: reward.init(key, SPEC, 3)))(keys)
    both = compiled(jax.vmap(lambda state: reward.rollout(state, short)[1]))(states)
    for seed in range(2):
        alone, _, _ = paid(reward, jax.tree.map(lambda leaf, seed=seed: leaf[seed], states), short)
        np.testing.assert_allclose(both[seed], alone, rtol=1e-3, atol=1e-5)
    assert (both[0] != both[1]).any()


@pytest.mark.parametrize("options", [{"ridge": 0.0}, {"rate": -1.0}, {"units": 0}, {"network": "large"}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(GobiError):
        E3B(**options)


@pytest.mark.parametrize("network", ["ride", "small"])
def test_it_leads_to_the_end_of_a_corridor_that_chance_never_reaches(network):
    """Features of both, of which those of `ride` begin a thousand times smaller."""
    far_goal.must_beat_no_bonus(E3B(network=network), updates=60)
