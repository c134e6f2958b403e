"""When a memory is given more room."""

from __future__ import annotations

import numpy as np

from gobi.memory.crowding import crowded


def test_a_memory_grows_when_it_is_half_full_or_dropped_a_code():
    calm = {"load/lifelong": np.array([0.4, 0.1]), "dropped/lifelong": np.array([3.0, 0.0])}
    assert crowded(calm, before=calm) == frozenset()
    assert crowded({**calm, "load/lifelong": np.array([0.1, 0.6])}, before=calm) == {"lifelong"}
    assert crowded({**calm, "dropped/lifelong": np.array([3.0, 1.0])}, before=calm) == {"lifelong"}
    assert crowded(calm, before=None) == {"lifelong"}
    assert crowded({"return": np.array([1.0])}, before=None) == frozenset()
