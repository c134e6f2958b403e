"""NGU's episodic bonus against a loop in NumPy over one episode's list of embeddings."""

from __future__ import annotations

from types import SimpleNamespace

import equinox as eqx
import far_goal
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recordings import SPEC, TASKS, compiled
from scipy.spatial.distance import cdist

from gobi.errors import GobiError
from gobi.rewards.ngu import NGU
from gobi.types import Spec, Transition

SHORT = 90
SMALL = {"network": "small", "units": 8}


@pytest.fixture(scope="module")
def short(recorded) -> Transition:
    """The end of a play, in which episodes end."""
    part = jax.tree.map(lambda leaf: leaf[-SHORT:], recorded(TASKS[0]))
    assert part.done.any()
    return part


@pytest.fixture(scope="module")
def start():
    return NGU(**SMALL).init(jax.random.key(0), SPEC, 3)


def paid(reward: NGU, state, play: Transition, cuts: tuple[int, ...] = ()):
    rollout, bonuses = compiled(lambda state, play: reward.rollout(state, play)), []
    for part in np.split(np.arange(len(play.action)), cuts):
        state, bonus, logged = rollout(state, jax.tree.map(lambda leaf, part=part: leaf[part], play))
        bonuses.append(np.asarray(bonus))
    return np.concatenate(bonuses), state, logged


def by_hand(reward: NGU, state, play: Transition) -> np.ndarray:
    """The paper's algorithm 1, one environment after the other."""
    embed = compiled(lambda views: state.learner.network.embed(views))
    before, after = (np.asarray(embed(seen["observation"])) for seen in (play.before, play.after))
    left, reached = (np.asarray(seen["observation"]) for seen in (play.before, play.after))
    bonus = np.zeros(play.action.shape)
    for lane in range(bonus.shape[1]):
        memory, views, means = [], [], []
        for t in range(len(bonus)):
            memory.append(before[t, lane])
            views.append(left[t, lane])
            # Equal views are at no distance, whatever rounding has made of their features.
            apart = cdist([after[t, lane]], memory, "sqeuclidean")[0]
            apart[[np.array_equal(view, reached[t, lane]) for view in views]] = 0
            squares = np.sort(apart)[: reward.k]
            means.append(squares.mean())
            ratio = np.maximum(squares / (np.mean(means) or 1) - reward.cluster, 0)
            s = np.sqrt(np.sum(reward.epsilon / (ratio + reward.epsilon))) + reward.c
            bonus[t, lane] = 0 if s > reward.s_max else 1 / s
            if play.done[t, lane]:
                memory, views = [], []
    return bonus


@pytest.mark.parametrize("options", [{}, {"k": 3, "epsilon": 0.1, "cluster": 0.1, "c": 0.5, "s_max": 1.8}])
def test_it_pays_what_the_algorithm_pays_step_by_step(options, short, start):
    reward = NGU(**SMALL, **options)
    bonus, _, logged = paid(reward, start, short)
    expected = by_hand(reward, start, short)
    np.testing.assert_allclose(bonus, expected, rtol=2e-3)
    assert logged["ngu/bonus"] == pytest.approx(expected.mean(), rel=1e-3)
    # Beyond s_max nothing is paid: that occurs only where it is low.
    assert (expected == 0).any() == (reward.s_max < 8)


def test_coming_back_pays_less_than_what_is_new(short, start):
    bonus, _, _ = paid(NGU(**SMALL), start, short)
    same = (short.before["observation"] == short.after["observation"]).all(axis=(-3, -2, -1))
    assert bonus[np.asarray(same)].max() <= 1
    assert bonus.max() > 3


class LastDigits(eqx.Module):
    """Features that differ in their last digits alone, as those of equal views may."""

    def embed_both(self, before, after):
        left = jnp.ones((*before["observation"].shape[:2], 8)) / 3
        return left, left * (1 + 2e-7)


def test_what_differs_by_rounding_is_the_same_from_the_first_step_on(short, start):
    standing = eqx.tree_at(lambda s: s.learner, start, SimpleNamespace(network=LastDigits()))
    bonus = NGU(**SMALL).rollout(standing, jax.tree.map(lambda leaf: leaf[:5], short))[1]
    # Taken for different, they would be paid near a hundred.
    assert np.asarray(bonus).max() <= 1


def test_rollouts_cut_anywhere_pay_the_same(short, start):
    reward = NGU(**SMALL)
    whole, state, _ = paid(reward, start, short)
    pieces, same, _ = paid(reward, start, short, cuts=(30, 60))
    np.testing.assert_allclose(pieces, whole, rtol=1e-3)
    np.testing.assert_array_equal(same.held, state.held)
    for lane, held in enumerate(state.held):
        np.testing.assert_allclose(same.memory[lane, :held], state.memory[lane, :held], atol=1e-6)
    step = compiled(lambda state, transition: reward.step(state, transition))
    _, bonus = step(start, jax.tree.map(lambda leaf: leaf[0], short))
    np.testing.assert_allclose(bonus, whole[0], rtol=1e-3)


def test_a_memory_has_room_for_the_longest_episode_and_not_more(short):
    reward, spec = NGU(**SMALL), Spec("short", (7, 7, 3), "uint8", 7, max_steps=SHORT)
    never = jnp.zeros_like(short.done)
    endless = Transition(short.before, short.action, short.after, short.reward, never, never)
    state = reward.init(jax.random.key(0), spec, 3)
    assert state.memory.shape == (3, SHORT, 8)
    _, state, _ = paid(reward, state, endless)
    np.testing.assert_array_equal(state.held, SHORT)


def test_the_embedding_learns_to_tell_its_own_actions(short):
    reward = NGU(**SMALL, rate=3e-3)
    state = reward.init(jax.random.key(0), SPEC, 3)
    learn = compiled(lambda state, play: reward.learn(state, jax.random.key(0), play))
    losses = []
    for _ in range(40):
        state, logged = learn(state, short)
        losses.append(float(logged["inverse_loss"]))
    assert losses[-1] < 0.7 * losses[0]
    assert "forward_loss" not in logged


def test_seeds_side_by_side_are_each_as_alone(short):
    reward = NGU(**SMALL)
    keys = jax.random.split(jax.random.key(3))
    states = compiled(jax.vmap(lambda key: reward.init(key, SPEC, 3)))(keys)
    both = compiled(jax.vmap(lambda state: reward.rollout(state, short)[1]))(states)
    for seed in range(2):
        alone, _, _ = paid(reward, jax.tree.map(lambda leaf, seed=seed: leaf[seed], states), short)
        np.testing.assert_allclose(both[seed], alone, rtol=1e-3)
    assert (both[0] != both[1]).any()


@pytest.mark.parametrize("options", [{"k": 0}, {"epsilon": 0.0}, {"cluster": -1.0}, {"network": "large"}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(GobiError):
        NGU(**options)


def test_it_leads_to_the_end_of_a_corridor_that_chance_never_reaches():
    far_goal.must_beat_no_bonus(NGU(network="small"), updates=60)
