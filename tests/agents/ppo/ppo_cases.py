"""Small policies, learners and rollouts that PPO's tests share."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gobi.agents.learner import Rollout, Weights
from gobi.agents.networks.grid import Bits
from gobi.agents.networks.lstm import lstm
from gobi.agents.ppo import PPO, Policy, mingru
from gobi.agents.ppo.ppo import ADAM, Batch, Noted, PPOState
from gobi.agents.ppo.return_scale import first_scale
from gobi.networks.layers import orthogonal_linear
from gobi.types import Spec

SPEC = Spec("Small", (3,), "uint8", num_actions=4, max_steps=100)
STEPS, ENVS, UNITS = 7, 6, 8

FIXED = {
    "network": "compact",
    "core": "mingru",
    "timeouts": "terminal",
    "precision": "float32",
    "epochs": 1,
    "minibatches": 1,
    "values": "two",
    "bonus_ends": False,
    "scale_bonus": False,
}


def learner(**changes) -> PPO:
    return PPO(**FIXED | changes)


@functools.partial(jax.jit, static_argnames=("core", "values", "inputs", "actions", "units"))
def made(key, core="mingru", values=2, inputs=3, actions=4, units=UNITS) -> Policy:
    """A policy as `build` makes it, but narrow, and not indifferent to what it does."""
    torso, memory, heads = jax.random.split(key, 3)
    return Policy(
        torso=Bits(orthogonal_linear(torso, 8 * inputs, units)),
        core=mingru(memory, units) if core == "mingru" else lstm(memory, units, units),
        heads=orthogonal_linear(heads, units, actions + values, gain=1.0),
        values=values,
    )


@functools.cache
def policy(core="mingru", values=2, seed=0) -> Policy:
    return made(jax.random.key(seed), core, values)


def optimiser(policy: Policy, num_envs: int = ENVS) -> PPOState:
    return PPOState(ADAM.init(policy), first_scale(num_envs))


def weights(extrinsic=1.0, intrinsic=1.0, clip=np.inf) -> Weights:
    return Weights(jnp.float32(extrinsic), jnp.float32(intrinsic), jnp.float32(clip))


@functools.partial(jax.jit, static_argnames=("learner", "envs"))
def _played(learner: PPO, policy: Policy, key, terminated, truncated, envs=ENVS) -> Rollout:
    steps = len(terminated)
    keys = jax.random.split(key, 6)
    done = terminated | truncated
    observations = jax.random.randint(keys[0], (steps + 1, envs, 3), 0, 9).astype(jnp.uint8)
    first = jnp.concatenate([jax.random.bernoulli(keys[1], 0.3, (1, envs)), done])
    carry = jax.tree.map(lambda part: part + 0.3, policy.initial(envs))
    noise = learner.noise(keys[2], SPEC, steps, envs)

    def step(carry, inputs):
        observation, first, noise = inputs
        action, noted, carry = learner.act(policy, observation, first, carry, noise)
        return carry, (action, noted)

    after, (actions, noted) = jax.lax.scan(step, carry, (observations[:-1], first[:-1], noise))
    others = jax.random.randint(keys[3], (steps, envs, 3), 0, 9).astype(jnp.uint8)
    return Rollout(
        observations=observations,
        first=first,
        actions=actions,
        noted=noted,
        rewards=jax.random.normal(keys[4], (steps, envs)),
        bonus=jax.random.uniform(keys[5], (steps, envs)),
        weights=weights(),
        terminated=terminated,
        truncated=truncated,
        last_observations=jnp.where(done[..., None], others, observations[1:]),
        carry=carry,
        next_carry=after,
    )


def rollout(policy: Policy, core="mingru", seed=0, ends=True) -> Rollout:
    """What the policy did in an environment of noise, from a carry that is not empty.

    ends:  environments 0 and 1 are terminated at step 2, 1 and 2 truncated at 4: environment 1 has both.
    """
    terminated, truncated = np.zeros((2, STEPS, ENVS), bool)
    if ends:
        terminated[2, [0, 1]] = True
        truncated[4, [1, 2]] = True
    values = "two" if policy.values == 2 else "one"
    who = learner(core=core, values=values)
    return _played(who, policy, jax.random.key(seed), jnp.asarray(terminated), jnp.asarray(truncated))


def batch(policy: Policy, seed=0) -> Batch:
    """A batch with advantages and targets drawn at random, and log-probabilities of a policy not far away."""
    played, keys = rollout(policy, seed=seed), jax.random.split(jax.random.key(100 + seed), 3)
    drawn = played.noted.log_taken + 0.4 * jax.random.normal(keys[0], (STEPS, ENVS))
    return Batch(
        observations=played.observations[:-1],
        first=played.first[:-1],
        actions=played.actions,
        log_taken=drawn,
        advantages=jax.random.normal(keys[1], (STEPS, ENVS)) + 0.5,
        targets=jax.random.normal(keys[2], (STEPS, ENVS, policy.values)),
        carry=played.carry,
    )


def noted(log_taken, values) -> Noted:
    return Noted(jnp.asarray(log_taken), jnp.asarray(values))
