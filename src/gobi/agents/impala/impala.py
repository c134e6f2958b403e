"""IMPALA: V-trace updates on each rollout, behind the contract of learners."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
from jaxtyping import Array, Bool, Float32, Int32, Key, Num, PyTree

from gobi.agents import distributions, networks
from gobi.agents.impala import learner, optimiser
from gobi.agents.learner import Rollout
from gobi.agents.networks import separate
from gobi.agents.value_scale import first_value_scale
from gobi.types import Spec


@dataclasses.dataclass(frozen=True)
class IMPALA:
    """Task reward and bonus are one reward, with one value.

    The defaults are the paper's learner, on grids; rewards of other sizes need the last three.

    network:       the policy's: paper, coded or compact, for grids; feedforward or recurrent, for any task.
    timeouts:      a truncated episode ends with value 0 (terminal) or goes on (bootstrap).
    precision:     of the matrix products; weights and optimiser stay float32.
    units:         width of feedforward and recurrent networks.
    passes:        gradient steps on each rollout; V-trace corrects for the policy moving on.
    scale_values:  values are in units of their running scale (PopArt).
    standardise:   advantages have mean 0 and deviation 1, and losses are means over time.
    """

    network: str
    timeouts: str
    precision: str = "float32"
    units: int = separate.UNITS
    passes: int = 1
    scale_values: bool = False
    standardise: bool = False

    Hyper: ClassVar = learner.Hyper
    logs: ClassVar[tuple[str, ...]] = ()

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> tuple[Any, optimiser.RMSProp]:
        """A new policy, and running squares of zero."""
        del num_envs
        policy = networks.build(self.network, spec, key, self.units)
        squares = optimiser.init(policy)
        if self.scale_values:
            return policy, learner.ScaledRMSProp(squares.squares, first_value_scale())
        return policy, squares

    def initial_carry(self, policy: Any, num_envs: int) -> PyTree:
        """Remembers nothing."""
        return policy.initial(num_envs)

    def actor(self, policy: Any) -> Any:
        """Weights in the precision of the products."""
        return jax.tree.map(lambda leaf: leaf.astype(self.precision), policy)

    def noise(
        self, key: Key[Array, ""], spec: Spec, steps: int, num_envs: int
    ) -> Float32[Array, "steps envs actions"]:
        """Of a categorical policy Gumbel's, of a Gaussian one normal."""
        return distributions.noise(key, spec, steps, num_envs)

    def act(
        self,
        policy: Any,
        observation: Num[Array, "envs *shape"],
        first: Bool[Array, " envs"],
        carry: PyTree,
        noise: Float32[Array, "envs actions"],
    ) -> tuple[Int32[Array, " envs"] | Float32[Array, "envs size"], Float32[Array, "envs outputs"], PyTree]:
        """Actions, the policy's outputs, and the new carry."""
        logits, _, carry = policy(observation, first, carry)
        return distributions.sample(logits, noise), logits, carry

    def learn(
        self,
        policy: Any,
        squares: optimiser.RMSProp,
        rollout: Rollout,
        hyper: learner.Hyper,
        learning_rate: Float32[Array, ""],
        key: Key[Array, ""],
        longest: int,
    ) -> tuple[Any, optimiser.RMSProp, learner.Metrics]:
        """Steps of RMSProp on V-trace's losses. It draws nothing."""
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
        several = {"passes": self.passes, "standardise": self.standardise}
        return learner.learn(
            policy, squares, unroll, hyper, learning_rate, self.precision, timeouts, **several
        )
