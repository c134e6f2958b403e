"""IMPALA: the learner of MiniGrid's loop as a part that can be swapped. One V-trace update per rollout."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, UInt8

from gobi.agents.impala import learner, networks, optimiser
from gobi.agents.impala.networks import Carry, Policy
from gobi.agents.learner import Rollout
from gobi.types import Spec


@dataclasses.dataclass(frozen=True)
class IMPALA:
    """Task reward and bonus are one reward, with one value.

    network:    the policy's: paper, coded or compact.
    timeouts:   a truncated episode ends with value 0 (terminal) or goes on (bootstrap).
    precision:  of the matrix products; weights and optimiser stay float32.
    """

    network: str
    timeouts: str
    precision: str

    Hyper: ClassVar = learner.Hyper
    logs: ClassVar[tuple[str, ...]] = ()

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> tuple[Policy, optimiser.RMSProp]:
        """A new policy, and running squares of zero."""
        del num_envs
        policy = networks.build(self.network, spec, key)
        return policy, optimiser.init(policy)

    def initial_carry(self, policy: Policy, num_envs: int) -> Carry:
        """Remembers nothing."""
        return policy.initial(num_envs)

    def actor(self, policy: Policy) -> Policy:
        """Weights in the precision of the products."""
        return jax.tree.map(lambda leaf: leaf.astype(self.precision), policy)

    def noise(
        self, key: Key[Array, ""], spec: Spec, steps: int, num_envs: int
    ) -> Float32[Array, "steps envs actions"]:
        """Gumbel's: the largest of logits plus noise is a draw from the policy."""
        return jax.random.gumbel(key, (steps, num_envs, spec.num_actions))

    def act(
        self,
        policy: Policy,
        observation: UInt8[Array, "envs *shape"],
        first: Bool[Array, " envs"],
        carry: Carry,
        noise: Float32[Array, "envs actions"],
    ) -> tuple[Int32[Array, " envs"], Float32[Array, "envs actions"], Carry]:
        """Actions, their logits, and the new carry."""
        logits, _, carry = policy(observation, first, carry)
        return jnp.argmax(logits + noise, axis=-1).astype(jnp.int32), logits, carry

    def learn(
        self,
        policy: Policy,
        squares: optimiser.RMSProp,
        rollout: Rollout,
        hyper: learner.Hyper,
        learning_rate: Float32[Array, ""],
        key: Key[Array, ""],
        longest: int,
    ) -> tuple[Policy, optimiser.RMSProp, learner.Metrics]:
        """One step of RMSProp on V-trace's losses. It draws nothing."""
        del key
        unroll = learner.Unroll(
            observations=rollout.observations,
            first=rollout.first,
            actions=rollout.actions,
            logits=rollout.noted,
            rewards=rollout.total,
            terminal=rollout.done,
            carry=rollout.carry,
        )
        timeouts = None
        if self.timeouts == "bootstrap":
            cut = rollout.truncated & ~rollout.terminated
            most = -(-len(rollout.rewards) // longest)
            timeouts = learner.Timeouts(cut, rollout.last_observations, most)
        return learner.learn(policy, squares, unroll, hyper, learning_rate, self.precision, timeouts)
