"""The learned features against networks worked out with numpy, and what one step of learning does."""

from __future__ import annotations

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy_dynamics
import pytest
from recordings import SPEC, compiled

from gobi.errors import GobiError
from gobi.rewards import dynamics
from gobi.types import Transition

PARTS = ("embedding", "forward", "inverse")


@pytest.fixture(scope="module")
def play(played) -> Transition:
    """Every tenth step of all four tasks."""
    views = [{"observation": seen["observation"]} for seen in (played.before, played.after)]
    bare = eqx.tree_at(lambda p: (p.before, p.after), played, tuple(views))
    return jax.tree.map(lambda leaf: leaf[::10], bare)


@functools.cache
def begun(kind: str = "small", seed: int = 0) -> dynamics.Learner:
    return compiled(lambda key: dynamics.learner(key, SPEC, kind))(jax.random.key(seed))


def filled(kind: str) -> dynamics.Dynamics:
    """Networks with biases, and with weights that take no time to make."""
    rng = np.random.default_rng(0)
    made = jax.eval_shape(lambda key: dynamics.dynamics(key, SPEC, kind), jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.float32(rng.normal(size=leaf.shape) / np.sqrt(leaf.shape[0])), made)


def taught(state: dynamics.Learner, play: Transition, lessons: int = 1, **options):
    """The state after so many steps on the same play, and what each of them logged."""

    def lesson(state, _):
        return dynamics.learn(state, play, **options)

    return compiled(lambda state: jax.lax.scan(lesson, state, length=lessons))(state)


@pytest.mark.parametrize("kind", dynamics.KINDS)
def test_views_are_embedded_and_losses_found_as_numpy_does(kind, play):
    network = filled(kind)
    few = jax.tree.map(lambda leaf: leaf[:: 30 if kind == "paper" else 3], play)

    @compiled
    def found(network, play):
        before, after = network.embed_both(play.before, play.after)
        return (
            before,
            after,
            network.forward_loss(before, after, play.action),
            network.forward_loss(before, after, play.action, "squared"),
            dynamics.cross_entropy(network.logits(before, after), play.action),
        )

    before, after, forward, squared, inverse = found(network, few)
    wanted = [numpy_dynamics.embeddings(network, end["observation"]) for end in (few.before, few.after)]
    for one, other in zip((before, after), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5 * np.abs(other).max())
    error = numpy_dynamics.forward_error(network, *wanted, few.action)
    np.testing.assert_allclose(forward, error, rtol=5e-4)
    np.testing.assert_allclose(squared, error**2, rtol=1e-3)
    np.testing.assert_allclose(
        inverse, numpy_dynamics.inverse_error(network, *wanted, few.action), rtol=5e-4, atol=1e-4
    )
    assert np.linalg.norm(wanted[1] - wanted[0], axis=-1).max() > 0


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("ride", [(27, 32), (288, 32), (288, 128), (135, 256), (256, 128), (256, 256), (256, 7)]),
        (
            "paper",
            [
                *((27, 32), (288, 128), (1152, 512), (2048, 1024), (1024, 1024)),
                *((1031, 256), (256, 1024), (2048, 256), (256, 7)),
            ],
        ),
    ],
)
def test_the_networks_have_the_sizes_of_their_sources(kind, sizes):
    made = jax.eval_shape(lambda key: dynamics.dynamics(key, SPEC, kind), jax.random.key(0))
    assert [leaf.shape for leaf in jax.tree.leaves(made) if leaf.ndim == 2] == sizes
    assert made.units == sizes[-3][1]
    assert made.num_actions == 7


def test_the_embedding_can_have_another_length():
    def embedded(key):
        network = dynamics.dynamics(key, SPEC, "small", 5)
        assert network.units == 5
        return network.embed(jnp.zeros((3, 2, 7, 7, 3), jnp.uint8))

    assert jax.eval_shape(embedded, jax.random.key(0)).shape == (3, 2, 5)


