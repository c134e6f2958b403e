"""Frames are made small as JAX's own resizing would, scaled as named, and averaged."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.errors import GobiError
from gobi.worlds.rssm import SCALINGS, MeanImage, scaled, shrink


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("size", [(100, 100), (84, 120), (64, 64), (40, 64)])
def test_shrinking_equals_jaxs_antialiased_linear_resizing(size):
    frames = noise(2, *size, 3)
    expected = jax.image.resize(
        jnp.asarray(frames, jnp.float32), (2, 64, 64, 3), "linear", antialias=True, precision="highest"
    )
    np.testing.assert_allclose(shrink(jnp.asarray(frames)), expected / 255 - 0.5, atol=1e-6)


def test_black_and_white_stay_what_they_are():
    frames = jnp.stack([jnp.zeros((100, 100, 3), jnp.uint8), jnp.full((100, 100, 3), 255, jnp.uint8)])
    small = shrink(frames)
    np.testing.assert_allclose(small[0], -0.5, atol=1e-6)
    np.testing.assert_allclose(small[1], 0.5, atol=1e-6)


def test_any_leading_axes_are_a_batch():
    frames = jnp.asarray(noise(2, 3, 100, 100, 3))
    one = shrink(frames[1, 2])
    assert one.shape == (64, 64, 3)
    np.testing.assert_allclose(shrink(frames)[1, 2], one, atol=1e-6)


def test_the_scalings_are_of_one_frame():
    small = shrink(jnp.asarray(noise(3, 64, 64, 3)))
    mean = jnp.mean(small, axis=0)
    np.testing.assert_allclose(scaled(small, "raw"), noise(3, 64, 64, 3), atol=1e-4)
    np.testing.assert_array_equal(scaled(small, "half"), small)
    np.testing.assert_allclose(jnp.mean(scaled(small, "centred", mean), axis=0), 0, atol=1e-6)
    assert set(SCALINGS) == {"raw", "half", "centred"}


def test_an_unknown_scaling_is_named_with_the_known_ones():
    with pytest.raises(GobiError, match="unknown scaling 'centered'; did you mean centred"):
        scaled(jnp.zeros((64, 64, 3)), "centered")


def test_centring_without_a_mean_image_is_refused():
    with pytest.raises(GobiError, match="needs a mean image"):
        scaled(jnp.zeros((64, 64, 3)), "centred")


def test_the_mean_image_is_that_of_all_frames_however_they_come():
    frames = shrink(jnp.asarray(noise(7, 64, 64, 3)))
    image = MeanImage.empty()
    for part in (frames[:1], frames[1:4], frames[4:]):
        image = image.add(part)
    assert int(image.count) == 7
    np.testing.assert_allclose(image.mean, jnp.mean(frames, axis=0), atol=1e-6)
