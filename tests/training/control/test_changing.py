"""Compiled changes of a state: what is handed through stays what it was, the rest is made anew."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.training.control.changing import Change


def state() -> dict[str, Any]:
    return {"count": jnp.int32(1), "kept": (jnp.arange(3.0), jax.random.key(7)), "sum": jnp.zeros(2)}


def stepped(state: dict[str, Any], addend: Any, *, log: list[int] | None = None) -> dict[str, Any]:
    if log is not None:
        log.append(1)
    return {"count": state["count"] + 1, "kept": state["kept"], "sum": state["sum"] + addend}


def test_the_state_is_what_the_function_makes_of_it_call_after_call():
    change, now = Change(stepped), state()
    for number in range(3):
        now = change(now, np.float32(number))
    np.testing.assert_array_equal(now["sum"], [3, 3])
    np.testing.assert_array_equal(now["kept"][0], [0, 1, 2])
    assert int(now["count"]) == 4


def test_what_does_not_change_is_the_same_array_and_what_changes_is_used_up():
    before = state()
    after = Change(stepped)(before, np.float32(1))
    assert after["kept"][0] is before["kept"][0]
    assert after["kept"][1] is before["kept"][1]
    assert before["sum"].is_deleted()
    assert not before["kept"][0].is_deleted()


def test_a_leaf_that_moves_to_another_place_is_not_taken_for_unchanged():
    swap = Change(lambda pair: (pair[1], pair[0]))
    one, other = swap((jnp.float32(1), jnp.float32(2)))
    assert (float(one), float(other)) == (2, 1)


def test_the_function_is_traced_once():
    log: list[int] = []
    change, now = Change(lambda state, addend: stepped(state, addend, log=log)), state()
    for _ in range(3):
        now = change(now, np.float32(1))
    assert len(log) == 1


def test_a_function_that_loses_a_part_of_the_state_is_refused():
    with pytest.raises(AssertionError, match="other leaves"):
        Change(lambda state: {"count": state["count"]})(state())
