"""RND: how far a trained network is from a fixed random one on the new view (Burda et al. 2018)."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float32, Key

from gobi.rewards import distillation
from gobi.rewards.distillation import Distilled, Kind, Norm, Teaching
from gobi.rewards.real_steps import over_all
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition


class RND(Reward):
    """||predictor(o_{t+1}) - target(o_{t+1})||, with the predictor of before the rollout.

    The predictor learns after each rollout to make this smaller on the views it met: its loss is the bonus
    itself, averaged over environments and summed over time, minimised by RMSProp as torch has it.

    norm:         `plain`, as in the public code, or `squared`, as in the GoBI paper.
    network:      of target and predictor, see `distillation.embedding`: `ride`, `paper` or `small`.
    loss_weight:  0.1 in RIDE's public code, 1 in NovelD's.
    rate:         RMSProp's learning rate.
    """

    norm: Norm = eqx.field(static=True, default="plain")
    network: Kind = eqx.field(static=True, default="ride")
    loss_weight: float = eqx.field(static=True, default=0.1)
    rate: float = eqx.field(static=True, default=1e-4)

    def __check_init__(self):
        distillation.check_options(self.norm, self.network, loss_weight=self.loss_weight, rate=self.rate)

    @property
    def reads(self) -> frozenset[str]:
        """The agent's own view."""
        return frozenset({"observation"})

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("novelty", "predictor_loss")

    @property
    def teaching(self) -> Teaching:
        """How the predictor learns."""
        return Teaching("rmsprop", self.rate, self.norm, self.loss_weight, summed=True)

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Distilled:
        """Two random networks."""
        del num_envs
        return self.teaching.begin(distillation.on_views(key, spec, self.network))

    def rollout(
        self, state: Distilled, transitions: Transition
    ) -> tuple[Distilled, Float32[Array, "time envs"], Metrics]:
        """The novelty of where each step led."""
        bonus = state.networks.novelty(transitions.after["observation"], self.norm)
        return state, bonus, {"novelty": over_all(bonus, transitions.real)}

    def learn(
        self, state: Distilled, key: Key[Array, ""], transitions: Transition
    ) -> tuple[Distilled, Metrics]:
        """One step of the predictor on the views that were paid for."""
        del key
        return self.teaching.learn(state, transitions.after["observation"], transitions.real)
