"""The numbers of a recipe as arrays: what they are after so many frames."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.errors import GobiError
from gobi.training.knobs import knobs
from gobi.training.recipes import recipe

TASK = "MiniGrid-DoorKey-5x5-v0"


@pytest.mark.parametrize("learner", ["impala", "ppo"])
@pytest.mark.parametrize(("decay", "left"), [("linear", (1.0, 0.75, 0.0)), ("none", (1.0, 1.0, 1.0))])
def test_the_entropys_weight_falls_with_the_learning_rate_or_stays(learner, decay, left):
    settings = recipe(TASK, learner=learner, frames=100_000, entropy_decay=decay, entropy_cost=0.04)
    numbers = knobs(settings)
    for share, expected in zip((0.0, 0.25, 2.0), left, strict=True):
        frames = jnp.float32(share * settings.all_frames)
        np.testing.assert_allclose(numbers.hyper_after(frames).entropy_cost, 0.04 * expected, rtol=1e-5)
        fallen = settings.learning_rate * max(0.0, 1 - share)
        np.testing.assert_allclose(numbers.rate(frames), fallen, rtol=1e-5)


def test_all_other_numbers_of_the_learner_stay_as_they_are():
    numbers = knobs(recipe(TASK, entropy_decay="linear"))
    later = numbers.hyper_after(jnp.float32(1e5))
    same = eqx.tree_at(lambda hyper: hyper.entropy_cost, later, numbers.hyper.entropy_cost)
    assert eqx.tree_equal(same, numbers.hyper)


def test_the_entropy_cannot_fall_with_a_rate_that_stays():
    with pytest.raises(GobiError, match="entropy_decay=linear falls with the learning rate"):
        recipe(TASK, entropy_decay="linear", learning_rate_decay="none")
