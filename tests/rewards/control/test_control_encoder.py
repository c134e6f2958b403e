"""RE3's encoder: four convolutions, a dense layer, LayerNorm and tanh, with PyTorch's initial weights."""

from __future__ import annotations

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from control_play import PICTURES, VECTORS

from gobi.errors import GobiError
from gobi.rewards.control.encoder import Encoder, after, before, encoder
from gobi.types import Spec


def convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """One picture through one convolution, place by place."""
    side = (len(x) - 3) // stride + 1
    places = [(stride * i, stride * j) for i in range(side) for j in range(side)]
    rows = [np.tensordot(x[i : i + 3, j : j + 3], weight, axes=3) + bias for i, j in places]
    return np.maximum(np.array(rows), 0).reshape(side, side, -1)


def test_the_features_are_what_the_layers_say():
    network = encoder(jax.random.key(0), PICTURES)
    assert isinstance(network, Encoder)
    frame = np.random.default_rng(0).integers(0, 256, (20, 20, 3), np.uint8)
    x = frame / 255
    assert [convolution.stride for convolution in network.convolutions] == [2, 1, 1, 1]
    for convolution in network.convolutions:
        x = convolved(x, np.asarray(convolution.weight), np.asarray(convolution.bias), convolution.stride)
    (dense,) = network.dense
    x = x.reshape(-1) @ np.asarray(dense.weight) + np.asarray(dense.bias)
    wanted = np.tanh((x - x.mean()) / np.sqrt(x.var() + 1e-5))
    np.testing.assert_allclose(jax.jit(lambda frames: network(frames))(frame[None])[0], wanted, atol=1e-4)


def test_a_frame_of_a_hundred_pixels_has_the_layers_of_the_code():
    spec = Spec("rendered", (100, 100, 3), "uint8", 0, 500, action_size=1)
    network = jax.eval_shape(lambda key: encoder(key, spec), jax.random.key(0))
    assert [c.weight.shape for c in network.convolutions] == [(3, 3, 3, 32), *[(3, 3, 32, 32)] * 3]
    assert [layer.weight.shape for layer in network.dense] == [(43 * 43 * 32, 50)]


def test_weights_begin_uniform_within_the_root_of_their_inputs():
    network = encoder(jax.random.key(0), PICTURES)
    assert isinstance(network, Encoder)
    layers = [*((c.weight, c.bias, 9 * c.weight.shape[2]) for c in network.convolutions)]
    layers += [(layer.weight, layer.bias, layer.weight.shape[0]) for layer in network.dense]
    for weight, bias, inputs in layers:
        bound = inputs**-0.5
        assert 0.98 * bound < np.abs(weight).max() <= bound
        assert np.abs(bias).max() <= bound
        np.testing.assert_allclose(np.std(weight), bound / 3**0.5, rtol=0.1)


def test_state_vectors_go_through_dense_layers_or_stay_as_they_are():
    vectors = jnp.asarray(np.random.default_rng(0).standard_normal((6, 4)), jnp.float32)
    assert encoder(jax.random.key(0), VECTORS, units=9)(vectors).shape == (6, 9)
    np.testing.assert_array_equal(encoder(jax.random.key(0), VECTORS, vectors="raw")(vectors), vectors)
    with pytest.raises(GobiError, match="a state vector stands by itself"):
        encoder(jax.random.key(0), VECTORS, frames=3)


def test_both_ends_of_a_replayed_step_are_read_from_the_latest_frames():
    frames = jnp.arange(2 * 4 * 3, dtype=jnp.uint8).reshape(2, 4, 1, 1, 3)
    batch = types.SimpleNamespace(frames=frames)
    np.testing.assert_array_equal(before(batch), frames[:, 2])
    np.testing.assert_array_equal(after(batch), frames[:, 3])
    np.testing.assert_array_equal(before(batch, 3).reshape(2, 9), frames[:, :3].reshape(2, 9))
    np.testing.assert_array_equal(after(batch, 3).reshape(2, 9), frames[:, 1:].reshape(2, 9))
    with pytest.raises(GobiError, match="more frames than the replay gives, 3"):
        before(batch, 4)
    vectors = types.SimpleNamespace(frames=jnp.arange(8.0).reshape(2, 2, 2))
    np.testing.assert_array_equal(before(vectors), vectors.frames[:, 0])
    np.testing.assert_array_equal(after(vectors), vectors.frames[:, 1])


def test_pictures_that_are_too_small_are_refused():
    with pytest.raises(GobiError, match="too small"):
        encoder(jax.random.key(0), Spec("tiny", (12, 12, 3), "uint8", 0, 10, action_size=1))
