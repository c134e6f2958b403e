"""RE3 on control tasks: what its code pays, from everything that is in the replay."""

from __future__ import annotations

import control_play
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from control_play import PICTURES, VECTORS
from sklearn.neighbors import NearestNeighbors

from gobi.errors import GobiError
from gobi.rewards.control import RE3, running
from gobi.types import Spec

SLOTS = 64


def starts(replay) -> np.ndarray:
    """The slots from which a transition starts, as the replay itself has them."""
    newest, slots = int(replay.written) - 1, replay.slots
    listed = np.asarray(replay.starts)
    return np.array([frame % slots for frame in listed if frame >= 0 and frame > newest - slots])


def test_the_features_are_those_of_the_frames_in_the_replay():
    def watch(state, replay):
        there = np.flatnonzero(state.features.there)
        assert sorted(there) == sorted(starts(replay))
        np.testing.assert_array_equal(
            np.asarray(state.features.rows)[there], np.asarray(replay.frames)[there]
        )

    reward = RE3(vectors="raw", capacity=SLOTS)
    _, replay = control_play.filled(reward, VECTORS, SLOTS, 250, watch=watch)
    assert int(replay.written) > 4 * SLOTS


@pytest.mark.parametrize("spec", [PICTURES, VECTORS])
def test_a_replayed_transition_earns_its_distance_over_the_deviation(spec):
    reward = RE3(k=3, capacity=SLOTS, statistics="welford")
    state, replay = control_play.filled(reward, spec, SLOTS, 110)
    batch = replay.sample(jax.random.key(1), 24)
    after, bonus, logged = jax.jit(reward.at_sampling)(state, jax.random.key(2), batch.stored, batch)

    rows = np.asarray(jax.jit(lambda frames: state.encoder(frames))(replay.frames), np.float64)
    assert rows.shape == (SLOTS, 50)
    neighbours = NearestNeighbors(n_neighbors=4, algorithm="brute").fit(rows[starts(replay)])
    apart = neighbours.kneighbors(rows[batch.index])[0][:, -1]
    assert apart.min() > 0
    np.testing.assert_allclose(bonus, apart / logged["re3/spread"], rtol=1e-4)
    np.testing.assert_allclose(logged["re3/distance"], apart.mean(), rtol=1e-4)
    # It begins at 1, with the weight of a ten-thousandth of a number.
    np.testing.assert_allclose(logged["re3/spread"], np.std(apart), rtol=1e-2)

    log = jax.jit(RE3(k=3, capacity=SLOTS, form="log").at_sampling)
    paid = log(state, jax.random.key(2), batch.stored, batch)[1]
    np.testing.assert_allclose(paid, np.log(apart + 1), rtol=1e-4)
    # Replayed again, the deviation is of both batches.
    again = jax.jit(reward.at_sampling)(after, jax.random.key(2), batch.stored, batch)[0]
    np.testing.assert_allclose(again.running.count, 48, rtol=1e-5)


def test_frames_that_were_met_often_earn_nothing():
    reward = RE3(capacity=SLOTS)
    state, replay = control_play.filled(reward, PICTURES, SLOTS, 60, same=True)
    batch = replay.sample(jax.random.key(1), 24)
    _, bonus, _ = jax.jit(reward.at_sampling)(state, jax.random.key(2), batch.stored, batch)
    assert np.all(np.asarray(bonus) == 0)


def test_nothing_is_paid_or_stored_at_collection():
    reward = RE3(capacity=SLOTS)
    _, replay = control_play.filled(reward, VECTORS, SLOTS, 30)
    assert np.all(np.asarray(replay.stored) == 0)


def spreads(statistics: running.Statistics, batches: np.ndarray) -> np.ndarray:
    def more(state, numbers):
        state = running.update(state, numbers, statistics)
        return state, state.deviation

    return np.asarray(jax.lax.scan(more, running.begin(), jnp.asarray(batches, jnp.float32))[1])


def test_welford_is_the_deviation_of_everything_so_far():
    batches = np.random.default_rng(0).normal(2, 0.5, (200, 16)) + np.linspace(0, 3, 200)[:, None]
    wanted = [np.std(batches[:n]) for n in (2, 20, 200)]
    np.testing.assert_allclose(spreads("welford", batches)[[1, 19, 199]], wanted, rtol=1e-3)


def test_the_mistake_of_the_code_inflates_the_deviation_for_some_hundred_updates():
    """Numbers of a simulation of that code, with batches of 512 and a deviation of 0.1."""
    batches = np.random.default_rng(0).normal(1, 0.1, (500, 512))
    found = spreads("as_coded", batches)[[1, 9, 99, 499]]
    np.testing.assert_allclose(found, [0.52, 0.32, 0.14, 0.11], atol=0.01)
    np.testing.assert_allclose(spreads("welford", batches)[[1, 499]], 0.1, atol=0.01)


def test_the_mistake_leaves_out_what_differs_between_batches():
    batches = np.random.default_rng(0).normal(0, 0.1, (3000, 64)) + np.linspace(0, 5, 3000)[:, None]
    np.testing.assert_allclose(spreads("welford", batches)[-1], np.std(batches), rtol=1e-2)
    assert spreads("as_coded", batches)[-1] < 0.15


@pytest.mark.parametrize("options", [{"k": 0}, {"units": 0}, {"capacity": 3}])
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(GobiError, match="k and units must be at least 1"):
        RE3(**options)


def test_other_observations_are_refused():
    spec = Spec("cells", (7, 7), "uint8", 0, 10, action_size=1)
    with pytest.raises(GobiError, match="cells gives uint8"):
        RE3().init(jax.random.key(0), spec)
