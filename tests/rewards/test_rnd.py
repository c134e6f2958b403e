"""RND against networks worked out with numpy, and what its predictor learns."""

from __future__ import annotations

import functools
import types

import equinox as eqx
import far_goal
import jax
import jax.numpy as jnp
import numpy as np
import numpy_networks
import pytest
from recordings import SPEC, TASKS, compiled

from gobi.errors import GobiError
from gobi.networks.layers import conv_stack, torch_linear
from gobi.rewards import distillation
from gobi.rewards.distillation import length
from gobi.rewards.rnd import RND
from gobi.types import Spec, Transition


@pytest.fixture(scope="module")
def play(recorded) -> Transition:
    """A short play with many different views: every fifth step of two tasks, side by side."""

    def views_alone(play: Transition) -> Transition:
        views = [{"observation": seen["observation"]} for seen in (play.before, play.after)]
        return eqx.tree_at(lambda p: (p.before, p.after), play, tuple(views))

    plays = [views_alone(recorded(task)) for task in TASKS[:2]]
    return jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1)[::5], *plays)


def begun(reward: RND):
    return _begun(reward.network)


@functools.cache
def _begun(network: str):
    return compiled(lambda key: RND(network=network).init(key, SPEC, 6))(jax.random.key(0))


def paid(reward: RND, play: Transition) -> np.ndarray:
    _, bonus, _ = compiled(reward.rollout)(begun(reward), play)
    return np.asarray(bonus)


def lessons(reward: RND, play: Transition, count: int):
    """The state after so many steps of learning on the same play, and the losses before each."""

    def lesson(state, _):
        state, logged = reward.learn(state, jax.random.key(0), play)
        return state, logged["predictor_loss"]

    return compiled(lambda state: jax.lax.scan(lesson, state, length=count))(begun(reward))


@pytest.mark.parametrize(("network", "norm"), [("ride", "plain"), ("small", "plain"), ("small", "squared")])
def test_it_pays_the_error_that_numpy_finds_on_the_new_view(network, norm, play):
    reward = RND(norm=norm, network=network)
    few = jax.tree.map(lambda leaf: leaf[::4], play)
    expected = numpy_networks.novelties(begun(reward).networks, np.asarray(few.after["observation"]), norm)
    bonus = paid(reward, few)
    np.testing.assert_allclose(bonus, expected, rtol=2e-4, atol=1e-6)
    assert expected.std() > 0.01 * expected.mean() > 0


@pytest.mark.parametrize(
    ("network", "inputs", "convolutions", "dense"),
    [
        ("ride", "scaled", [((27, 32), 2), ((288, 32), 2), ((288, 128), 2)], []),
        ("paper", "raw", [((27, 32), 1), ((288, 128), 2), ((1152, 512), 2)], [(2048, 1024), (1024, 1024)]),
    ],
    ids=["ride", "paper"],
)
def test_the_networks_have_the_sizes_of_their_sources(network, inputs, convolutions, dense):
    made = jax.eval_shape(lambda: distillation.embedding(jax.random.key(0), network))
    stack = [(layer.linear.weight.shape, layer.stride) for layer in made.convolutions.convolutions]
    assert stack == convolutions
    assert [layer.weight.shape for layer in made.dense] == dense
    assert (made.inputs, made.linear) == (inputs, False)


def test_raw_integers_convolutions_and_dense_layers_are_what_numpy_makes_of_them(play):
    """The paper's embedding with fewer units."""
    one, two = jax.random.split(jax.random.key(1))
    dense = torch_linear(two, 4 * 7, 9)
    small = distillation.Embedding(conv_stack(one, 3, (5, 6, 7), (1, 2, 2)), (dense,), "raw")
    few = play.after["observation"][:5, 0]
    expected = [numpy_networks.embedded(numpy_networks.doubled(small), view) for view in np.asarray(few)]
    np.testing.assert_allclose(small(few), expected, rtol=1e-4, atol=1e-5)
    assert np.min(expected) == 0 < np.max(expected)


def test_what_is_logged_is_the_mean_novelty(play):
    reward = RND(network="small")
    _, bonus, logged = reward.rollout(begun(reward), play)
    assert reward.reads == {"observation"}
    np.testing.assert_allclose(logged["novelty"], np.mean(bonus), rtol=1e-5)


