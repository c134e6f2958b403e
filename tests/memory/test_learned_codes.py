"""Learned codes: an auto-encoder with a bottleneck of bits names frames by what it has learned of them."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.errors import GobiError
from gobi.memory.codes import SimHash
from gobi.memory.learned_codes import CodeSettings, LearnedCodes

SETTINGS = CodeSettings(bits=50, latent=24, depth=4, learning_rate=5e-3)
PLACES = 6
STEPS = 150


def squares(shade: float = 0.4) -> jax.Array:
    """Frames with a square in one of six places."""
    frames = np.full((PLACES, 64, 64, 3), -0.2, np.float32)
    for place in range(PLACES):
        top, left = 32 * (place % 2), 21 * (place // 2)
        frames[place, top + 4 : top + 28, left + 2 : left + 20] = (shade, 0.1, -0.5)
    return jnp.asarray(frames)


@pytest.fixture(scope="module")
def untrained() -> LearnedCodes:
    return jax.jit(lambda key: LearnedCodes.init(key, SETTINGS))(jax.random.key(0))


@pytest.fixture(scope="module")
def trained(untrained):
    """Codes that have learned the squares, and what was measured on the way."""
    frames = squares()
    learn = jax.jit(LearnedCodes.learn)
    codes, measured = untrained, []
    for step in range(STEPS):
        codes, measures = learn(codes, jax.random.key(step), frames)
        measured.append({name: float(value) for name, value in measures.items()})
    return codes, measured


def units(codes: LearnedCodes, frames) -> np.ndarray:
    return np.asarray(jax.jit(lambda codes: jax.nn.sigmoid(codes.network.logits(frames)))(codes))


def different(codes) -> int:
    return len(np.unique(np.asarray(codes), axis=0))


def test_it_overfits_a_few_frames(trained):
    _, measured = trained
    frames = squares()
    spread = float(jnp.std(frames - jnp.mean(frames, axis=0)))
    assert measured[0]["codes/pixel_error"] > spread
    assert measured[-1]["codes/pixel_error"] < 0.5 * spread
    assert measured[-1]["codes/loss"] < 0.1 * measured[0]["codes/loss"]


def test_the_bottleneck_becomes_nearly_binary(untrained, trained):
    codes, measured = trained
    between = np.minimum(units(codes, squares()), 1 - units(codes, squares()))
    assert between.mean() < 0.05
    assert np.minimum(*(abs(bit - units(untrained, squares())) for bit in (0, 1))).mean() > 0.3
    assert measured[-1]["codes/between"] == pytest.approx(between.mean(), abs=0.02)


def test_equal_frames_have_equal_codes_and_different_ones_different_codes(trained):
    codes, _ = trained
    frames = squares()
    made = codes(frames)
    assert made.shape == (PLACES, 2)
    assert made.dtype == jnp.uint32
    np.testing.assert_array_equal(made, codes(frames + 0.0))
    assert different(made) == PLACES


def test_a_little_noise_does_not_change_a_code(trained):
    codes, _ = trained
    noise = 0.01 * jax.random.normal(jax.random.key(9), (PLACES, 64, 64, 3))
    np.testing.assert_array_equal(codes(squares() + noise), codes(squares()))


def test_without_a_simhash_the_rounded_bottleneck_is_the_code(trained):
    codes, _ = trained
    plain = dataclasses.replace(codes, simhash=None, settings=dataclasses.replace(codes.settings, bits=0))
    rounded = units(codes, squares()) > 0.5
    assert different(plain(squares())) == len(np.unique(rounded, axis=0))


def test_a_code_is_the_simhash_of_the_rounded_bottleneck(trained):
    codes, _ = trained
    assert isinstance(codes.simhash, SimHash)
    rounded = np.where(units(codes, squares()) > 0.5, 1.0, -1.0)
    np.testing.assert_array_equal(codes(squares()), codes.simhash(jnp.asarray(rounded, jnp.float32)))


def test_one_frame_or_many_at_once(trained):
    codes, _ = trained
    frames = squares()
    together = codes(frames.reshape(2, 3, 64, 64, 3))
    assert together.shape == (2, 3, 2)
    np.testing.assert_array_equal(together[1, 0], codes(frames[3]))


def test_sizes_that_make_no_code_are_refused():
    for wrong in (CodeSettings(latent=0), CodeSettings(bits=-1)):
        with pytest.raises(GobiError, match="need a bottleneck"):
            LearnedCodes.init(jax.random.key(0), wrong)
