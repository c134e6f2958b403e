"""RMSProp and clipping against torch's numbers."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.agents.impala import optimiser

GOLDEN = json.loads(Path(__file__).with_name("rmsprop_golden.json").read_text())


def arrays(lists):
    return [jnp.array(numbers, jnp.float32) for numbers in lists]


def test_six_clipped_steps_give_the_numbers_of_torch():
    parameters = arrays(GOLDEN["start"])
    state = optimiser.init(parameters)
    for golden in GOLDEN["steps"]:
        gradients = arrays(golden["gradients"])
        size = optimiser.norm(gradients)
        np.testing.assert_allclose(size, golden["norm"], rtol=1e-6)
        gradients = optimiser.clip(gradients, size, GOLDEN["max_norm"])
        parameters, state = optimiser.step(parameters, gradients, state, golden["learning_rate"])
        for ours, theirs in zip(parameters, golden["parameters"], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-6)


def test_the_golden_numbers_hold_steps_on_both_sides_of_the_clip():
    norms = [golden["norm"] for golden in GOLDEN["steps"]]
    assert min(norms) < GOLDEN["max_norm"] < max(norms)


def test_small_gradients_are_not_clipped():
    gradients = arrays([[3.0, 4.0]])
    np.testing.assert_array_equal(optimiser.clip(gradients, optimiser.norm(gradients), 40.0)[0], gradients[0])


@pytest.mark.parametrize("max_norm", [1.0, 40.0])
def test_large_gradients_keep_their_direction_and_get_the_largest_norm(max_norm):
    gradients = arrays([[300.0, -400.0], [1200.0]])
    clipped = optimiser.clip(gradients, optimiser.norm(gradients), max_norm)
    np.testing.assert_allclose(optimiser.norm(clipped), max_norm, rtol=1e-5)
    np.testing.assert_allclose(clipped[0] / clipped[1], gradients[0] / gradients[1], rtol=1e-6)


def test_learning_rates_can_be_a_vmap_axis():
    parameters, gradients = arrays([[1.0, 2.0]]), arrays([[0.5, -0.5]])
    state = optimiser.init(parameters)
    rates = jnp.array([0.1, 0.01, 0.0])
    swept, _ = jax.vmap(lambda rate: optimiser.step(parameters, gradients, state, rate))(rates)
    for i, rate in enumerate(rates):
        alone, _ = optimiser.step(parameters, gradients, state, rate)
        np.testing.assert_allclose(swept[0][i], alone[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(swept[0][2], parameters[0])
