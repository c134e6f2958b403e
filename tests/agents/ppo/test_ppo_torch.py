"""A whole update of PPO, number for number as torch makes it."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch_update
from ppo_cases import learner, noted, optimiser, weights

from gobi.agents.learner import Rollout
from gobi.agents.networks.grid import Bits
from gobi.agents.ppo import Hyper, MinGRU, MinGRUState, Policy
from gobi.networks.layers import Linear

RECORDED = json.loads(torch_update.GOLDEN.read_text())


def as_policy(arrays) -> Policy:
    layers = {
        name: Linear(jnp.asarray(arrays[f"{name}_weight"]), jnp.asarray(arrays[f"{name}_bias"]))
        for name in ("torso", "gates", "heads")
    }
    return Policy(Bits(layers["torso"]), MinGRU(layers["gates"]), layers["heads"], torch_update.VALUES)


def named(policy: Policy):
    layers = {"torso": policy.torso.dense, "gates": policy.core.gates, "heads": policy.heads}
    return {
        f"{name}_{part}": np.asarray(getattr(layer, part))
        for name, layer in layers.items()
        for part in ("weight", "bias")
    }


def as_rollout(case) -> Rollout:
    alike = "observations", "first", "actions", "rewards", "bonus", "terminated", "truncated"
    return Rollout(
        **{name: jnp.asarray(case[name]) for name in (*alike, "last_observations")},
        noted=noted(case["log_taken"], case["values"]),
        weights=weights(torch_update.EXTRINSIC, torch_update.INTRINSIC),
        carry=MinGRUState(jnp.asarray(case["carry"])),
        next_carry=MinGRUState(jnp.asarray(case["next_carry"])),
    )


def test_three_steps_on_a_rollout_are_those_of_torch():
    case = torch_update.case()
    policy = as_policy(case["weights"])
    who = learner(timeouts="bootstrap", scale_bonus=True, epochs=torch_update.EPOCHS)
    learn = jax.jit(
        lambda *inputs: who.learn(*inputs, jnp.float32(torch_update.RATE), jax.random.key(0), longest=100)
    )
    hyper = Hyper(**torch_update.NUMBERS)
    after, kept, told = learn(policy, optimiser(policy, torch_update.ENVS), as_rollout(case), hyper)
    # The gradient is clipped: else the bound would not be tested.
    assert told["gradient_norm"] > 2 * torch_update.NUMBERS["max_grad_norm"]
    np.testing.assert_allclose(told["gradient_norm"], RECORDED["gradient_norm"], rtol=1e-4)
    assert 0 < told["clipped"] < 1
    for name, before in case["weights"].items():
        moved = np.asarray(RECORDED["weights"][name]) - before
        assert np.abs(moved).max() > torch_update.RATE
        np.testing.assert_allclose(named(after)[name] - before, moved, rtol=1e-3, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(named(after)[name], RECORDED["weights"][name], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(named(kept.adam.mu)[name], RECORDED["means"][name], rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(named(kept.adam.nu)[name], RECORDED["squares"][name], rtol=1e-3, atol=1e-8)


def test_the_recorded_numbers_are_those_of_the_torch_that_is_here():
    pytest.importorskip("torch")
    here = torch_update.update()
    for kind in ("weights", "means", "squares"):
        for name, numbers in RECORDED[kind].items():
            np.testing.assert_allclose(here[kind][name], numbers, rtol=1e-4, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(here["gradient_norm"], RECORDED["gradient_norm"], rtol=1e-5)
