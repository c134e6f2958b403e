"""The network's shapes and sizes are Dreamer's; its layers are what they are computed as."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.worlds.rssm import pictures
from gobi.worlds.rssm.dynamics import dynamics
from gobi.worlds.rssm.network import Sizes, build, cast
from gobi.worlds.rssm.recurrence import Belief, _scan, _taps, parts

LAYOUT = ("NHWC", "HWIO", "NHWC")
key = jax.random.key(0)


def size(tree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


@pytest.fixture(scope="module")
def papers():
    """The paper's network, by shape alone."""
    return jax.eval_shape(lambda: build(key, action_size=6))


def test_the_parameters_are_dreamers(papers):
    assert [size(layer) for layer in papers.encoder.convolutions] == [1_568, 32_832, 131_200, 524_544]
    assert size(papers.decoder.enters) == 230 * 1024 + 1024
    assert [size(layer) for layer in papers.decoder.deconvolutions] == [3_276_928, 204_864, 73_760, 3_459]
    cell = papers.dynamics
    assert size(cell.enters) == (30 + 6) * 200 + 200
    assert size((cell.gru_input, cell.gru_state)) == 2 * (200 * 600 + 600)
    assert size(cell.prior_hidden) == 200 * 200 + 200
    assert size(cell.prior_out) == size(cell.posterior_out) == 200 * 60 + 60
    assert size(cell.posterior_hidden) == (200 + 1024) * 200 + 200


def test_pictures_go_through_the_sizes_of_the_table(papers):
    x, sides = jax.ShapeDtypeStruct((1, 64, 64, 3), jnp.float32), []
    for layer in papers.encoder.convolutions:
        x = jax.eval_shape(lambda layer, x: layer(x), layer, x)
        sides.append(x.shape[1:])
    assert sides == [(31, 31, 32), (14, 14, 64), (6, 6, 128), (2, 2, 256)]
    x, sides = jax.ShapeDtypeStruct((1, 1, 1, 1024), jnp.float32), []
    for layer in papers.decoder.deconvolutions:
        x = jax.eval_shape(lambda layer, x: layer(x), layer, x)
        sides.append(x.shape[1:])
    assert sides == [(5, 5, 128), (13, 13, 64), (30, 30, 32), (64, 64, 3)]


def test_an_unrolled_batch_has_the_sizes_of_the_table(papers):
    arrays = [jax.ShapeDtypeStruct((50, 50, width), jnp.float32) for width in (6, 1024, 30)]
    unrolled = jax.eval_shape(lambda cell, *arrays: cell.unroll(*arrays), papers.dynamics, *arrays)
    beliefs, posterior, prior = unrolled
    assert beliefs.deterministic.shape == (50, 50, 200)
    assert beliefs.stochastic.shape == posterior.mean.shape == prior.std.shape == (50, 50, 30)
    assert jax.eval_shape(lambda beliefs: beliefs.features, beliefs).shape == (50, 50, 230)


@pytest.mark.parametrize("side", [31, 14, 6])
def test_a_convolution_on_blocks_is_the_strided_one(side, drawn):
    layer = drawn(jax.eval_shape(lambda: pictures.encoder(key, depth=3))).convolutions[1]
    x = jax.random.normal(key, (2, side, side, 3))
    strided = jax.lax.conv_general_dilated(x, layer.weight, (2, 2), "VALID", dimension_numbers=LAYOUT)
    np.testing.assert_allclose(layer(x), strided, atol=1e-5)


@pytest.mark.parametrize(("layer", "side"), [(0, 1), (1, 5), (2, 13), (3, 30)])
def test_a_deconvolution_spreads_every_pixel(layer, side, drawn):
    decoder = drawn(jax.eval_shape(lambda: pictures.decoder(key, features=4, depth=1)))
    deconvolution = decoder.deconvolutions[layer]
    weight = np.asarray(deconvolution.weight)
    x = np.random.default_rng(0).normal(size=(2, side, side, weight.shape[2])).astype(np.float32)
    expected = np.zeros((2, *[2 * (side - 1) + len(weight)] * 2, weight.shape[3]))
    for i, j in np.ndindex(side, side):
        square = np.einsum("nc,uvco->nuvo", x[:, i, j], weight)
        expected[:, 2 * i : 2 * i + len(weight), 2 * j : 2 * j + len(weight)] += square
    np.testing.assert_allclose(deconvolution(jnp.asarray(x)), expected, atol=1e-5)


