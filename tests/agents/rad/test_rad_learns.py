"""RAD learns a task of dm_control from its state to the return that is known for it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import NEWER_EMITTERS

from gobi.agents.rad import RAD, Learner, Replay, empty, slots_for
from gobi.envs.dmc.environment import Control

STEPS, RANDOM_STEPS, BATCH = 2500, 250, 128
KNOWN = 1000
"""The most that an episode can bring; upright and still from first to last."""

pytest.importorskip("dm_control")


def environment(seed: int) -> Control:
    # Held for long, an action's effect is seen at once: fewer steps to learn from, and fewer to learn.
    return Control("dmc/cartpole_balance", seed, observations="state", repeat=8)


# What is learned in so few updates depends on how they round.
@functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2), compiler_options=NEWER_EMITTERS)
def turn(rad: RAD, learner: Learner, replay: Replay, key, action, reward, terminated, observation):
    """Takes a step in, learns once, and says what to do next."""
    replay = replay.add(action, reward, terminated, jnp.float32(0), observation)
    sample_key, update_key, act_key = jax.random.split(key, 3)
    batch = replay.sample(sample_key, BATCH)
    learner, _ = rad.update(learner, update_key, batch, batch.reward)
    return learner, replay, rad.act(learner, act_key, observation, explore=True)


def trained(rad: RAD, env: Control, seed: int) -> Learner:
    random = np.random.default_rng(seed)
    learner = rad.init(jax.random.key(seed), env.spec)
    begin = jax.jit(Replay.begin, donate_argnums=0)
    add = jax.jit(Replay.add, donate_argnums=0)
    replay = begin(empty(slots_for(STEPS, env.spec.max_steps), env.spec), env.reset())
    action = random.uniform(-1, 1, env.spec.action_size).astype(np.float32)
    for number in range(STEPS):
        step = env.step(np.asarray(action))
        lived = action, np.float32(step.reward), np.bool_(step.terminated)
        if number < RANDOM_STEPS:
            replay = add(replay, *lived, np.float32(0), step.observation)
            action = random.uniform(-1, 1, env.spec.action_size).astype(np.float32)
        else:
            key = jax.random.key(number)
            learner, replay, action = turn(rad, learner, replay, key, *lived, step.observation)
        if step.done:
            replay = begin(replay, env.reset())
    return learner


def episode_return(rad: RAD, learner: Learner, env: Control) -> float:
    act = jax.jit(functools.partial(rad.act, explore=False))
    total, seen, done = 0.0, env.reset(), False
    while not done:
        step = env.step(np.asarray(act(learner, jax.random.key(0), seen)))
        total, seen, done = total + step.reward, step.observation, step.done
    return total


def test_cartpole_is_balanced_after_a_few_thousand_updates():
    rad = RAD(hidden=128, learning_rate=1e-3, rate=0.05, discount=0.95)
    env = environment(seed=0)
    fresh = rad.init(jax.random.key(0), env.spec)
    assert episode_return(rad, fresh, env) < 0.6 * KNOWN
    learner = trained(rad, env, seed=0)
    returns = [episode_return(rad, learner, env) for _ in range(3)]
    assert np.mean(returns) > 0.9 * KNOWN, returns
