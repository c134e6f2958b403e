"""The tests run with shapes and dtypes checked; else annotations could say anything."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from gobi.envs.minigrid import cells
from gobi.memory.neighbours import squared_distances


def test_a_wrong_shape_is_refused():
    with pytest.raises(TypeCheckError, match="squared_distances"):
        squared_distances(jnp.zeros((2, 3)), jnp.zeros((2, 4)))


def test_a_wrong_dtype_is_refused_deep_within_a_package():
    with pytest.raises(TypeCheckError, match="object_of"):
        cells.object_of(jnp.zeros(3))