@pytest.mark.parametrize("norm", ["plain", "squared"])
def test_its_lesson_is_a_step_of_rmsprop_down_the_slope_of_the_error(norm, play):
    reward = RND(norm=norm, network="small", loss_weight=0.1, rate=1e-3)
    few = jax.tree.map(lambda leaf: leaf[:4], play)
    views, before = np.asarray(few.after["observation"]), begun(reward)
    after, logged = reward.learn(before, jax.random.key(0), few)
    of = functools.partial(numpy_networks.loss, views=views, norm=norm, weight=0.1, summed=True)
    np.testing.assert_allclose(logged["predictor_loss"], of(before), rtol=1e-5)

    old, new = numpy_networks.doubled((before.networks.predictor, after.networks.predictor))
    for layer in (0, 1):
        for part in ("weight", "bias"):
            where = lambda state, layer=layer, part=part: getattr(  # noqa: E731
                state.networks.predictor.dense[layer], part
            )
            weights = np.asarray(where(before), np.float64)
            # The steepest places: elsewhere rounding decides.
            places = np.argsort(-np.abs(where(after) - where(before)).reshape(-1))[:5]
            slope = numpy_networks.slopes(
                lambda changed, where=where: of(eqx.tree_at(where, before, changed)), weights, places
            )
            # Torch: squares = 0.99 * 0 + 0.01 g^2; weights -= rate * g / (sqrt(squares) + 1e-5).
            step = 1e-3 * slope / (np.sqrt(0.01 * slope**2) + 1e-5)
            moved = getattr(new.dense[layer], part) - getattr(old.dense[layer], part)
            np.testing.assert_allclose(moved.flat[places], -step, rtol=1e-3, atol=2e-7)
    for fixed in (lambda state: state.networks.target, lambda state: state.networks.encoder):
        jax.tree.map(np.testing.assert_array_equal, fixed(before), fixed(after))


def test_steep_gradients_are_clipped_to_a_norm_of_forty(play):
    reward = RND(network="small", loss_weight=1e4)
    state, logged = reward.learn(begun(reward), jax.random.key(0), play)
    assert logged["predictor_gradient_norm"] > 1000
    squares = sum(float(np.sum(leaf)) for leaf in jax.tree.leaves(state.optimiser))
    np.testing.assert_allclose(np.sqrt(squares / 0.01), 40, rtol=1e-3)


def test_what_was_met_becomes_less_novel_than_what_was_not(play):
    reward = RND(network="small", rate=1e-3)
    state, losses = lessons(reward, play, 60)
    assert losses[-1] < 0.5 * losses[0]

    def fallen(views) -> float:
        now, once = (np.mean(s.networks.novelty(views, "plain")) for s in (state, begun(reward)))
        return now / once

    met, strange = fallen(play.after["observation"]), fallen(jnp.asarray(far_goal.views()))
    assert met < 0.5
    assert strange > 1.5 * met


def test_step_by_step_and_in_pieces_it_pays_the_same(play):
    reward = RND(network="small")
    whole = paid(reward, play)
    _, bonus = compiled(lambda state, play: jax.lax.scan(reward.step, state, play))(begun(reward), play)
    np.testing.assert_allclose(bonus, whole, rtol=1e-4)
    pieces = [
        paid(reward, jax.tree.map(lambda leaf, piece=piece: leaf[piece], play))
        for piece in (slice(0, 7), slice(7, 60))
    ]
    np.testing.assert_allclose(np.concatenate(pieces), whole, rtol=1e-4)


def test_seeds_side_by_side_are_each_as_alone(play):
    reward = RND(network="small")

    def run(key, play):
        state = reward.init(key, SPEC, 6)
        state, _ = reward.learn(state, key, play)
        return reward.rollout(state, play)[1]

    keys = jax.random.split(jax.random.key(3), 2)
    together = compiled(jax.vmap(run, in_axes=(0, None)))(keys, play)
    alone = compiled(run)
    for key, bonus in zip(keys, together, strict=True):
        np.testing.assert_allclose(bonus, alone(key, play), rtol=1e-3)
    assert not np.allclose(*together)


def test_a_view_on_which_both_networks_agree_teaches_nothing_and_breaks_nothing(play):
    """Nothing but zeros, and biases of zero: both networks say zero."""
    reward = RND(network="ride")
    unseen = jax.tree.map(jnp.zeros_like, play)
    np.testing.assert_array_equal(paid(reward, unseen), 0)
    state, logged = compiled(reward.learn)(begun(reward), jax.random.key(0), unseen)
    assert logged["predictor_gradient_norm"] == 0
    jax.tree.map(np.testing.assert_array_equal, state.networks, begun(reward).networks)


def test_the_squared_norm_is_the_square_of_the_plain_one():
    vectors = jnp.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(length(vectors, "plain"), [5, 0])
    np.testing.assert_allclose(length(vectors, "squared"), [25, 0])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"norm": "square"}, "unknown norm 'square'; did you mean squared?"),
        ({"network": "papers"}, "unknown network 'papers'; did you mean paper?"),
        ({"rate": 0.0}, "rate must be a positive number, got 0.0"),
        ({"loss_weight": float("inf")}, "loss_weight must be a positive number, got inf"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_options_are_refused(wrong, message):
    right = {"norm": "plain", "network": "small", "rate": 1e-4, "loss_weight": 0.1}
    # Here the type checker would refuse some of them first.
    with pytest.raises(GobiError) as refused:
        RND.__check_init__(types.SimpleNamespace(**(right | wrong)))
    assert str(refused.value) == message


def test_bytes_of_which_no_more_is_known_are_refused():
    probe = Spec("Probe", (2,), "uint8", 2, 5)
    with pytest.raises(GobiError, match=r"uint8 \[7, 7, 3\].*; Probe gives uint8 \[2\]$"):
        RND(network="small").init(jax.random.key(0), probe, 1)


def test_it_leads_to_the_end_of_a_corridor_that_chance_never_reaches():
    far_goal.must_beat_no_bonus(RND(network="small"))
