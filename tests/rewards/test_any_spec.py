"""Every reward on tasks that are not MiniGrid: numbers with Box actions, pictures, symbols."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from any_play import REWARDS, SPECS, play
from recordings import compiled

from gobi.errors import GobiError
from gobi.memory.codes import SimHash
from gobi.rewards import any_embedding, dynamics
from gobi.rewards.count import Count
from gobi.rewards.noveld import NovelD
from gobi.rewards.reward import Positive, Product, check_views
from gobi.rewards.ride import RIDE
from gobi.types import Spec

TIME, ENVS, LESSONS = 14, 2, 30
TRAINED = {"ngu": "inverse_loss", "e3b": "inverse_loss", "rnd": "predictor_loss", "noveld": "predictor_loss"}
TRAINED |= {"ride": "inverse_loss", "icm": "inverse_loss", "ec": "ec/loss"}


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("name", REWARDS)
def test_it_pays_alike_step_by_step_and_learns(name, kind):
    reward, plays = REWARDS[name], play(kind, TIME, ENVS)

    @compiled
    def everything(key, plays):
        state = reward.init(key, SPECS[kind], ENVS)
        lessons = jax.random.split(key, LESSONS)
        state, told = jax.lax.scan(lambda state, key: reward.learn(state, key, plays), state, lessons)
        _, at_once, logged = reward.rollout(state, plays)
        _, by_steps = jax.lax.scan(lambda state, step: reward.step(state, step), state, plays)
        return at_once, by_steps, logged, told

    at_once, by_steps, logged, told = everything(jax.random.key(0), plays)
    assert np.std(at_once) > 0
    # The root of a distance that is none makes much of a rounding error.
    np.testing.assert_allclose(at_once, by_steps, rtol=1e-3, atol=5e-3 if name == "re3" else 1e-4)
    for values in (at_once, *logged.values(), *told.values()):
        assert np.isfinite(values).all()
    if name in TRAINED:
        losses = np.asarray(told[TRAINED[name]])
        assert losses[-5:].mean() < 0.9 * losses[:3].mean(), losses


def test_vectors_are_estimated_and_integers_told_apart():
    for kind, metric in (("numbers", "inverse_error"), ("symbols", "inverse_accuracy")):

        def lesson(plays, kind=kind):
            return dynamics.learn(dynamics.learner(jax.random.key(0), SPECS[kind], "small"), plays)[1]

        logged = jax.eval_shape(lesson, play(kind, 3, 2))
        assert {name for name in logged if name.startswith("inverse")} == {"inverse_loss", metric}


def test_the_forward_model_reads_the_whole_vector():
    network = dynamics.dynamics(jax.random.key(0), SPECS["numbers"], "small")
    here = network.embed(play("numbers", 1, 1).before["observation"][0])
    guesses = [network.predict(here, jnp.array([action])) for action in ((0.5, 0.0), (0.0, 0.5), (-0.5, 0.0))]
    assert all((one != other).any() for one, other in zip(guesses, guesses[1:] + guesses[:1], strict=True))


def test_the_error_of_a_vector_is_in_the_units_of_an_action():
    network = dynamics.dynamics(jax.random.key(0), SPECS["numbers"], "small")
    here = jnp.zeros((1, 32))
    action = network.logits(here, here) + jnp.array([[0.3, 0.3]])
    losses, told = network.inverse_losses(here, here, action)
    np.testing.assert_allclose(losses, [2 * 0.3**2], rtol=1e-5)
    np.testing.assert_allclose(told["inverse_error"], [0.3], rtol=1e-5)


@pytest.mark.parametrize("classes", [5, 300])
def test_symbols_that_differ_embed_differently_however_many_there_are(classes):
    # Of the larger ones a one-hot row would be too long: they are read as binary digits.
    spec = Spec("many", (60,), "int32", 4, 9, classes=classes)
    embedding = any_embedding.any_embedding(jax.random.key(0), spec, "small", 16)
    shorter = 60 * 9 if classes == 300 else 60 * 5
    assert embedding.dense[0].weight.shape == (shorter, 64)
    rows = np.zeros((classes, 60), np.int32)
    rows[:, 7] = np.arange(classes)
    vectors = np.asarray(embedding(jnp.asarray(rows)))
    assert len(np.unique(vectors.round(5), axis=0)) == classes
    assert 0.1 < vectors.std() < 10


@pytest.mark.parametrize("shape", [(42, 42, 3), (84, 60, 1), (2, 30, 3), (210, 160, 3)])
def test_pictures_of_any_size_become_vectors(shape):
    spec = Spec("pictures", shape, "uint8", 4, 9)
    embedding = any_embedding.any_embedding(jax.random.key(0), spec, "small", 16)
    pictures = np.random.default_rng(0).integers(0, 256, (2, 3, *shape), np.uint8)
    vectors = np.asarray(embedding(jnp.asarray(pictures)))
    assert vectors.shape == (2, 3, 16)
    assert 0.01 < vectors.std() < 10


def test_short_vectors_keep_their_distance_from_zero():
    # Without biases, the embedding of 2x would be twice that of x.
    embedding = any_embedding.any_embedding(jax.random.key(0), SPECS["numbers"], "small", 16)
    one, two, nothing = embedding(jnp.array([[0.4, -0.2, 0.1], [0.8, -0.4, 0.2], [0.0, 0.0, 0.0]]))
    assert np.linalg.norm((two - nothing) - 2 * (one - nothing)) > 0.05


def test_views_of_another_shape_are_refused():
    embedding = any_embedding.any_embedding(jax.random.key(0), SPECS["numbers"], "small", 16)
    with pytest.raises(GobiError, match=r"reads observations \(3,\), not \(5, 4\)"):
        embedding(jnp.zeros((5, 4)))


def test_bytes_that_say_nothing_of_themselves_are_refused():
    spec = Spec("ram", (128,), "uint8", 4, 9)
    with pytest.raises(GobiError, match=r"number of classes; ram gives uint8 \[128\]$"):
        any_embedding.kind_of(spec)
    assert any_embedding.kind_of(dataclasses.replace(spec, classes=256)) == "symbols"
    cells = dataclasses.replace(spec, observation_shape=(7, 7, 3))
    assert any_embedding.kind_of(cells) == "view"


@pytest.mark.parametrize("make", [Count, NovelD, RIDE])
def test_a_hash_may_stand_for_observations_that_never_recur(make):
    # All places on one line from the centre share a code of one bit or two.
    hash = SimHash(jax.random.key(0), (3,), bits=1)
    options = {} if make is Count else {"counted": "observation", "network": "small"}
    plays = play("numbers", TIME, ENVS)
    exact, hashed = (make(**options, hash=each) for each in (None, hash))
    paid = []
    for reward in (exact, hashed):
        start = functools.partial(reward.init, spec=SPECS["numbers"], num_envs=ENVS)
        total = compiled(lambda key, start=start, reward=reward: reward.rollout(start(key), plays)[1].sum())
        paid.append(float(total(jax.random.key(0))))
    assert paid[1] < paid[0]


def test_a_view_that_is_missing_is_named_with_what_does_without_it():
    there = frozenset({"observation"})
    privileged = Product(Positive(Count(view="full_grid")), Count())
    for reward, option in ((NovelD(), "counted"), (RIDE(), "counted"), (privileged, "view")):
        with pytest.raises(GobiError, match=f"reads full_grid, .*; use the option {option}=observation$"):
            check_views(reward, there)
        check_views(reward, there | {"full_grid"})
    check_views(NovelD(counted="observation"), there)
