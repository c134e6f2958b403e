"""ICM against numpy, in pieces, for many seeds, and how its surprise wears off."""

from __future__ import annotations

import functools

import equinox as eqx
import far_goal
import jax
import jax.numpy as jnp
import numpy as np
import numpy_dynamics
import pytest
from recordings import SPEC, compiled

from gobi.errors import GobiError
from gobi.rewards import Reward
from gobi.rewards.icm import ICM
from gobi.types import Transition

ENVS = 12


@pytest.fixture(scope="module")
def play(played) -> Transition:
    """Every fifth step of all four tasks."""
    views = [{"observation": seen["observation"]} for seen in (played.before, played.after)]
    bare = eqx.tree_at(lambda p: (p.before, p.after), played, tuple(views))
    return jax.tree.map(lambda leaf: leaf[::5], bare)


@functools.cache
def begun(reward: ICM, seed: int = 0):
    return compiled(lambda key: reward.init(key, SPEC, ENVS))(jax.random.key(seed))


def paid(reward: ICM, play: Transition) -> np.ndarray:
    return np.asarray(compiled(lambda state: reward.rollout(state, play)[1])(begun(reward)))


def lessons(reward: ICM, state, play: Transition, count: int):
    """The state after so many lessons on the same play, and what each of them logged."""

    def lesson(state, _):
        return reward.learn(state, jax.random.key(0), play)

    return jax.lax.scan(lesson, state, length=count)


@pytest.mark.parametrize("kind", ["ride", "small"])
def test_it_pays_half_the_squared_error_of_the_forward_model_or_the_plain_one(kind, play):
    reward = ICM(network=kind)
    network = begun(reward).network
    ends = [numpy_dynamics.embeddings(network, end["observation"]) for end in (play.before, play.after)]
    error = numpy_dynamics.forward_error(network, *ends, play.action)
    assert error.std() > 0
    np.testing.assert_allclose(paid(reward, play), error**2 / 2, rtol=1e-3)
    np.testing.assert_allclose(paid(ICM(network=kind, norm="plain"), play), error, rtol=1e-3)


def test_the_forward_loss_is_the_bonus_itself_and_weighs_a_fifth(play):
    reward, doubled = ICM(network="small"), ICM(network="small", forward=0.4)
    # Few steps, so that no gradient is clipped.
    play = jax.tree.map(lambda leaf: leaf[::10], play)
    one, other = (
        compiled(lambda state, r=r: r.learn(state, jax.random.key(0), play))(begun(reward))
        for r in (reward, doubled)
    )
    # The error is logged as it is, before weight and half.
    np.testing.assert_allclose(one[1]["forward_loss"] / 2, paid(reward, play).mean(), rtol=1e-4)
    roots = [jnp.sqrt(state.optimiser.squares.forward.output.bias) for state, _ in (one, other)]
    np.testing.assert_allclose(2 * roots[0], roots[1], rtol=1e-3)
    # Of 0.2 ||e||^2 / 2, summed over time and averaged over environments, the last bias has this slope.
    network = begun(reward).network
    ends = [numpy_dynamics.embeddings(network, end["observation"]) for end in (play.before, play.after)]
    predicted = np.asarray(network.predict(jnp.float32(ends[0]), play.action))
    slope = 0.2 * (predicted - ends[1]).sum(axis=(0, 1)) / ENVS
    np.testing.assert_allclose(roots[0], 0.1 * np.abs(slope), rtol=1e-2, atol=1e-5)


def test_surprise_wears_off_where_the_agent_has_been(play):
    reward = ICM(network="small", rate=3e-3)
    known, new = (
        jax.tree.map(lambda leaf, lane=lane: leaf[:, lane], play) for lane in (slice(0, 9), slice(9, 12))
    )
    before = begun(reward)
    after, logged = compiled(lambda state: lessons(reward, state, known, 60))(before)
    assert logged["inverse_accuracy"][-1] > logged["inverse_accuracy"][0] + 0.2

    @compiled
    def surprise(state, play):
        return reward.rollout(state, play)[2]["surprise"]

    falls = [surprise(after, part) / surprise(before, part) for part in (known, new)]
    assert falls[0] < 0.5
    assert falls[1] > 2 * falls[0]


def test_a_rollout_pays_as_its_pieces_and_as_its_steps_one_by_one(play):
    reward = ICM(network="small")
    whole = paid(reward, play)
    halves = [
        paid(reward, jax.tree.map(lambda leaf, h=h: leaf[h], play)) for h in (slice(0, 20), slice(20, 60))
    ]
    np.testing.assert_allclose(np.concatenate(halves), whole, rtol=1e-5, atol=1e-6)
    _, single, _ = compiled(lambda state: Reward.rollout(reward, state, play))(begun(reward))
    np.testing.assert_allclose(single, whole, rtol=1e-5, atol=1e-6)


def test_two_seeds_side_by_side_equal_each_alone(play):
    reward = ICM(network="small", rate=1e-3)

    def twice(state):
        state, logged = lessons(reward, state, play, 2)
        return reward.rollout(state, play)[1], logged

    alone = [begun(reward, seed) for seed in (0, 1)]
    one = compiled(twice)
    expected = jax.tree.map(lambda *leaves: np.stack(leaves), *(one(state) for state in alone))
    together = compiled(jax.vmap(twice))(jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone))
    for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-3)
    assert np.abs(together[0][0] - together[0][1]).max() > 0.01


def test_it_reads_the_view_alone_and_refuses_what_cannot_be():
    assert ICM().reads == {"observation"}
    for options in ({"network": "big"}, {"norm": "half"}, {"units": -1}, {"forward": -0.1}):
        with pytest.raises(GobiError):
            ICM(**options)


def test_it_leads_to_the_end_of_a_corridor_that_chance_never_reaches():
    far_goal.must_beat_no_bonus(ICM(network="small"), updates=240)
