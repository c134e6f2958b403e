"""RND and ICM on control tasks: they pay for errors, and then learn from them."""

from __future__ import annotations

import functools

import control_play
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from control_play import ACTIONS, PICTURES, VECTORS

from gobi.agents.rad.replay import Batch
from gobi.errors import GobiError
from gobi.rewards.control import ICM, RND, ControlReward
from gobi.types import Spec

SLOTS = 64
NUMBERS = 64


def started(reward: ControlReward, spec: Spec, seed: int = 0):
    return jax.jit(reward.init, static_argnums=1)(jax.random.key(seed), spec)


@functools.cache
def sampling(reward: ControlReward):
    return jax.jit(reward.at_sampling)


def paid(reward: ControlReward, state, batch):
    return sampling(reward)(state, jax.random.key(2), batch.stored, batch)


def moved(spec: Spec, n: int = NUMBERS, seed: int = 0) -> Batch:
    """Transitions of a task in which an action moves the first two numbers of a vector."""
    rng = np.random.default_rng(seed)
    action = rng.uniform(-1, 1, (n, ACTIONS)).astype(np.float32)
    if spec is VECTORS:
        before = rng.standard_normal((n, 4)).astype(np.float32)
        frames = np.stack([before, before + np.pad(action, [(0, 0), (0, 2)])], axis=1)
    else:
        frames = rng.integers(0, 256, (n, 4, *spec.observation_shape), np.uint8)
    zeros = jnp.zeros(n)
    return Batch(
        index=jnp.arange(n) % SLOTS,
        frames=jnp.asarray(frames),
        action=jnp.asarray(action),
        reward=zeros,
        terminated=zeros > 0,
        stored=zeros,
    )


def through(layers, x: np.ndarray) -> np.ndarray:
    for number, layer in enumerate(layers):
        x = x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias)
        x = x if number == len(layers) - 1 else np.maximum(x, 0)
    return x


def test_rnd_pays_the_squared_error_of_before_the_batch_over_its_deviation():
    reward = RND(hidden=32, capacity=SLOTS)
    state, replay = control_play.filled(reward, PICTURES, SLOTS, 90)
    batch = replay.sample(jax.random.key(1), 16)
    after, bonus, logged = paid(reward, state, batch)
    # The features kept at collection are those of the frames that were reached.
    rows = np.asarray(jax.jit(lambda frames: state.encoder(frames))(batch.frames[:, -1]), np.float64)
    target, predictor = (through(branch.layers.layers, rows) for branch in (state.target, state.predictor))
    novelty = np.sum((predictor - target) ** 2, axis=-1)
    np.testing.assert_allclose(bonus, novelty / logged["novelty_spread"], rtol=1e-3)
    np.testing.assert_allclose(logged["novelty_spread"], np.std(novelty), rtol=0.02)
    np.testing.assert_allclose(logged["predictor_loss"], novelty.mean() / 128, rtol=1e-3)

    same = jax.tree.map(lambda a, b: bool(np.all(a == b)), after, state)
    assert all(jax.tree.leaves((same.encoder, same.target, same.features)))
    assert not any(jax.tree.leaves(same.predictor))

    plain = RND(hidden=32, capacity=SLOTS, norm="plain", normalise=False)
    np.testing.assert_allclose(paid(plain, state, batch)[1], np.sqrt(novelty), rtol=1e-3)


@pytest.mark.parametrize("embedding", ["frozen", "own"])
def test_rnd_pays_less_for_what_it_has_seen_than_for_the_new(embedding):
    reward = RND(
        hidden=32, embedding=embedding, vectors="raw", rate=1e-2, normalise=False, capacity=2 * SLOTS
    )
    state = started(reward, VECTORS)
    known, new = moved(VECTORS), moved(VECTORS, seed=1)
    if embedding == "frozen":
        rows = jnp.concatenate([known.frames[:, 1], new.frames[:, 1] + 3])
        state = eqx.tree_at(lambda s: s.features, state, rows)
    new = eqx.tree_at(lambda b: (b.index, b.frames), new, (new.index + SLOTS, new.frames + 3))
    at_first = [float(np.mean(paid(reward, state, batch)[1])) for batch in (known, new)]
    for _ in range(60):
        state, _, _ = paid(reward, state, known)
    now = [float(np.mean(paid(reward, state, batch)[1])) for batch in (known, new)]
    assert now[0] < 0.1 * at_first[0]
    assert now[1] > 5 * now[0]