def test_biases_are_added_everywhere():
    layer = pictures.Deconvolution(jnp.zeros((6, 6, 1, 2)), jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(layer(jnp.ones((1, 3, 3, 1)))[0, 0, 0], [1, 2])


def test_the_recurrence_is_keras_gru():
    cell = jax.eval_shape(lambda: dynamics(key, 2, embedding=3, deterministic=5, stochastic=4, hidden=6))
    rng = np.random.default_rng(0)
    cell = jax.tree.map(lambda array: jnp.asarray(rng.normal(size=array.shape), jnp.float32), cell)
    h, z, action = rng.normal(size=5), rng.normal(size=4), rng.normal(size=2)
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    affine = lambda layer, x: x @ np.asarray(layer.weight) + np.asarray(layer.bias)  # noqa: E731
    x = affine(cell.enters, np.concatenate([z, action]))
    x = affine(cell.gru_input, np.where(x > 0, x, np.expm1(x))).reshape(3, 5)
    state = affine(cell.gru_state, h).reshape(3, 5)
    update, reset = sigmoid(x[0] + state[0]), sigmoid(x[1] + state[1])
    expected = update * h + (1 - update) * np.tanh(x[2] + reset * state[2])
    belief = Belief(jnp.asarray(h, jnp.float32), jnp.asarray(z, jnp.float32))
    advance = jax.jit(type(cell).advance)
    np.testing.assert_allclose(advance(cell, belief, jnp.asarray(action, jnp.float32)), expected, atol=1e-5)


def test_spreads_stay_above_a_tenth(drawn):
    cell = drawn(
        jax.eval_shape(lambda: dynamics(key, 1, embedding=3, deterministic=5, stochastic=4, hidden=6))
    )
    prior = cell.prior(1e3 * jax.random.normal(key, (50, 5)))
    assert float(jnp.min(prior.std)) == pytest.approx(0.1, abs=1e-3)
    np.testing.assert_allclose(cell.prior(jnp.zeros(5)).std, np.log(2) + 0.1, rtol=1e-5)


def test_the_gradient_of_an_unroll_is_that_of_the_plain_scan(drawn):
    cell = drawn(
        jax.eval_shape(lambda: dynamics(key, 2, embedding=7, deterministic=5, stochastic=4, hidden=6))
    )
    rng = np.random.default_rng(0)
    arrays = [jnp.asarray(rng.normal(size=(6, 3, width)), jnp.float32) for width in (2, 7, 4)]

    def plain(cell, actions, embeddings, noise):
        projected = cell.of_action(actions), cell.of_embedding(embeddings)
        start = Belief(jnp.zeros((3, 5)), jnp.zeros((3, 4)))
        beliefs, posterior, _ = _scan(cell.cell, *projected, noise, start, _taps(cell.cell, noise))
        return beliefs, posterior, cell.prior(beliefs.deterministic)

    def gradient(unroll, cell, *arrays):
        def loss(cell, *arrays):
            parts = jax.tree.leaves(unroll(cell, *arrays))
            return sum(jnp.sum(jnp.sin(part) * (n + 1)) for n, part in enumerate(parts))

        return jax.grad(loss, argnums=(0, 1, 2, 3))(cell, *arrays)

    both = jax.jit(lambda *given: [gradient(unroll, *given) for unroll in (type(cell).unroll, plain)])
    quick, slow = both(cell, *arrays)
    for one, other in zip(jax.tree.leaves(quick), jax.tree.leaves(slow), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(quick))


def test_parts_and_their_gradients_are_those_of_a_split():
    x = jnp.arange(12.0).reshape(2, 6)

    def weighted(split, x):
        made = split(x)
        return sum(jnp.sum(jnp.sin(part) * (place + 1)) for place, part in enumerate(made)), made

    for count in (2, 3):
        ways = (lambda x: parts(x, count), lambda x: tuple(jnp.split(x, count, axis=-1)))  # noqa: B023
        found, wanted = (jax.grad(weighted, argnums=1, has_aux=True)(way, x) for way in ways)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_array_equal(one, other)


def test_sizes_that_are_filled_up_change_nothing_in_an_unroll(monkeypatch, drawn):
    shapes = jax.eval_shape(lambda: dynamics(key, 2, embedding=7, deterministic=8, stochastic=3, hidden=8))
    cell, rng, found = cast(drawn(shapes), "bfloat16"), np.random.default_rng(0), []
    arrays = [jnp.asarray(rng.normal(size=(4, 5, width)), jnp.float32) for width in (2, 7, 3)]

    def loss(cell, *arrays):
        made = cell.unroll(*arrays)
        return sum(jnp.sum(jnp.sin(part) * (n + 1)) for n, part in enumerate(jax.tree.leaves(made))), made

    for aligned in (8, 1):
        monkeypatch.setattr("gobi.worlds.rssm.recurrence.ALIGNED", aligned)
        found.append(jax.tree.leaves(jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))(cell, *arrays)))
    for one, other in zip(*found, strict=True):
        one, other = np.float32(one), np.float32(other)
        np.testing.assert_allclose(one, other, atol=0.02 * np.abs(other).max())
        assert one.any()


def test_casting_leaves_biases_alone(drawn):
    network = cast(drawn(jax.eval_shape(lambda: build(key, 1, Sizes(1, 4, 2, 4)))), "bfloat16")
    assert network.dynamics.enters.weight.dtype == jnp.bfloat16
    assert network.encoder.convolutions[0].weight.dtype == jnp.bfloat16
    assert network.dynamics.enters.bias.dtype == jnp.float32
    assert jax.eval_shape(network.decoder, jnp.zeros(6)).dtype == jnp.float32


@pytest.mark.parametrize("layer", [pictures.Convolution, pictures.Deconvolution])
def test_channels_that_are_filled_up_change_nothing(monkeypatch, layer):
    rng = np.random.default_rng(0)
    weight = jnp.asarray(rng.normal(size=(4, 4, 3, 5)), jnp.bfloat16)
    x, found = jnp.asarray(rng.normal(size=(2, 8, 8, 3)), jnp.float32), []
    for aligned in (pictures.ALIGNED, 1):
        monkeypatch.setattr(pictures, "ALIGNED", aligned)
        found.append(np.asarray(layer(weight, jnp.zeros(5))(x)))
    np.testing.assert_array_equal(*found)
    assert found[0].any()


def test_initial_weights_are_keras_defaults():
    network = jax.jit(lambda: build(key, 1, Sizes(2, 16, 8, 16)))()
    weight = network.decoder.deconvolutions[1].weight
    bound = np.sqrt(6 / (25 * (8 + 4)))
    assert 0.95 * bound < float(jnp.max(jnp.abs(weight))) <= bound
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(network) if leaf.ndim == 1)
    recurrent = network.dynamics.gru_state.weight
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(16), atol=1e-5)
