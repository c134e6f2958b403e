"""Learner: the contract of an on-policy learner. What it is given of a rollout, and what it must answer.

The training loop plays a rollout with `act`, pays its bonus, and hands both to `learn`. A learner is a frozen
record of what is fixed when the loop is compiled; its numbers come in as arrays, so that a sweep is a `vmap`
axis; all that changes is the policy and what its optimiser keeps.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Key, Num, PyTree

from gobi.types import Spec

Metrics = dict[str, Float32[Array, ""]]

Policy = TypeVar("Policy")


class Weights(eqx.Module):
    """How task reward and bonus add up: extrinsic * task + intrinsic * bonus, clipped to +- clip."""

    extrinsic: Float32[Array, ""]
    intrinsic: Float32[Array, ""]
    clip: Float32[Array, ""]


class Rollout(eqx.Module):
    """What the actors did in `steps` steps; `states` is one more than `steps`.

    observations:       what was acted on, and last what the next rollout will act on.
    first:              whether an episode begins with that observation.
    actions:            what was done.
    noted:              what `act` noted of each step besides: the learner's own.
    rewards:            the task's reward, as it is.
    bonus:              the intrinsic reward, as it is.
    weights:            how the two add up.
    terminated:         the task ended here: nothing follows.
    truncated:          the episode ran out of steps here.
    last_observations:  what each step led to; at an episode's end its true last observation.
    carry, next_carry:  what the policy remembered before the first observation, and before the last.
    """

    observations: Num[Array, "states envs *shape"]
    first: Bool[Array, "states envs"]
    actions: Num[Array, "steps envs *size"]
    noted: PyTree
    rewards: Float32[Array, "steps envs"]
    bonus: Float32[Array, "steps envs"]
    weights: Weights
    terminated: Bool[Array, "steps envs"]
    truncated: Bool[Array, "steps envs"]
    last_observations: Num[Array, "steps envs *shape"]
    carry: PyTree
    next_carry: PyTree

    @property
    def done(self) -> Bool[Array, "steps envs"]:
        """The episode is over, for whatever reason."""
        return self.terminated | self.truncated

    @property
    def total(self) -> Float32[Array, "steps envs"]:
        """Task reward and bonus as one reward, for a learner with one value."""
        weights = self.weights
        total = weights.extrinsic * self.rewards + weights.intrinsic * self.bonus
        return jnp.clip(total, -weights.clip, weights.clip)


@runtime_checkable
class Learner(Protocol[Policy]):
    """An on-policy learner. Hashable; holds no arrays. Its fields are named like a recipe's.

    Hyper:  its numbers, an `eqx.Module` whose fields are named like a recipe's.
    """

    Hyper: ClassVar[type[eqx.Module]]

    @property
    def logs(self) -> tuple[str, ...]:
        """Names of its metrics that get columns of their own."""
        ...

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> tuple[Policy, PyTree]:
        """A new policy, and what the optimiser keeps before the first update."""
        ...

    def initial_carry(self, policy: Policy, num_envs: int) -> PyTree:
        """What the policy remembers before anything was seen."""
        ...

    def actor(self, policy: Policy) -> Policy:
        """The policy as it acts: cast to the precision of its products, once for a whole rollout."""
        ...

    def noise(self, key: Key[Array, ""], spec: Spec, steps: int, num_envs: int) -> Array:
        """All draws of a rollout, made before its first step: one per step and environment."""
        ...

    def act(
        self, policy: Policy, observation: Array, first: Array, carry: PyTree, noise: Array
    ) -> tuple[Array, PyTree, PyTree]:
        """Actions, what is noted of them for `learn`, and the new carry."""
        ...

    def learn(
        self,
        policy: Policy,
        optimiser: PyTree,
        rollout: Rollout,
        hyper: Any,
        learning_rate: Float32[Array, ""],
        key: Key[Array, ""],
        longest: int,
    ) -> tuple[Policy, PyTree, Metrics]:
        """One update on one rollout.

        longest:  steps of the longest episode: how often one environment can be truncated in a rollout.
        """
        ...
