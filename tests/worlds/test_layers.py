"""The layers are what they claim to be: convolutions, one-hot codes, legal cells."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gobi.worlds import erase_movable, layers
from gobi.worlds.network import NUM_ACTIONS, action_linear

key = jax.random.key(0)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [7, 4])
def test_patches_and_one_product_are_a_convolution(stride, size):
    x = jax.random.normal(key, (2, size, size, 3))
    layer = layers.Conv3x3(layers.torch_linear(key, 27, 5), stride)
    kernel = layer.linear.weight.reshape(3, 3, 3, 5)
    expected = jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), [(1, 1), (1, 1)], dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(layer(x), expected + layer.linear.bias, atol=1e-5)


def test_the_conv_stack_ends_in_two_by_two_cells():
    stack = layers.conv_stack(key, 3, (4, 5, 6))
    assert stack(jnp.zeros((9, 4, 7, 7, 3))).shape == (9, 4, 2 * 2 * 6)


def test_adding_an_actions_row_is_the_product_with_the_concatenation():
    whole = layers.torch_linear(key, 10 + NUM_ACTIONS, 6)
    split = action_linear(layers.torch_linear, key, 10, 6)
    features = jax.random.normal(key, (3, 10))
    actions = jnp.array([[0, 6, 3], [1, 1, 5], [2, 4, 0]])
    one_hot = jax.nn.one_hot(actions, NUM_ACTIONS)
    both = jnp.concatenate([jnp.repeat(features[:, None], 3, axis=1), one_hot], axis=-1)
    together = split.features(features)[:, None] + split.rows(actions)
    np.testing.assert_allclose(together, whole(both), atol=1e-5)


def test_layers_compute_in_the_dtype_of_their_weights():
    stack = layers.conv_stack(key, 3, (4, 4, 4))
    half = jax.tree.map(lambda array: array.astype(jnp.bfloat16), stack)
    assert half(jnp.zeros((1, 7, 7, 3))).dtype == jnp.bfloat16


def test_orthogonal_weights_are_orthogonal_with_the_gain_of_a_relu():
    weight = layers.orthogonal_linear(key, 12, 5).weight
    np.testing.assert_allclose(weight.T @ weight, 2 * np.eye(5), atol=1e-5)


def legal_views(seed: int):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.integers(0, layers.CLASSES, (4, 7, 7, 3)).astype(np.uint8))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_most_likely_cell_of_a_one_hot_code_is_the_cell(seed):
    views = legal_views(seed)
    codes = layers.one_hot(views)
    assert (codes.sum(-1) == 3).all()
    np.testing.assert_array_equal(layers.most_likely(codes), views)


def test_the_likelihoods_of_all_cells_add_up_to_one():
    logits = jax.random.normal(key, (20,))
    cells = jnp.array(
        np.stack(np.meshgrid(*map(np.arange, layers.CLASSES), indexing="ij"), -1).reshape(-1, 3)
    )
    cells = cells.astype(jnp.uint8)
    chances = jnp.exp(layers.log_likelihood(jnp.tile(logits, (len(cells), 1)), cells))
    assert float(chances.sum()) == pytest.approx(1, abs=1e-5)


def test_regressed_numbers_become_the_nearest_legal_cell():
    values = jnp.array([[4.4, 2.6, 1.2], [-3.0, 5.4, 2.4], [25.0, 9.0, 7.0]])
    assert layers.nearest_legal(values).tolist() == [[4, 3, 1], [0, 5, 2], [10, 5, 2]]


def test_keys_balls_and_boxes_are_erased_and_nothing_else():
    every = np.stack(np.meshgrid(np.arange(11), np.arange(6), np.arange(3), indexing="ij"), -1).astype(
        np.uint8
    )
    erased = np.asarray(erase_movable(jnp.asarray(every)))
    movable = np.isin(every[..., 0], [5, 6, 7])
    assert (erased[movable] == [1, 0, 0]).all()
    np.testing.assert_array_equal(erased[~movable], every[~movable])
