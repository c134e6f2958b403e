"""ICM: curiosity, the error with which a step's outcome was predicted in a space of learned features."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float32, Key

from gobi.rewards import dynamics
from gobi.rewards.real_steps import over_all
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition


class ICM(Reward):
    """||f(phi(o_t), a_t) - phi(o_{t+1})||^2 / 2, f the forward model (Pathak et al. 2017).

    network:   the networks, see `dynamics.dynamics`.
    units:    the length of an embedding; None takes the network's own.
    norm:     `squared`, halved, as in the original, or `plain` as in RIDE's public code. The forward loss is
              the same expression.
    forward:  the weight of the forward model's loss; `inverse` that of the inverse model's.
    rate:     the learning rate, which is constant.
    """

    network: str = eqx.field(static=True, default="ride")
    units: int | None = eqx.field(static=True, default=None)
    norm: str = eqx.field(static=True, default="squared")
    forward: float = eqx.field(static=True, default=0.2)
    inverse: float = eqx.field(static=True, default=0.8)
    rate: float = eqx.field(static=True, default=1e-4)

    def __check_init__(self):
        dynamics.check_options(
            self.network, self.units, self.norm, self.forward, self.inverse, rate=self.rate
        )

    @property
    def reads(self) -> frozenset[str]:
        """The observation."""
        return frozenset({"observation"})

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("surprise", "inverse_accuracy", "inverse_loss", "forward_loss")

    @property
    def factor(self) -> float:
        """What stands before the norm."""
        return 0.5 if self.norm == "squared" else 1.0

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> dynamics.Learner:
        """Fresh networks."""
        del num_envs
        return dynamics.learner(key, spec, self.network, self.units)

    def rollout(
        self, state: dynamics.Learner, transitions: Transition
    ) -> tuple[dynamics.Learner, Float32[Array, "time envs"], Metrics]:
        """The error of every step; none depends on another."""
        network = state.network
        before, after = network.embed_both(transitions.before, transitions.after)
        bonus = self.factor * network.forward_loss(before, after, transitions.action, self.norm)
        return state, bonus, {"surprise": over_all(bonus, transitions.real)}

    def learn(
        self, state: dynamics.Learner, key: Key[Array, ""], transitions: Transition
    ) -> tuple[dynamics.Learner, Metrics]:
        """One step on both models' losses."""
        del key
        return dynamics.learn(
            state,
            transitions,
            forward=self.factor * self.forward,
            inverse=self.inverse,
            norm=self.norm,
            learning_rate=self.rate,
        )
