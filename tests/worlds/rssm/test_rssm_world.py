"""The RSSM as a world: filtering, imagining, one step of learning, options, pictures."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gobi.errors import GobiError
from gobi.types import Spec
from gobi.worlds.rssm import RSSM, Sizes, drawing, shrink

SPEC = Spec("film", (64, 64, 3), "uint8", num_actions=0, max_steps=10, action_size=1)
SMALL = Sizes(depth=2, deterministic=8, stochastic=4, hidden=6)
WORLD = RSSM(sizes=SMALL)
WORLD_OF_MEANS = RSSM(sizes=SMALL, prior="mean")
key = jax.random.key(0)


@pytest.fixture(scope="module")
def ws(started):
    return started(WORLD, SPEC)


@pytest.fixture(scope="module")
def episode(film):
    frames, actions = film(np.random.default_rng(0), 1, 5)
    return jnp.asarray(frames[0]), jnp.asarray(actions[0])


@pytest.fixture(scope="module")
def belief(ws, episode):
    return jax.jit(WORLD.observe)(ws, WORLD.first_belief(), episode[1][0], episode[0][0], key)


def test_filtering_along_an_episode_gives_the_beliefs_of_the_training_unroll(ws, episode):
    frames, actions = episode
    keys = jax.random.split(key, len(frames))
    noise = jnp.stack([jax.random.normal(one, (1, SMALL.stochastic)) for one in keys])

    @jax.jit
    def unrolled_by(network):
        embeddings = network.encoder(shrink(frames))[:, None]
        return network.dynamics.unroll(actions[:, None], embeddings, noise)[0]

    unrolled = unrolled_by(ws.network)
    observe = jax.jit(WORLD.observe)
    belief = WORLD.first_belief((1,))
    for step, one in enumerate(keys):
        belief = observe(ws, belief, actions[step][None], frames[step][None], one)
        np.testing.assert_allclose(belief.deterministic, unrolled.deterministic[step], atol=1e-5)
        np.testing.assert_allclose(belief.stochastic, unrolled.stochastic[step], atol=1e-5)


def test_a_sequence_begins_from_nothing():
    first = WORLD.first_belief()
    assert first.deterministic.shape == (8,)
    assert first.stochastic.shape == (4,)
    assert not np.any(first.features)


def test_it_imagines_n_futures_of_k_steps(ws, belief):
    world = dataclasses.replace(WORLD, actions=4, steps=3)
    frames = jax.jit(world.imagine)(ws, belief, key)
    assert frames.shape == (world.predictions, 64, 64, 3) == (12, 64, 64, 3)
    assert len(np.unique(np.asarray(frames).reshape(12, -1), axis=0)) == 12


class Recording(RSSM):
    """Writes down what is tried."""

    def follow(self, ws, belief, action, key):
        TRIED.append(action)
        return super().follow(ws, belief, action, key)


TRIED: list[jax.Array] = []


def imagined(world, ws, belief):
    """What a world imagines, and the actions that it tried for it."""

    @jax.jit
    def both(ws, belief, key):
        TRIED.clear()
        return world.imagine(ws, belief, key), jnp.stack(TRIED)

    return both(ws, belief, key)


def test_every_step_of_every_future_takes_a_fresh_action(ws, belief):
    _, tried = imagined(Recording(actions=40, steps=3, sizes=SMALL), ws, belief)
    assert tried.shape == (3, 40, 1)
    assert len(np.unique(tried)) == 120
    assert -1 <= tried.min() < -0.9
    assert 0.9 < tried.max() <= 1
    assert abs(tried.mean()) < 4 / np.sqrt(3 * 120)


def test_normal_actions_are_cut_off_at_what_an_action_may_be(ws, belief):
    _, tried = imagined(Recording(actions=300, draws="normal", sizes=SMALL), ws, belief)
    within = np.abs(tried) < 1
    assert np.abs(tried).max() == 1
    # 68.3 % of a normal distribution are within one deviation.
    assert abs(within.mean() - 0.683) < 0.1
    assert abs((np.abs(tried) < 0.5).mean() - 0.383) < 0.1


def test_a_longer_future_goes_on_from_the_shorter_one(ws, belief):
    world = Recording(actions=2, steps=2, prior="mean", sizes=SMALL)
    frames, tried = imagined(world, ws, belief)
    follow = jax.jit(lambda belief, action: WORLD_OF_MEANS.follow(ws, belief, action, key))
    both = jax.tree.map(lambda part: jnp.stack([part, part]), belief)
    for step, action in enumerate(tried):
        both = follow(both, action)
        np.testing.assert_allclose(frames[2 * step : 2 * step + 2], WORLD.decode(ws, both), atol=1e-5)


def test_the_mean_of_the_prior_is_not_drawn(ws, belief):
    action = jnp.array([0.5])
    one, other = (WORLD_OF_MEANS.follow(ws, belief, action, jax.random.key(seed)) for seed in (1, 2))
    np.testing.assert_array_equal(one.stochastic, other.stochastic)
    one, other = (WORLD.follow(ws, belief, action, jax.random.key(seed)) for seed in (1, 2))
    np.testing.assert_array_equal(one.deterministic, other.deterministic)
    assert np.all(one.stochastic != other.stochastic)


def test_what_stands_for_the_present_is_the_frame_or_its_reconstruction(ws, belief, episode):
    frame = episode[0][0]
    real = WORLD.present(ws, belief, frame)
    np.testing.assert_array_equal(real, shrink(frame))
    made = dataclasses.replace(WORLD, hashed="reconstructed").present(ws, belief, frame)
    np.testing.assert_array_equal(made, WORLD.decode(ws, belief))
    assert not np.allclose(real, made)


@pytest.fixture(scope="module")
def lessons(ws, film):
    """The state after one gradient step, and its measures, by precision."""
    frames, actions = (jnp.asarray(part) for part in film(np.random.default_rng(1), 2, 3))
    worlds = {
        "float32": dataclasses.replace(WORLD, clip=0.5),
        "bfloat16": dataclasses.replace(WORLD, precision="bfloat16"),
    }
    return {name: jax.jit(world.learn)(ws, key, frames, actions) for name, world in worlds.items()}


def test_a_lesson_is_one_step_of_adam_at_its_rate(ws, lessons):
    learned, _ = lessons["float32"]
    assert int(learned.learned) == 1
    changes = jax.tree.map(lambda new, old: jnp.max(jnp.abs(new - old)), learned.network, ws.network)
    assert max(map(float, jax.tree.leaves(changes))) == pytest.approx(6e-4, rel=0.01)


def test_a_gradient_longer_than_the_clip_is_cut(lessons):
    for name, clip in (("float32", 0.5), ("bfloat16", 100.0)):
        learned, measures = lessons[name]
        # After one step, Adam's mean is a tenth of the gradient that it was given.
        given = 10 * float(optax.tree.norm(optax.tree.get(learned.optimiser, "mu")))
        length = float(measures["world/gradient"])
        assert length > 0.5
        assert given == pytest.approx(min(length, clip), rel=1e-3)


def test_half_precision_is_for_products_alone(lessons):
    learned, measures = lessons["bfloat16"]
    assert {leaf.dtype for leaf in jax.tree.leaves(learned.network)} == {np.dtype("float32")}
    exact = lessons["float32"][1]
    for name in ("world/loss", "world/kl", "world/pixel_error", "world/gradient"):
        assert float(measures[name]) == pytest.approx(float(exact[name]), rel=0.02)
    assert float(measures["world/kl"]) != float(exact["world/kl"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(prior="mode"), "prior must be one of sample, mean"),
        (dict(hashed="imagined"), "hashed must be one of real, reconstructed"),
        (dict(precision="float16"), "precision must be one of float32, bfloat16"),
        (dict(steps=-1), "at least 1 action and 0 steps"),
    ],
)
def test_options_that_do_not_exist_are_refused(wrong, message):
    with pytest.raises(GobiError, match=message):
        RSSM(**wrong)


def test_tasks_without_pictures_or_vector_actions_are_refused():
    for changed in (dict(observation_shape=(5,)), dict(action_size=0)):
        with pytest.raises(GobiError, match="needs pictures and vector actions"):
            WORLD.init(key, dataclasses.replace(SPEC, **changed))


def test_it_starts_with_the_weights_of_its_sizes(ws):
    made = jax.eval_shape(lambda: WORLD.init(key, SPEC))
    assert jax.tree.map(jnp.shape, made) == jax.tree.map(jnp.shape, ws)


def test_a_picture_shows_what_the_model_makes_of_an_episode(ws, episode, tmp_path):
    path = tmp_path / "made" / "world.png"
    drawing.picture(path, WORLD, ws, *episode, key, count=3)
    assert path.read_bytes().startswith(b"\x89PNG")
    shown = drawing.looked(WORLD, ws, *episode, jnp.array([0, 4]), key)
    assert shown.shape == (4, 2, 64, 64, 3)
    np.testing.assert_allclose(shown[0], shrink(episode[0][jnp.array([0, 4])]), atol=1e-6)


def test_pictures_are_png_and_of_something(ws, episode, tmp_path):
    with pytest.raises(GobiError, match=r"must end in \.png"):
        drawing.picture(tmp_path / "world.jpg", WORLD, ws, *episode, key)
    with pytest.raises(GobiError, match="without frames"):
        drawing.picture(tmp_path / "world.png", WORLD, ws, episode[0][:0], episode[1][:0], key)
