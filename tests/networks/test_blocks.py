"""Convolutions over blocks of pixels against those over pixels."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.agents.rad import networks
from gobi.agents.rad.networks import build_convolutions, build_projection, encoder_in
from gobi.networks import blocks


def convolved(x, kernel, stride):
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "VALID", dimension_numbers=dimensions, precision="highest"
    )


def test_blocks_hold_their_pixels_row_by_row():
    x = jnp.arange(2 * 3 * 4 * 2).reshape(2, 3, 4, 2)
    found = blocks.to_blocks(x, 2, 2, 2)
    assert found.shape == (2, 2, 2, 8)
    np.testing.assert_array_equal(found[1, 0, 1], x[1, :2, 2:].ravel())
    np.testing.assert_array_equal(found[0, 1, 0], [*x[0, 2, :2].ravel(), 0, 0, 0, 0])
    np.testing.assert_array_equal(blocks.to_pixels(found, 2, 3, 4), x)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [1, 2, 3])
def test_a_block_kernel_does_what_the_kernel_does(stride, side):
    if (stride, side) == (1, 1):
        with pytest.raises(AssertionError, match="a kernel of 3 reaches over more than 2 blocks of 1"):
            blocks.block_kernel(jnp.zeros((3, 3, 2, 5)), stride, side)
        return
    rng = np.random.default_rng(0)
    kernel, x = rng.normal(size=(3, 3, 2, 5)), rng.normal(size=(2, 13, 15, 2))
    want = convolved(jnp.float32(x), jnp.float32(kernel), stride)
    down, across = (-(-length // side) for length in want.shape[1:3])
    there = jnp.float32(np.pad(x, [(0, 0), (0, 30), (0, 30), (0, 0)]))[:, : (down + 1) * side * stride]
    there = there[:, :, : (across + 1) * side * stride]
    inside = blocks.to_blocks(there, side * stride, down + 1, across + 1)
    found = convolved(inside, blocks.block_kernel(jnp.float32(kernel), stride, side), 1)
    np.testing.assert_allclose(blocks.to_pixels(found, side, *want.shape[1:3]), want, atol=1e-5)


def test_blocks_of_several_frames_hold_rows_of_one_after_the_other():
    frames = jnp.arange(2 * 3 * 4 * 4 * 2).reshape(2, 3, 4, 4, 2)
    found = blocks.stacks_to_blocks(frames, 2, 2, 2)
    want = [frames[1, frame, row, 2:].ravel() for row in (0, 1) for frame in range(3)]
    np.testing.assert_array_equal(found[1, 0, 1], np.concatenate(want))


def test_a_matrix_reads_blocks_as_it_reads_pixels_and_nothing_beyond_them():
    rng = np.random.default_rng(0)
    weight, x = (jnp.float32(rng.normal(size=shape)) for shape in [(3 * 5 * 2, 4), (6, 3, 5, 2)])
    inside = blocks.to_blocks(x, 2, 2, 3)
    beyond = blocks.to_blocks(jnp.ones_like(x), 2, 2, 3) == 0
    assert beyond.sum() == 6 * (4 * 6 - 3 * 5) * 2
    inside = jnp.where(beyond, 1e3, inside)
    found = inside.reshape(6, -1) @ blocks.rows_in_block_order(weight, (3, 5, 2), 2)
    np.testing.assert_allclose(found, x.reshape(6, -1) @ weight, atol=1e-5)


@pytest.mark.parametrize("size", [(15, 20), (20, 15), (17, 18), (17, 22)])
def test_features_and_slopes_are_the_same_on_blocks(size):
    """In float32, where nothing hides a difference."""
    network, (height, width, _) = build_convolutions(jax.random.key(0), size, 6, 4)
    layers = network.layers
    random = np.random.default_rng(1)
    layers = tuple(
        dataclasses.replace(layer, bias=jnp.float32(random.normal(0, 0.3, 4)), kernel=layer.kernel / 5)
        for layer in layers
    )
    pixels = jnp.asarray(random.integers(0, 256, (3, 2, *size, 3), np.uint8))

    def on_blocks(layers, x):
        return blocks.to_pixels(networks._on_blocks(layers, x), networks.BLOCK, height, width)

    def total(way, x):
        def weighted(layers):
            features = way(layers, x)
            weights = jnp.cos(jnp.arange(features.size)).reshape(features.shape)
            return jnp.sum(features * weights), features

        return jax.value_and_grad(weighted, has_aux=True)(layers)

    with jax.default_matmul_precision("highest"):
        (_, want), slopes = total(networks._on_pixels, pixels)
        (_, found), others = total(on_blocks, pixels)
    assert np.any(want)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-3)
    for one, other in zip(jax.tree.leaves(slopes), jax.tree.leaves(others), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3 * float(jnp.max(jnp.abs(one))))


def test_bfloat16_is_near_float32():
    network, shape = build_convolutions(jax.random.key(0), (17, 22), 9, 4)
    pixels = jnp.asarray(np.random.default_rng(0).integers(0, 256, (8, 3, 17, 22, 3), np.uint8))
    projection = build_projection(jax.random.key(1), shape, 5)
    want = projection.linear(network(pixels))
    network, projection = (encoder_in(part, jnp.dtype("bfloat16")) for part in (network, projection))
    found = projection.linear(network(pixels))
    np.testing.assert_allclose(found, want, atol=0.03 * float(jnp.max(jnp.abs(want))))
