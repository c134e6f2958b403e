"""RIDE against numpy and Python dictionaries, in pieces, for many seeds, and as an explorer."""

from __future__ import annotations

import collections
import functools

import equinox as eqx
import far_goal
import jax
import jax.numpy as jnp
import numpy as np
import numpy_dynamics
import pytest
from recordings import LANES, SPEC, TASKS, compiled

from gobi.envs.minigrid import make
from gobi.errors import GobiError
from gobi.rewards import Reward
from gobi.rewards.ride import RIDE
from gobi.types import Transition

TASK, STEPS = TASKS[0], 120


@pytest.fixture(scope="module")
def play(recorded) -> Transition:
    """Short episodes, with the whole grid as a view."""
    whole, env = recorded(TASK), make(TASK)

    @compiled
    def grids(states):
        return jax.vmap(jax.vmap(env.full_grid))(states)

    short = jax.tree.map(lambda leaf: leaf[:STEPS], whole)
    views = [
        {"observation": seen["observation"], "full_grid": grids(seen["state"])}
        for seen in (short.before, short.after)
    ]
    return eqx.tree_at(lambda p: (p.before, p.after), short, tuple(views))


@functools.cache
def begun(reward: RIDE, seed: int = 0):
    return compiled(lambda key: reward.init(key, SPEC, LANES))(jax.random.key(seed))


@functools.cache
def rollout_of(reward: RIDE):
    return compiled(lambda state, play: reward.rollout(state, play))


@functools.cache
def lesson_of(reward: RIDE):
    return compiled(lambda state, play: reward.learn(state, jax.random.key(0), play))


def paid(reward: RIDE, play: Transition, rollouts: int = 1) -> np.ndarray:
    """The bonuses of so many rollouts that make up a play."""
    state, rollout, bonuses = begun(reward), rollout_of(reward), []
    for part in np.split(np.arange(STEPS), rollouts):
        state, bonus, _ = rollout(state, jax.tree.map(lambda leaf, part=part: leaf[part], play))
        bonuses.append(np.asarray(bonus))
    return np.concatenate(bonuses)


def visits(play: Transition, view: str, first_state: bool = True) -> np.ndarray:
    """N_ep of where each step led, with a dictionary."""
    before, after = np.asarray(play.before[view]), np.asarray(play.after[view])
    done, counts = np.asarray(play.done), np.zeros(play.action.shape)
    for lane in range(LANES):
        met, begins = collections.Counter(), True
        for t in range(len(done)):
            if begins:
                met = collections.Counter({before[t, lane].tobytes(): 1} if first_state else {})
            met[after[t, lane].tobytes()] += 1
            counts[t, lane] = met[after[t, lane].tobytes()]
            begins = done[t, lane]
    return counts


def impact(reward: RIDE, play: Transition) -> np.ndarray:
    """||phi(o_{t+1}) - phi(o_t)||, with numpy."""
    network = begun(reward).learner.network
    before, after = (
        numpy_dynamics.embeddings(network, end["observation"]) for end in (play.before, play.after)
    )
    return np.linalg.norm(after - before, axis=-1)


@pytest.mark.parametrize("kind", ["ride", "small"])
def test_it_pays_the_change_of_the_embedding_over_the_root_of_the_episodic_count(kind, play):
    reward, counts = RIDE(network=kind), visits(play, "full_grid")
    assert np.asarray(play.done).sum() >= 6
    assert counts.max() > 3
    expected = impact(reward, play) / np.sqrt(counts)
    np.testing.assert_allclose(paid(reward, play), expected, rtol=1e-3, atol=1e-5 * expected.max())


def test_a_step_that_changes_nothing_in_view_pays_nothing(play):
    bonus = paid(RIDE(network="small"), play)
    before, after = (np.asarray(end["observation"]) for end in (play.before, play.after))
    same = (before == after).all(axis=(2, 3, 4))
    assert 0 < same.sum() < same.size
    np.testing.assert_allclose(bonus[same], 0, atol=1e-5 * bonus.max())
    assert (bonus[~same] > 1e-3 * bonus.max()).all()


