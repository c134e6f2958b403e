"""RE3 against a list of the last features, searched by brute force."""

from __future__ import annotations

import far_goal
import jax
import numpy as np
import pytest
from recordings import SPEC, TASKS, compiled
from scipy.spatial.distance import cdist

from gobi.errors import GobiError
from gobi.rewards.re3 import RE3
from gobi.types import Spec, Transition

SHORT, ENVS = 60, 3


@pytest.fixture(scope="module")
def short(recorded) -> Transition:
    return jax.tree.map(lambda leaf: leaf[-SHORT:], recorded(TASKS[0]))


def paid(reward: RE3, play: Transition, cuts: tuple[int, ...] = ()):
    state, bonuses = reward.init(jax.random.key(0), SPEC, ENVS), []
    rollout = compiled(lambda state, play: reward.rollout(state, play))
    for part in np.split(np.arange(len(play.action)), cuts):
        state, bonus, logged = rollout(state, jax.tree.map(lambda leaf, part=part: leaf[part], play))
        bonuses.append(np.asarray(bonus))
    return np.concatenate(bonuses), state, logged


def spread(told: list[float]) -> float:
    """The standard deviation, with the weight of a ten-thousandth observation for one around 0."""
    least = 1e-4
    count = least + len(told)
    mean = np.sum(told) / count
    return np.sqrt((least * (1 + mean**2) + np.sum(np.square(np.array(told) - mean))) / count)


def by_hand(reward: RE3, play: Transition) -> np.ndarray:
    """A list of all features so far; each step is compared with the last ones, then entered."""
    encoder = reward.init(jax.random.key(0), SPEC, ENVS).encoder
    features = np.asarray(compiled(lambda views: encoder(views))(play.after["observation"]), np.float64)
    memory, bonus, told = [], np.zeros(play.action.shape), []
    for t in range(len(bonus)):
        last, apart = memory[-reward.room :], np.zeros(ENVS)
        if len(last) >= reward.k:
            nearest = np.sort(cdist(features[t], last), axis=1)[:, : reward.k]
            apart = nearest[:, -1] if reward.neighbours == "kth" else nearest.mean(axis=1)
            told += apart.tolist()
        bonus[t] = np.log(apart + 1) if reward.form == "log" else apart / spread(told)
        memory += list(features[t])
    return bonus


@pytest.mark.parametrize(
    "options",
    [
        {"room": 1000},
        {"room": 40, "neighbours": "mean"},
        {"room": 41, "k": 5, "form": "over_std"},
        {"room": 1000, "inputs": "onehot", "units": 16},
    ],
)
def test_it_pays_by_the_distance_to_the_nearest_of_the_last_ones(options, short):
    reward = RE3(**options)
    bonus, _, logged = paid(reward, short)
    expected = by_hand(reward, short)
    # A root makes much of the rounding of a distance that is nearly nothing.
    np.testing.assert_allclose(bonus, expected, atol=5e-3, rtol=1e-3)
    assert (bonus[0] == 0).all()
    assert bonus.max() > 0.1
    assert logged["re3/bonus"] == pytest.approx(expected.mean(), rel=1e-2)


def test_the_options_matter(short):
    plain, mean, over, little = (
        paid(RE3(**options), short)[0]
        for options in (
            {"room": 200},
            {"room": 200, "neighbours": "mean"},
            {"form": "over_std"},
            {"room": 20},
        )
    )
    assert (mean <= plain + 1e-6).all()
    for other in (mean, over, little):
        assert np.abs(other - plain).max() > 0.05
    # Who remembers less finds neighbours further off.
    assert (little >= plain - 5e-3).all()


@pytest.mark.parametrize("room", [30, 1000])
def test_rollouts_cut_anywhere_pay_the_same(room, short):
    """With room for 30, a rollout of 20 steps in three environments brings more than there is room for."""
    reward = RE3(room=room, form="over_std")
    whole, state, _ = paid(reward, short)
    pieces, same, _ = paid(reward, short, cuts=(20, 40))
    np.testing.assert_allclose(pieces, whole, atol=5e-3, rtol=1e-3)
    np.testing.assert_allclose(same.buffer, state.buffer, atol=1e-6)
    assert same.added == state.added == (180 if room == 1000 else 30)
    np.testing.assert_allclose(same.squares, state.squares, rtol=1e-3)


def test_nothing_about_it_is_learned(short):
    reward = RE3()
    state = reward.init(jax.random.key(0), SPEC, ENVS)
    assert reward.learn(state, jax.random.key(1), short) == (state, {})


def test_seeds_side_by_side_are_each_as_alone(short):
    reward = RE3(room=100)
    keys = jax.random.split(jax.random.key(3))
    states = compiled(jax.vmap(lambda key: reward.init(key, SPEC, ENVS)))(keys)
    rollout = lambda state: reward.rollout(state, short)[1]  # noqa: E731
    both, alone = compiled(jax.vmap(rollout))(states), compiled(rollout)
    for seed in range(2):
        single = alone(jax.tree.map(lambda leaf, seed=seed: leaf[seed], states))
        np.testing.assert_allclose(both[seed], single, atol=5e-3)
    assert (both[0] != both[1]).any()


@pytest.mark.parametrize("options", [{"k": 0}, {"room": 2}, {"form": "root"}, {"neighbours": "all"}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(GobiError):
        RE3(**options)


def test_bytes_of_which_no_more_is_known_are_refused():
    with pytest.raises(GobiError, match=r"number of classes; memory gives uint8 \[128\]$"):
        RE3().init(jax.random.key(0), Spec("memory", (128,), "uint8", 7, 100), ENVS)


def test_it_leads_to_the_end_of_a_corridor_that_chance_never_reaches():
    far_goal.must_beat_no_bonus(RE3(room=1000))
