"""Lifelong counts against Python dictionaries."""

from __future__ import annotations

import algorithms
import equinox as eqx
import far_goal
import jax
import numpy as np
import pytest
from recordings import SPEC, compiled

from gobi.envs.minigrid import make
from gobi.memory import SimHash
from gobi.rewards import Count
from gobi.types import Transition


def counted(reward: Count, play: Transition, rollouts: int = 1):
    """The bonuses of so many rollouts that make up a play, and what the last one logged."""
    state = reward.init(jax.random.key(0), SPEC, play.action.shape[1])
    rollout, bonuses, logged = compiled(lambda state, play: reward.rollout(state, play)), [], {}
    for part in np.split(np.arange(len(play.action)), rollouts):
        state, bonus, logged = rollout(state, jax.tree.map(lambda leaf, part=part: leaf[part], play))
        bonuses.append(np.asarray(bonus))
    return np.concatenate(bonuses), logged


@pytest.fixture(scope="module")
def bonuses(played) -> dict[bool, np.ndarray]:
    return {shared: counted(Count(shared=shared), played, rollouts=3)[0] for shared in (False, True)}


@pytest.mark.parametrize("shared", [False, True])
def test_it_pays_one_over_the_root_of_a_dictionarys_count(shared, bonuses, played):
    visits = algorithms.visits(played, shared)
    np.testing.assert_allclose(bonuses[shared], algorithms.lifelong(visits), rtol=3e-7)
    # The counts themselves, without rounding.
    np.testing.assert_array_equal(np.round(bonuses[shared].astype(np.float64) ** -2), visits)


def test_environments_that_share_their_counts_are_paid_less(bonuses):
    assert (bonuses[True] <= bonuses[False]).all()
    assert (bonuses[True] < bonuses[False]).mean() > 0.1


def test_another_view_can_be_counted(played):
    bonus, logged = counted(Count(view="panorama", shared=True), played)
    panoramas = np.asarray(played.after["panorama"]).reshape(bonus.size, -1)
    assert logged["distinct"] == len(np.unique(panoramas, axis=0)) == (bonus == 1).sum()


@pytest.mark.parametrize("shared", [False, True])
def test_full_grids_are_counted_as_a_dictionary_counts_them(shared, recorded):
    env, play = make("MiniGrid-DoorKey-5x5-v0"), recorded("MiniGrid-DoorKey-5x5-v0")
    grids = jax.vmap(jax.vmap(env.full_grid))(play.after["state"])
    play = eqx.tree_at(lambda p: (p.before, p.after), play, ({}, {"full_grid": grids}))
    bonus, _ = counted(Count(view="full_grid", shared=shared), play, rollouts=2)
    visits = algorithms.visits(play, shared, view="full_grid")
    np.testing.assert_array_equal(np.round(bonus.astype(np.float64) ** -2), visits)
    assert (visits > 1).mean() > 0.1


def test_a_simhash_counts_similar_views_together(played):
    projection = SimHash(jax.random.key(0), (7, 7, 3), bits=10)
    bonus, logged = counted(Count(hash=projection, shared=True), played)

    def signs(view):
        return tuple(np.asarray(projection.projection, np.float64) @ view.reshape(-1) > 0)

    np.testing.assert_allclose(
        bonus, algorithms.lifelong(algorithms.visits(played, shared=True, code=signs)), rtol=3e-7
    )
    assert logged["distinct"] < 0.5 * (algorithms.visits(played, shared=True) == 1).sum()


def test_what_does_not_fit_is_told_and_only_the_named_memory_grows(played):
    reward = Count(capacity=8)
    state = reward.init(jax.random.key(0), SPEC, played.action.shape[1])
    rollout = compiled(lambda state, play: reward.rollout(state, play))
    state, _, logged = rollout(state, played)
    assert logged["dropped/lifelong"] > 0
    assert logged["load/lifelong"] > 0.5
    assert reward.grow(state, frozenset({"episodic"})) is state
    assert reward.grow(state, frozenset({"lifelong"})).num_slots == 4 * state.num_slots


@pytest.mark.parametrize("view", ["observation", "full_grid"])
def test_it_leads_to_the_end_of_a_corridor_that_chance_never_reaches(view):
    far_goal.must_beat_no_bonus(Count(view=view), updates=100)
