"""Compiled changes of a state: what is handed through stays what it was, the rest is made anew."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.training.control.changing import Change, Held


def parts() -> list[Held]:
    counted = {"count": jnp.int32(1), "kept": (jnp.arange(3.0), jax.random.key(7))}
    return [Held.of(counted), Held.of(jnp.zeros(2))]


def stepped(state: list[Any], addend: Any) -> tuple[Any, Any]:
    counted, total = state
    return counted | {"count": counted["count"] + 1}, total + addend


def test_the_state_is_what_the_function_makes_of_it_call_after_call():
    change, now = Change(stepped), parts()
    for number in range(3):
        now = change(now, np.float32(number))
    counted, total = (part.tree for part in now)
    np.testing.assert_array_equal(total, [3, 3])
    np.testing.assert_array_equal(counted["kept"][0], [0, 1, 2])
    assert int(counted["count"]) == 4


def test_what_does_not_change_is_the_same_array_and_what_changes_is_used_up():
    before, total = parts()
    kept = before.tree["kept"]
    after = Change(stepped)([before, total], np.float32(1))[0].tree
    assert after["kept"][0] is kept[0]
    assert after["kept"][1] is kept[1]
    assert total.tree.is_deleted()
    assert not kept[0].is_deleted()


def test_what_is_held_beside_the_state_is_a_tree_in_the_function_and_stays_whole():
    beside = Held.of({"addend": jnp.float32(5)})
    change = Change(lambda state, beside: stepped(state, beside["addend"]))
    now = change(change(parts(), beside), beside)
    np.testing.assert_array_equal(now[1].tree, [10, 10])
    assert not beside.leaves[0].is_deleted()


def test_a_leaf_that_moves_to_another_place_is_not_taken_for_unchanged():
    swap = Change(lambda state: ((state[0][1], state[0][0]),))
    (pair,) = swap([Held.of((jnp.float32(1), jnp.float32(2)))])
    assert [float(leaf) for leaf in pair.tree] == [2, 1]


def test_the_function_is_traced_once():
    log: list[int] = []

    def function(state: list[Any], addend: Any) -> tuple[Any, Any]:
        log.append(1)
        return stepped(state, addend)

    change, now = Change(function), parts()
    for _ in range(3):
        now = change(now, np.float32(1))
    assert len(log) == 1


def test_a_function_that_loses_a_part_of_the_state_is_refused():
    with pytest.raises(AssertionError, match="other leaves"):
        Change(lambda state: state[:1])(parts())


def test_other_shapes_than_the_first_are_refused():
    """What was traced holds for those alone: a mean over four would divide eight by four."""
    change = Change(lambda state, numbers: (state[0] + jnp.mean(numbers),))
    (now,) = change([Held.of(jnp.float32(0))], jnp.ones(4))
    assert float(now.tree) == 1
    with pytest.raises(AssertionError, match="other shapes"):
        change([now], jnp.ones(8))
    with pytest.raises(AssertionError, match="another structure"):
        change([Held.of(jnp.float32(0))], {"numbers": jnp.ones(4)})
