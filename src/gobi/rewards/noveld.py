"""NovelD: the rise of novelty along a step, on an episode's first visit of a state (Zhang et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Key

from gobi import settings
from gobi.errors import unknown
from gobi.memory import episodic
from gobi.memory.codes import exact
from gobi.rewards import distillation
from gobi.rewards.distillation import Distilled, Kind, Norm, Teaching
from gobi.rewards.real_steps import over_all
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition, Views

FEATURES = ("frozen", "view")
COUNTED = ("full_grid", "observation")
MOST_CODES = 2**16
"""Codes per environment to begin with, at most."""


class Novelties(eqx.Module):
    """The state of `NovelD`.

    distilled:  the networks that tell how novel a view is.
    visited:    the states of this episode, for each environment.
    fresh:      whether an environment's next step begins an episode.
    """

    distilled: Distilled
    visited: episodic.EpisodicSet
    fresh: Bool[Array, "*seeds envs"]


class NovelD(Reward):
    """max(nov(o_{t+1}) - alpha nov(o_t), 0) x [s_{t+1} is visited for the first time in this episode].

    nov is the error of a predictor on a random network's output, see `distillation`; the predictor learns
    after each rollout (Adam, the mean error on the new views).

    alpha:        the share of the novelty left behind that is subtracted.
    norm:         of nov: `plain`, as in the public code, or `squared`, as in the GoBI paper.
    features:     what target and predictor read: those of a `frozen` random encoder, as in the public code,
                  or the `view` itself, as the papers have it.
    network:      `paper`, `ride` or `small`, see `distillation.embedding`: the encoder where it is frozen,
                  else target and predictor. Frozen and `paper` is the policy's feature extractor, as coded.
    counted:      the view that tells states apart: the `full_grid`, which the agent does not see, or its own
                  `observation`.
    first_state:  whether the state an episode begins in counts as visited. In the public code it does not: it
                  is entered just before the memory is emptied, so that coming back to it is paid once. That
                  looks like an accident, and is not the formula.
    loss_weight:  of the predictor's loss.
    rate:         Adam's learning rate.
    capacity:     states per episode to have room for; None takes what an episode can bring, to a limit.
    hash:         from the counted view to codes, for views that hardly ever recur exactly; None is exact.
    """

    alpha: float = eqx.field(static=True, default=0.5)
    norm: Norm = eqx.field(static=True, default="plain")
    features: Literal["frozen", "view"] = eqx.field(static=True, default="frozen")
    network: Kind = eqx.field(static=True, default="paper")
    counted: Literal["full_grid", "observation"] = eqx.field(static=True, default="full_grid")
    first_state: bool = eqx.field(static=True, default=True)
    loss_weight: float = eqx.field(static=True, default=1.0)
    rate: float = eqx.field(static=True, default=1e-4)
    capacity: int | None = eqx.field(static=True, default=None)
    hash: Any = None

    def __check_init__(self):
        distillation.check_options(self.norm, self.network, loss_weight=self.loss_weight, rate=self.rate)
        if self.features not in FEATURES:
            raise unknown("kind of features", self.features, FEATURES)
        if self.counted not in COUNTED:
            raise unknown("counted view", self.counted, COUNTED)
        settings.at_least(0, alpha=self.alpha)
        if self.capacity is not None:
            settings.at_least(1, capacity=self.capacity)

    @property
    def reads(self) -> frozenset[str]:
        """The agent's own view, and the one that is counted."""
        return frozenset({"observation", self.counted})

    @property
    def instead(self) -> Mapping[str, str]:
        """The observation may stand for the state."""
        return {"full_grid": "counted=observation"}

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("novelty", "predictor_loss", "novelty_rise", "first_visits")

    @property
    def teaching(self) -> Teaching:
        """How the predictor learns."""
        return Teaching("adam", self.rate, self.norm, self.loss_weight)

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Novelties:
        """Random networks and empty memories."""
        frozen = self.features == "frozen"
        make = distillation.on_frozen_features if frozen else distillation.on_views
        return Novelties(
            distilled=self.teaching.begin(make(key, spec, self.network)),
            visited=episodic.empty(num_envs, self.capacity or min(spec.max_steps + 1, MOST_CODES)),
            fresh=jnp.ones(num_envs, bool),
        )

    def rollout(
        self, state: Novelties, transitions: Transition
    ) -> tuple[Novelties, Float32[Array, "time envs"], Metrics]:
        """The rise of novelty along each step, where it led to a state that is new to its episode."""
        # One batch for each end, not one for both: where `learn` is compiled together with this, its forward
        # pass over the same views is then the same computation, and XLA makes it once.
        before, after = self.novelty(state, transitions.before), self.novelty(state, transitions.after)
        state, first_visits = self.first_visits(state, transitions)
        rise = jnp.maximum(after - self.alpha * before, 0)
        logged = {
            "novelty": over_all(after, transitions.real),
            "novelty_rise": over_all(rise, transitions.real),
            "first_visits": over_all(first_visits.astype(jnp.float32), transitions.real),
            "dropped/visits": state.visited.dropped.astype(jnp.float32),
            "load/visits": state.visited.load,
        }
        return state, jnp.where(first_visits, rise, 0), logged

    def learn(
        self, state: Novelties, key: Key[Array, ""], transitions: Transition
    ) -> tuple[Novelties, Metrics]:
        """One step of the predictor on where the steps led."""
        del key
        reached = transitions.after["observation"]
        distilled, logged = self.teaching.learn(state.distilled, reached, transitions.real)
        return Novelties(distilled, state.visited, state.fresh), logged

    def grow(self, state: Novelties, memories: frozenset[str]) -> Novelties:
        """Four times the room for every environment."""
        if "visits" not in memories:
            return state
        return Novelties(state.distilled, episodic.grow(state.visited), state.fresh)

    def novelty(self, state: Novelties, views: Views) -> Float32[Array, "time envs"]:
        """nov(o): what the predictor has not learned of each view."""
        return state.distilled.networks.novelty(views["observation"], self.norm)

    def first_visits(
        self, state: Novelties, transitions: Transition
    ) -> tuple[Novelties, Bool[Array, "time envs"]]:
        """Enters a rollout into the memories, and says which steps led to a state new to their episode."""
        starts = jnp.concatenate([state.fresh[None], transitions.done[:-1]])
        codes, valid = self._codes(transitions.after), jnp.ones_like(starts)
        both = [(codes, valid)]
        if self.first_state:
            # Of a step's two codes the first is entered first: where an episode begins, that of its start.
            both.insert(0, (self._codes(transitions.before), starts))
        codes, valid = (jnp.stack(parts, axis=2) for parts in zip(*both, strict=True))
        visited, new = episodic.insert(state.visited, codes, valid, starts)
        return Novelties(state.distilled, visited, transitions.done[-1]), new[:, :, -1]

    def _codes(self, views: Views):
        seen = views[self.counted]
        return exact(seen, ndim=seen.ndim - 2) if self.hash is None else self.hash(seen)
