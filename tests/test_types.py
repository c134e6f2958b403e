"""The records that every part passes along."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from gobi import Spec, Timestep


@pytest.mark.parametrize(
    ("terminated", "truncated", "done"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_a_timestep_is_done_when_terminated_or_truncated(terminated, truncated, done):
    blank = jnp.zeros((7, 7, 3), jnp.uint8)
    timestep = Timestep(blank, jnp.float32(0), jnp.bool_(terminated), jnp.bool_(truncated))
    assert bool(timestep.done) == done


def test_timesteps_can_be_stacked_and_still_say_what_is_done():
    def after(count):
        return Timestep(jnp.zeros((7, 7, 3), jnp.uint8), jnp.float32(0), count == 1, count > 2)

    stacked = jax.vmap(after)(jnp.arange(4))
    assert stacked.done.tolist() == [False, True, False, True]


def test_a_spec_cannot_be_changed_and_can_be_a_key():
    spec = Spec("task", (7, 7, 3), "uint8", 7, 100)
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.max_steps = 5  # pyright: ignore[reportAttributeAccessIssue]
    assert {spec: 1}[Spec("task", (7, 7, 3), "uint8", 7, 100)] == 1