def test_rnd_learns_its_own_convolutions_from_the_latest_frame():
    reward = RND(hidden=16, embedding="own", capacity=SLOTS)
    state, batch = started(reward, PICTURES), moved(PICTURES, n=8)
    assert state.features is None
    after, bonus, _ = paid(reward, state, batch)
    assert np.any(
        after.predictor.encoder.convolutions[0].weight != state.predictor.encoder.convolutions[0].weight
    )
    assert np.all(after.target.encoder.convolutions[0].weight == state.target.encoder.convolutions[0].weight)
    earlier = eqx.tree_at(lambda b: b.frames, batch, batch.frames.at[:, :-1].set(0))
    np.testing.assert_array_equal(paid(reward, state, earlier)[1], bonus)


def test_icm_pays_half_the_squared_error_of_before_the_batch_over_its_deviation():
    reward, batch = ICM(hidden=32, vectors="raw"), moved(VECTORS)
    state = started(reward, VECTORS)
    _, bonus, logged = paid(reward, state, batch)
    left, reached, action = (np.asarray(part) for part in (*jnp.unstack(batch.frames, axis=1), batch.action))
    guess = through(state.models.forward.layers, np.concatenate([left, action], axis=1))
    surprise = np.sum((guess - reached) ** 2, axis=1) / 2
    np.testing.assert_allclose(bonus, surprise / logged["surprise_spread"], rtol=1e-3)
    np.testing.assert_allclose(logged["surprise_spread"], np.std(surprise), rtol=0.01)
    did = np.tanh(through(state.models.inverse.layers, np.concatenate([left, reached], axis=1)))
    np.testing.assert_allclose(logged["forward_loss"], surprise.mean(), rtol=1e-3)
    wanted = np.mean(np.sum((did - action) ** 2, axis=1)) / 2
    np.testing.assert_allclose(logged["inverse_loss"], wanted, rtol=1e-3)

    plain = ICM(hidden=32, vectors="raw", norm="plain", normalise=False)
    np.testing.assert_allclose(paid(plain, state, batch)[1], np.sqrt(2 * surprise), rtol=1e-3)


@pytest.mark.parametrize("vectors", ["mlp", "raw"])
def test_icm_learns_what_actions_do(vectors):
    reward = ICM(hidden=64, vectors=vectors, rate=3e-3, normalise=False)
    state = started(reward, VECTORS)
    first = paid(reward, state, moved(VECTORS))
    for turn in range(150):
        state, _, _ = paid(reward, state, moved(VECTORS, seed=turn))
    _, bonus, logged = paid(reward, state, moved(VECTORS, seed=1000))
    assert float(np.mean(bonus)) < 0.3 * float(np.mean(first[1]))
    assert float(logged["inverse_loss"]) < 0.3 * float(first[2]["inverse_loss"])


def test_icm_on_pictures_learns_its_features_or_leaves_them_at_random():
    batch = moved(PICTURES, n=8)
    for embedding in ("learned", "random"):
        reward = ICM(hidden=16, embedding=embedding, frames=3)
        state = started(reward, PICTURES)
        assert state.models.encoder.convolutions[0].weight.shape == (3, 3, 9, 32)
        after, _, logged = paid(reward, state, batch)
        same = jax.tree.map(lambda a, b: bool(np.all(a == b)), after.models, state.models)
        assert not any(jax.tree.leaves(same.forward))
        assert all(jax.tree.leaves(same.encoder)) == (embedding == "random")
        assert set(reward.logs) <= set(logged)
        assert ("inverse_loss" in logged) == (embedding == "learned")


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (RND, {"rate": 0.0}, "rate must be a positive number"),
        (RND, {"hidden": 0}, "hidden must be a positive number"),
        (ICM, {"frames": 0}, "frames must be a positive number"),
        (ICM, {"inverse": -1.0}, "inverse must be at least 0"),
        (ICM, {"inverse": float("nan")}, "inverse must be at least 0"),
        (ICM, {"rate": float("inf")}, "rate must be a positive number"),
        (RND, {"rate": float("nan")}, "rate must be a positive number"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make, options, message):
    with pytest.raises(GobiError, match=message):
        make(**options)