def test_its_options_change_what_is_counted_and_how_the_change_is_measured(play):
    change = impact(RIDE(network="small"), play)
    for options, expected in [
        ({"counted": "observation"}, change / np.sqrt(visits(play, "observation"))),
        ({"first_state": False}, change / np.sqrt(visits(play, "full_grid", first_state=False))),
        ({"norm": "squared"}, change**2 / np.sqrt(visits(play, "full_grid"))),
    ]:
        bonus = paid(RIDE(network="small", **options), play)
        np.testing.assert_allclose(bonus, expected, rtol=2e-3, atol=1e-5 * expected.max())
        assert np.abs(bonus - paid(RIDE(network="small"), play)).max() > 0.01
    assert RIDE().reads == {"observation", "full_grid"}
    assert RIDE(counted="observation").reads == {"observation"}


def test_a_rollout_pays_as_its_pieces_and_as_its_steps_one_by_one(play):
    reward = RIDE(network="small")
    whole = paid(reward, play)
    np.testing.assert_allclose(paid(reward, play, rollouts=6), whole, rtol=1e-5, atol=1e-6)
    _, single, _ = compiled(lambda state, play: Reward.rollout(reward, state, play))(begun(reward), play)
    np.testing.assert_allclose(single, whole, rtol=1e-5, atol=1e-6)


def test_two_seeds_side_by_side_equal_each_alone(play):
    reward = RIDE(network="small")

    def update(rollout, lesson, state):
        state, bonus, logged = rollout(state, play)
        state, learned = lesson(state, play)
        return state, bonus, state.learner.network.embed(play.after["observation"][0]), logged | learned

    alone = [begun(reward, seed) for seed in (0, 1)]
    each = [update(rollout_of(reward), lesson_of(reward), state) for state in alone]
    expected = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
    both = functools.partial(
        update, reward.rollout, lambda state, play: reward.learn(state, jax.random.key(0), play)
    )
    state, *paid = compiled(jax.vmap(both))(jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone))
    jax.tree.map(np.testing.assert_array_equal, state.visits, expected[0].visits)
    for found, wanted in zip(*map(jax.tree.leaves, (paid, list(expected[1:]))), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    assert np.abs(paid[0][0] - paid[0][1]).max() > 0.01


def test_a_lesson_changes_the_embedding_and_not_the_counts(play):
    reward = RIDE(network="small")
    state, _, logged = rollout_of(reward)(begun(reward), play)
    taught, learned = lesson_of(reward)(state, play)
    jax.tree.map(np.testing.assert_array_equal, taught.visits, state.visits)
    assert set(logged) == {"impact", "episodic", "dropped/visits", "load/visits"}
    assert set(learned) == {"inverse_accuracy", "inverse_loss", "forward_loss"}
    np.testing.assert_allclose(logged["episodic"], np.mean(visits(play, "full_grid") ** -0.5), rtol=1e-5)
    np.testing.assert_allclose(logged["impact"], impact(reward, play).mean(), rtol=1e-3)
    change = np.asarray(taught.learner.network.embed(play.after["observation"]))
    assert np.abs(change - np.asarray(state.learner.network.embed(play.after["observation"]))).max() > 1e-4


def test_only_its_own_memory_grows():
    reward = RIDE(network="small")
    state = begun(reward)
    assert reward.grow(state, frozenset({"episodic"})) is state
    assert reward.grow(state, frozenset({"visits"})).visits.num_slots == 4 * state.visits.num_slots


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network": "big"}, "unknown network 'big'"),
        ({"counted": "panorama"}, "unknown view to count 'panorama'"),
        ({"norm": "cubed"}, "unknown norm 'cubed'"),
        ({"units": 0}, "at least one unit"),
        ({"forward": 0.0, "inverse": 0.0}, "must not both be 0"),
        ({"forward": -1.0}, "forward must be at least 0"),
        ({"rate": -1.0}, "rate must be a positive number, got -1.0"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(GobiError, match=message):
        RIDE(**options)


def test_it_leads_to_the_end_of_a_corridor_that_chance_never_reaches():
    far_goal.must_beat_no_bonus(RIDE(network="small"), updates=100)