def test_a_lesson_is_a_step_of_rmsprop_on_the_weighted_sum_over_time_of_the_means_over_environments(play):
    options = {"forward": 3.0, "inverse": 0.5, "learning_rate": 1e-3}
    before = begun()
    after, logged = taught(before, play, **options)
    ends = play.before, play.after
    embedded = [numpy_dynamics.embeddings(before.network, end["observation"]) for end in ends]
    forward = numpy_dynamics.forward_error(before.network, *embedded, play.action)
    inverse = numpy_dynamics.inverse_error(before.network, *embedded, play.action)
    np.testing.assert_allclose(logged["forward_loss"][0], forward.mean(), rtol=1e-4)
    np.testing.assert_allclose(logged["inverse_loss"][0], inverse.mean(), rtol=1e-4)

    steps, envs = play.action.shape

    def total(network):
        one, other = (network.embed(end["observation"]) for end in ends)
        rows = 3.0 * network.forward_loss(one, other, play.action)
        inverse = dynamics.cross_entropy(network.logits(one, other), play.action)
        return jnp.sum(rows + 0.5 * inverse) / envs

    value, gradients = compiled(jax.value_and_grad(total))(before.network)
    np.testing.assert_allclose(value, steps * (3.0 * forward.mean() + 0.5 * inverse.mean()), rtol=1e-4)
    for part in PARTS:
        slopes = [np.float64(leaf) for leaf in jax.tree.leaves(getattr(gradients, part))]
        length = np.sqrt(sum(np.sum(slope**2) for slope in slopes))
        scale = min(1.0, 40.0 / (length + 1e-6))
        old, new = (jax.tree.leaves(getattr(state.network, part)) for state in (before, after))
        for slope, one, other in zip(slopes, old, new, strict=True):
            slope = scale * slope
            step = 1e-3 * slope / (np.sqrt(0.01 * slope**2) + 1e-5)
            # Where the slope is nearly 0, its rounding decides what the root makes of it.
            large = np.abs(slope) > 1e-4
            np.testing.assert_allclose((one - np.asarray(other))[large], step[large], rtol=2e-2, atol=2e-6)


def test_each_network_is_clipped_by_itself(play):
    state, _ = taught(begun(), play, forward=1000.0, inverse=1e-3)
    squares = {part: jax.tree.leaves(getattr(state.optimiser.squares, part)) for part in PARTS}
    lengths = {part: np.sqrt(sum(np.sum(leaf) for leaf in squares[part]) / 0.01) for part in PARTS}
    np.testing.assert_allclose([lengths["embedding"], lengths["forward"]], 40, rtol=1e-3)
    assert 0 < lengths["inverse"] < 1


@pytest.mark.parametrize(
    ("left_out", "others"), [("forward", {"inverse_loss", "inverse_accuracy"}), ("inverse", {"forward_loss"})]
)
def test_a_loss_of_weight_zero_is_left_out_and_its_model_stays_as_it_is(left_out, others, play):
    weights = {"forward": 1.0, "inverse": 1.0} | {left_out: 0.0}
    state, logged = taught(begun(), play, **weights)
    assert set(logged) == others
    for part in PARTS:
        pairs = zip(*(jax.tree.leaves(getattr(one.network, part)) for one in (begun(), state)), strict=True)
        assert all(np.array_equal(*pair) for pair in pairs) == (part == left_out)


def test_lessons_teach_to_tell_actions_and_what_they_lead_to(play):
    _, logged = taught(begun(), play, lessons=60, forward=0.2, inverse=1.0, learning_rate=3e-3)
    assert logged["inverse_loss"][-1] < 0.6 * logged["inverse_loss"][0]
    assert logged["inverse_accuracy"][-1] > logged["inverse_accuracy"][0] + 0.25
    assert logged["forward_loss"][-1] < 0.7 * logged["forward_loss"][0]


def test_the_last_step_of_an_episode_is_a_lesson_like_any_other(play):
    assert play.done.any()
    unending = eqx.tree_at(
        lambda p: (p.terminated, p.truncated), play, (jnp.zeros_like(play.done), jnp.zeros_like(play.done))
    )
    for one, other in zip(*(jax.tree.leaves(taught(begun(), p)) for p in (play, unending)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_difference_of_zero_has_a_slope_of_zero():
    for norm in dynamics.NORMS:
        slope = jax.grad(lambda x, norm=norm: dynamics.size(x, norm).sum())(jnp.zeros((2, 3)))
        np.testing.assert_array_equal(slope, 0)
    np.testing.assert_allclose(dynamics.size(jnp.array([[3.0, 4.0]]), "plain"), [5.0], rtol=1e-6)
    np.testing.assert_allclose(dynamics.size(jnp.array([[3.0, 4.0]]), "squared"), [25.0], rtol=1e-6)


def test_what_cannot_be_is_refused_in_one_line():
    with pytest.raises(GobiError, match="unknown network 'rid'; did you mean ride"):
        dynamics.dynamics(jax.random.key(0), SPEC, "rid")
    with pytest.raises(GobiError, match="at least one unit, not 0"):
        dynamics.dynamics(jax.random.key(0), SPEC, "small", 0)
    with pytest.raises(GobiError, match=r"uint8 \[7, 7, 3\].* gives uint8 \[2\]"):
        dynamics.dynamics(jax.random.key(0), dataclasses.replace(SPEC, observation_shape=(2,)))
