"""PPO's loss against numpy, one step and one environment at a time."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ppo_cases import ENVS, STEPS, batch, learner, policy

from gobi.agents.ppo import Hyper

losses = jax.jit(lambda who, *inputs: who.losses(*inputs), static_argnums=0)
unrolled = jax.jit(lambda policy, *inputs: policy.unroll(*inputs))


def by_hand(policy, lesson, hyper):
    """All that is logged, in float64, from the policy's logits and values."""
    logits, values, _ = unrolled(policy, lesson.observations, lesson.first, lesson.carry)
    logits, values = np.asarray(logits, np.float64), np.asarray(values, np.float64)
    advantages = np.asarray(lesson.advantages, np.float64)
    advantages = (advantages - advantages.mean()) / advantages.std()
    bound = float(hyper.clip_ratio)
    surrogate, squares, entropies, kls, clipped, kinds = [], [], [], [], [], set()
    for t in range(STEPS):
        for e in range(ENVS):
            chances = np.exp(logits[t, e]) / np.exp(logits[t, e]).sum()
            ratio = chances[int(lesson.actions[t, e])] / np.exp(float(lesson.log_taken[t, e]))
            advantage = advantages[t, e]
            if advantage >= 0:
                surrogate.append(min(ratio, 1 + bound) * advantage)
            else:
                surrogate.append(max(ratio, 1 - bound) * advantage)
            squares.append((np.asarray(lesson.targets[t, e], np.float64) - values[t, e]) ** 2)
            entropies.append(-(chances * np.log(chances)).sum())
            kls.append(ratio - 1 - np.log(ratio))
            side = int(np.sign(ratio - 1)) * (abs(ratio - 1) > bound)
            clipped.append(side != 0)
            kinds.add((side, bool(advantage > 0)))
    told = {
        "policy_loss": -np.mean(surrogate),
        "value_loss": 0.5 * np.mean(np.sum(squares, axis=-1)),
        "entropy": np.mean(entropies),
        "value_error": np.sqrt(np.mean(squares)),
        "value": values[..., 0].mean(),
        "kl": np.mean(kls),
        "clipped": np.mean(clipped),
    }
    loss = told["policy_loss"] + float(hyper.value_cost) * told["value_loss"]
    return told | {"loss": loss - float(hyper.entropy_cost) * told["entropy"]}, kinds


@pytest.mark.parametrize("numbers", [{}, {"clip_ratio": 0.1, "entropy_cost": 0.5, "value_cost": 2.0}])
@pytest.mark.parametrize("values", [1, 2])
def test_the_loss_and_all_that_is_logged_are_those_of_numpy(values, numbers):
    mine, hyper = policy(values=values), Hyper(**numbers)
    lesson = batch(mine)
    loss, told = losses(learner(), mine, lesson, hyper)
    expected, kinds = by_hand(mine, lesson, hyper)
    # Ratios below, within and above the bounds, each with advantages of both signs.
    assert len(kinds) == 6
    assert told.keys() == expected.keys()
    for name, number in expected.items():
        np.testing.assert_allclose(told[name], number, rtol=1e-4, atol=1e-5, err_msg=name)
    assert loss == told["loss"]


def gradient_to_logits(advantages, log_taken):
    """What reaches the heads' biases of logits, with no entropy and no value loss."""
    mine, hyper = policy(), Hyper(entropy_cost=0.0, value_cost=0.0)
    lesson = dataclasses.replace(batch(mine), advantages=advantages, log_taken=log_taken)
    gradient = jax.jit(jax.grad(lambda p: learner().losses(p, lesson, hyper)[0]))(mine)
    return np.asarray(gradient.heads.bias[:4])


def test_a_step_that_went_far_enough_its_way_is_not_followed_further():
    mine = policy()
    lesson = batch(mine)
    logits, _, _ = unrolled(mine, lesson.observations, lesson.first, lesson.carry)
    now = jnp.take_along_axis(jax.nn.log_softmax(logits), lesson.actions[..., None], axis=-1)[..., 0]
    sign = jnp.where(jnp.arange(STEPS * ENVS).reshape(STEPS, ENVS) % 2 == 0, 1.0, -1.0)
    # Good actions are likelier by half than they were, bad ones less likely: nothing is left to do.
    np.testing.assert_array_equal(gradient_to_logits(sign, now - 0.5 * sign), np.zeros(4))
    # It went the wrong way: however far, it is called back.
    assert np.abs(gradient_to_logits(sign, now + 0.5 * sign)).max() > 1e-3


def test_advantages_are_standardised_over_the_minibatch():
    mine = policy()
    lesson = batch(mine)
    other = dataclasses.replace(lesson, advantages=100 * lesson.advantages - 7)
    loss, _ = losses(learner(), mine, lesson, Hyper())
    np.testing.assert_allclose(losses(learner(), mine, other, Hyper())[0], loss, rtol=1e-4)


def test_advantages_that_are_all_alike_teach_nothing():
    mine = policy()
    lesson = dataclasses.replace(batch(mine), advantages=jnp.full((STEPS, ENVS), 3.0))
    _, told = losses(learner(), mine, lesson, Hyper())
    assert abs(told["policy_loss"]) < 1e-3


def test_half_precision_is_near():
    mine = policy()
    lesson = batch(mine)
    _, whole = losses(learner(), mine, lesson, Hyper())
    _, half = losses(learner(precision="bfloat16"), mine, lesson, Hyper())
    for name in ("policy_loss", "value_loss", "entropy", "value", "kl"):
        np.testing.assert_allclose(half[name], whole[name], rtol=0.05, atol=0.02, err_msg=name)
