"""Crops are slices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gobi.agents.rad import crops


def test_a_crop_is_the_slice_of_every_frame_of_its_stack():
    random = np.random.default_rng(0)
    frames = random.integers(0, 256, (7, 9, 8, 3), dtype=np.uint8)
    slots = random.integers(0, 7, (5, 3), dtype=np.int32)
    corners = np.array([[0, 0], [4, 3], [2, 1], [4, 0], [1, 3]], np.int32)
    cut = jax.jit(crops.cropped, static_argnums=3)(frames, slots, corners, 5)
    for row, (slot, (down, right)) in enumerate(zip(slots, corners, strict=True)):
        stack = [frames[one, down : down + 5, right : right + 5] for one in slot]
        np.testing.assert_array_equal(cut[row], stack)


def test_corners_are_independent_and_reach_every_place_there_is_room_for():
    corners = np.asarray(crops.random_corners(jax.random.key(0), 4000, (3, 2)))
    places, counts = np.unique(corners, axis=0, return_counts=True)
    assert places.tolist() == [[down, right] for down in range(4) for right in range(3)]
    assert counts.min() > 4000 / 12 * 0.8


def test_the_middle_crop_leaves_as_much_on_every_side():
    assert crops.centre(2, (16, 16)).tolist() == [[8, 8], [8, 8]]
    assert crops.centre(1, (0, 4)).tolist() == [[0, 2]]


def test_without_room_the_crop_is_the_whole():
    frames = jnp.arange(2 * 4 * 4 * 1, dtype=jnp.uint8).reshape(2, 4, 4, 1)
    corners = crops.random_corners(jax.random.key(0), 1, (0, 0))
    cut = crops.cropped(frames, jnp.array([[1]], jnp.int32), corners, 4)
    np.testing.assert_array_equal(cut[0], frames[1:])
