"""A step of an environment as one row of bytes, and read again on the device."""

from __future__ import annotations

import numpy as np
import pytest

from gobi.envs.dmc import Step
from gobi.training.control import parcel
from gobi.types import Spec

PICTURE = np.random.default_rng(0).integers(0, 256, (5, 4, 3), np.uint8)
VECTOR = np.array([0.1, -np.pi, 1e-30, 3e38], np.float32)


@pytest.mark.parametrize("seen", [PICTURE, VECTOR, PICTURE[:, ::-1]], ids=["picture", "vector", "mirrored"])
@pytest.mark.parametrize("ends", [(False, False), (True, False), (False, True)])
def test_what_arrives_is_what_was_sent_bit_for_bit(seen, ends):
    spec = Spec(
        id="some/task",
        observation_shape=seen.shape,
        observation_dtype=str(seen.dtype),
        num_actions=0,
        action_size=1,
        max_steps=10,
    )
    sent = parcel.packed(Step(seen, 1 / 3, *ends))
    found = np.asarray(parcel.observation(sent, spec))
    assert found.dtype == seen.dtype
    np.testing.assert_array_equal(found, seen)
    reward, terminated, truncated = parcel.earned(sent)
    assert np.float32(reward) == np.float32(1 / 3)
    assert (bool(terminated), bool(truncated)) == ends
