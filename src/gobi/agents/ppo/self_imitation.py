"""Self-imitation: rollouts that earned something are kept, and what was better than expected is done again.

A rare success is otherwise seen in one update only, and forgotten over the many without one. After Oh et al.
(2018): the policy is pulled towards the actions of kept rollouts, as far as their return exceeds its value.
"""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, Num, PyTree

from gobi.agents import distributions
from gobi.agents.learner import Rollout
from gobi.types import Spec


class ImitationBuffer(eqx.Module):
    """Rows of rollouts, one environment's steps each, in which the task's reward was earned: the latest.

    Rows come first: a row is then one piece of memory.

    returns:  discounted rewards from each step on, to the end of its episode or of the rollout.
    carry:    what the policy remembered before the row's first step.
    count:    rows ever kept; the newest replaces the oldest.
    """

    observations: Num[Array, "rows steps *shape"]
    first: Bool[Array, "rows steps"]
    actions: Int32[Array, "rows steps"] | Float32[Array, "rows steps size"]
    returns: Float32[Array, "rows steps"]
    carry: PyTree
    count: Int32[Array, ""]

    def add(self, rollout: Rollout, discount: Float32[Array, ""]) -> ImitationBuffer:
        """With the rows of a rollout that earned something."""
        size = len(self.first)
        new = ImitationBuffer(
            observations=jnp.swapaxes(rollout.observations[:-1], 0, 1),
            first=rollout.first[:-1].T,
            actions=jnp.swapaxes(rollout.actions, 0, 1),
            returns=returns_to_go(rollout.rewards, rollout.done, discount).T,
            carry=rollout.carry,
            count=self.count,
        )
        earned = jnp.any(rollout.rewards > 0, axis=0)
        place = (self.count + jnp.cumsum(earned, dtype=jnp.int32) - 1) % size
        place = jnp.where(earned, place, size)

        def put(old, new):
            return old.at[place].set(new, mode="drop") if old.ndim else old

        # While rewards are rare, most rollouts have none. Over several seeds side by side both sides run.
        buffer = jax.lax.cond(jnp.any(earned), lambda: jax.tree.map(put, self, new), lambda: self)
        return dataclasses.replace(buffer, count=self.count + jnp.sum(earned, dtype=jnp.int32))

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Int32[Array, "*shape"]:
        """Numbers of rows drawn from those there are; 0, a row without returns, where there are none."""
        filled = jnp.minimum(self.count, len(self.first))
        return jax.random.randint(key, shape, 0, jnp.maximum(filled, 1))

    def rows(self, numbers: Int32[Array, " some"]) -> ImitationBuffer:
        """Some of the rows."""
        return jax.tree.map(lambda part: part[numbers] if part.ndim else part, self)


def empty_buffer(rows: int, steps: int, spec: Spec, carry: PyTree) -> ImitationBuffer:
    """Room for so many rows of so many steps, of policies that remember `carry` for each row."""
    if distributions.is_continuous(spec):
        actions = jnp.zeros((rows, steps, spec.action_size))
    else:
        actions = jnp.zeros((rows, steps), jnp.int32)
    return ImitationBuffer(
        observations=jnp.zeros((rows, steps, *spec.observation_shape), spec.observation_dtype),
        first=jnp.zeros((rows, steps), bool),
        actions=actions,
        returns=jnp.zeros((rows, steps)),
        carry=carry,
        count=jnp.int32(0),
    )


def returns_to_go(
    rewards: Float32[Array, "steps envs"], done: Bool[Array, "steps envs"], discount: Float32[Array, ""]
) -> Float32[Array, "steps envs"]:
    """R_t = r_t + discount R_{t+1}, and nothing from after an episode's end or the rollout's.

    Where rewards are never negative, that is at most the whole return.
    """

    def back(later, step):
        reward, done = step
        total = reward + discount * jnp.where(done, 0.0, later)
        return total, total

    return jax.lax.scan(back, jnp.zeros_like(rewards[0]), (rewards, done), reverse=True)[1]


def loss(
    outputs: Float32[Array, "steps rows size"],
    values: Float32[Array, "steps rows"],
    replayed: ImitationBuffer,
) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
    """-mean log pi(a) max(R - V, 0) over steps with something to come, R > 0; and the mean of the maximum.

    outputs, values:  the policy's now, and its values of the task, which pass no gradient.
    """
    returns = replayed.returns.T
    counted = returns > 0
    advantage = jnp.where(counted, jnp.maximum(returns - jax.lax.stop_gradient(values), 0.0), 0.0)
    steps = jnp.maximum(jnp.sum(counted), 1)
    log_taken = distributions.log_probability(outputs, jnp.swapaxes(replayed.actions, 0, 1))
    return -jnp.sum(log_taken * advantage) / steps, jnp.sum(advantage) / steps
