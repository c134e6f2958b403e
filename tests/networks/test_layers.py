"""Patches against XLA's convolution; precision and first weights of the layers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.networks import layers

KEY = jax.random.key(0)


@pytest.mark.parametrize(("stride", "border"), [(1, 1), (2, 1), (2, 0), (1, 0)])
@pytest.mark.parametrize("size", [(7, 7), (4, 5)])
def test_patches_and_a_product_are_a_convolution(size, stride, border):
    x = jax.random.normal(KEY, (3, *size, 2))
    kernel = jax.random.normal(KEY, (3, 3, 2, 6))
    ours = layers.Conv3x3(layers.Linear(kernel.reshape(-1, 6), jnp.zeros(6)), stride, border)(x)
    theirs = jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), [(border, border)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    counted = tuple(layers.num_patches(length, stride, border) for length in size)
    assert theirs.shape[1:3] == counted


def test_the_conv_stack_ends_in_two_by_two_cells():
    stack = layers.conv_stack(KEY, 3, (4, 5, 6))
    assert stack(jnp.zeros((9, 4, 7, 7, 3))).shape == (9, 4, 2 * 2 * 6)


def test_layers_compute_in_the_dtype_of_their_weights():
    stack = layers.conv_stack(KEY, 3, (4, 4, 4))
    half = jax.tree.map(lambda array: array.astype(jnp.bfloat16), stack)
    assert half(jnp.zeros((1, 7, 7, 3))).dtype == jnp.bfloat16


def test_half_precision_weights_give_float32_sums_and_gradients_of_their_own_dtype():
    x = jax.random.normal(KEY, (64, 512))
    weight = jax.random.normal(KEY, (512, 32)).astype(jnp.bfloat16)
    out = layers.product(x, weight)
    assert out.dtype == jnp.float32
    exact = np.asarray(x.astype(jnp.bfloat16), np.float64) @ np.asarray(weight, np.float64)
    np.testing.assert_allclose(out, exact, rtol=1e-4, atol=1e-3)
    to_x, to_weight = jax.grad(lambda x, w: jnp.sum(layers.product(x, w) ** 2), (0, 1))(x, weight)
    assert (to_x.dtype, to_weight.dtype) == (jnp.float32, jnp.bfloat16)
    np.testing.assert_allclose(to_x, 2 * exact @ np.asarray(weight, np.float64).T, rtol=0.05, atol=50.0)


@pytest.mark.parametrize("shape", [(27, 32), (300, 64)])
def test_linear_layers_start_orthogonal_with_the_gain_of_a_relu(shape):
    layer = layers.orthogonal_linear(KEY, *shape)
    weight = np.asarray(layer.weight)
    short = weight @ weight.T if shape[0] < shape[1] else weight.T @ weight
    np.testing.assert_allclose(short, 2 * np.eye(min(shape)), atol=1e-4)
    np.testing.assert_array_equal(layer.bias, 0.0)
