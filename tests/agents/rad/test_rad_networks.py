"""The networks against NumPy, and what they begin with."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gobi.agents.rad import RAD, Learner
from gobi.agents.rad.networks import add_bias, build_convolutions, encoder_in, relu
from gobi.types import Spec

PIXELS = Spec("pixels", (20, 20, 3), "uint8", 0, 500, 2)
SMALL = RAD(hidden=16, features=6, channels=4, crop=16)


@functools.cache
def begun() -> Learner:
    return jax.jit(lambda key: SMALL.init(key, PIXELS))(jax.random.key(0))


def numpy_relu(x):
    return np.maximum(x, 0)


def numpy_convolution(x, kernel, bias, stride):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))[:, ::stride, ::stride]
    return numpy_relu(np.einsum("nhwcyx,yxco->nhwo", windows, kernel) + bias)


def numpy_projection(x, projection):
    x = x @ projection.linear.weight + projection.linear.bias
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return np.tanh(x * projection.scale + projection.offset)


def numpy_trunk(x, layers):
    for weight, bias in layers[:-1]:
        x = numpy_relu(x @ weight + bias)
    return x @ layers[-1][0] + layers[-1][1]


def made_up(part, seed):
    """Weights of ordinary size everywhere, so that no bias or scale goes unnoticed; in float64."""
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: random.normal(0, 0.3, leaf.shape), part)


def on_device(part):
    return jax.tree.map(jnp.float32, part)


def test_actor_and_critic_compute_what_numpy_computes_from_pixels():
    learner = begun()
    actor, critic = made_up(learner.actor, 1), made_up(learner.critic, 2)
    random = np.random.default_rng(3)
    pixels = random.integers(0, 256, (5, 3, 16, 16, 3), dtype=np.uint8)
    action = random.uniform(-1, 1, (5, 2))
    x = np.concatenate(list(np.moveaxis(pixels, 1, 0)), axis=-1) / 255
    for layer, stride in zip(critic.convolutions.layers, (2, 1, 1, 1), strict=True):
        x = numpy_convolution(x, layer.kernel, layer.bias, stride)
    features = x.reshape(5, -1)
    projected = np.concatenate([numpy_projection(features, critic.projection), action], axis=-1)
    for head in range(2):
        layers = [(layer.weight[head], layer.bias[head]) for layer in critic.heads.layers]
        values = on_device(critic)(jnp.asarray(pixels), jnp.float32(action))[head]
        np.testing.assert_allclose(values, numpy_trunk(projected, layers)[:, 0], rtol=2e-4, atol=1e-5)
    outputs = numpy_trunk(
        numpy_projection(features, actor.projection), [(one.weight, one.bias) for one in actor.trunk.layers]
    )
    mean, log_std = on_device(actor)(on_device(critic).convolutions(jnp.asarray(pixels)))
    np.testing.assert_allclose(mean, outputs[:, :2], rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(log_std, -10 + 6 * (np.tanh(outputs[:, 2:]) + 1), rtol=2e-4, atol=1e-5)


def test_relu_and_its_slope_are_what_they_are_everywhere():
    x = jnp.float32([-2, -0.0, 0, 3])
    np.testing.assert_array_equal(relu(x), jax.nn.relu(x))
    weights = jnp.float32([1, 2, 3, 4])
    np.testing.assert_array_equal(jax.grad(lambda x: relu(x) @ weights)(x), [0, 0, 0, 4])


def test_the_sizes_are_those_of_the_reference():
    convolutions, shape = eqx.filter_eval_shape(
        build_convolutions, jax.random.key(0), size=(84, 84), inputs=9, channels=32
    )
    assert shape == (35, 35, 32)
    assert [layer.kernel.shape for layer in convolutions.layers] == [(3, 3, 9, 32), *[(3, 3, 32, 32)] * 3]
    spec = Spec("pixels", (100, 100, 3), "uint8", 0, 500, 6)
    learner = jax.eval_shape(lambda: RAD().init(jax.random.key(0), spec))
    assert [layer.weight.shape for layer in learner.actor.trunk.layers] == [
        (50, 1024),
        (1024, 1024),
        (1024, 12),
    ]
    assert [layer.weight.shape for layer in learner.critic.heads.layers] == [
        (2, 56, 1024),
        (2, 1024, 1024),
        (2, 1024, 1),
    ]
    assert learner.actor.projection.linear.weight.shape == (39_200, 50)


def test_weights_begin_orthogonal_and_biases_zero():
    learner = begun()
    for layer in learner.critic.convolutions.layers:
        columns = np.asarray(layer.kernel).reshape(-1, layer.kernel.shape[-1])
        np.testing.assert_allclose(columns.T @ columns, 2 * np.eye(columns.shape[1]), atol=1e-5)
    for weight in (learner.actor.projection.linear.weight, learner.critic.heads.layers[1].weight[0]):
        columns = np.asarray(weight)
        few = columns if columns.shape[0] <= columns.shape[1] else columns.T
        np.testing.assert_allclose(few @ few.T, np.eye(few.shape[0]), atol=1e-5)
    first, second = learner.critic.heads.layers[0].weight
    assert not np.allclose(first, second)
    biases = [layer.bias for layer in (*learner.critic.heads.layers, *learner.actor.trunk.layers)]
    assert all(not np.any(bias) for bias in biases)


def test_the_slope_of_a_bias_is_summed_in_float32():
    """1 and three hundred times 1/512, which a sum in bfloat16 would lose one by one."""
    small = jnp.full((1, 20, 15, 1), 1 / 512, jnp.bfloat16)
    slopes = small.at[0, 0, 0].set(1)
    _, backward = jax.vjp(add_bias, small, jnp.zeros(1))
    passed, slope = backward(slopes)
    assert passed.dtype == jnp.bfloat16
    assert slope.dtype == jnp.float32
    assert float(slope[0]) == 1 + 299 / 512


def test_bfloat16_is_for_the_encoder_alone():
    learner = begun()
    critic = encoder_in(learner.critic, jnp.dtype("bfloat16"))
    assert {layer.kernel.dtype for layer in critic.convolutions.layers} == {jnp.dtype("bfloat16")}
    assert {layer.bias.dtype for layer in critic.convolutions.layers} == {jnp.dtype("float32")}
    assert critic.projection.linear.weight.dtype == jnp.bfloat16
    kept = (critic.projection.scale, critic.projection.offset, *jax.tree.leaves(critic.heads))
    assert {leaf.dtype for leaf in kept} == {jnp.dtype("float32")}
