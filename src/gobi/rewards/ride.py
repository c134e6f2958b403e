"""RIDE: how much a step changes what the agent can control, less and less for states it keeps coming to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from gobi.errors import unknown
from gobi.memory import episodic_counts
from gobi.memory.codes import exact
from gobi.rewards import dynamics
from gobi.rewards.real_steps import over_all
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition

COUNTED = ("full_grid", "observation")
MOST_CODES = 2**16
"""States per environment to make room for beforehand, at most. Longer episodes grow from there."""


class Impact(eqx.Module):
    """The state of `RIDE`.

    learner:  the embedding and the models that train it.
    visits:   how often each state was met in this episode, for each environment.
    fresh:    whether an environment's next step begins an episode.
    """

    learner: dynamics.Learner
    visits: episodic_counts.EpisodicCounts
    fresh: Bool[Array, " envs"]


class RIDE(Reward):
    """||phi(o_{t+1}) - phi(o_t)|| / sqrt(N_ep(s_{t+1})), this visit counted (Raileanu and Rocktäschel 2020).

    phi is learned with a forward and an inverse model; no gradient reaches it through the reward.

    network:       the networks, see `dynamics.dynamics`.
    units:        the length of an embedding; None takes the network's own.
    norm:         `plain` as in the public code, or `squared` as the GoBI paper writes it.
    counted:      the view that stands for the state in N_ep. The full grid is privileged; the observation is
                  what the agent sees.
    first_state:  whether an episode's first state has been visited once when the episode begins. In the
                  public code it has not: it is counted for the episode before, whose counts are then cleared.
    forward:      the weight of the forward model's loss; `inverse` that of the inverse model's.
    rate:         the learning rate, which is constant.
    hash:         from the counted view to codes, for views that hardly ever recur exactly; None is exact.
    """

    network: str = eqx.field(static=True, default="ride")
    units: int | None = eqx.field(static=True, default=None)
    norm: str = eqx.field(static=True, default="plain")
    counted: str = eqx.field(static=True, default="full_grid")
    first_state: bool = eqx.field(static=True, default=True)
    forward: float = eqx.field(static=True, default=10.0)
    inverse: float = eqx.field(static=True, default=0.1)
    rate: float = eqx.field(static=True, default=1e-4)
    hash: Any = None

    def __check_init__(self):
        dynamics.check_options(
            self.network, self.units, self.norm, self.forward, self.inverse, rate=self.rate
        )
        if self.counted not in COUNTED:
            raise unknown("view to count", self.counted, COUNTED)

    @property
    def reads(self) -> frozenset[str]:
        """The observation, and the view that is counted."""
        return frozenset({"observation", self.counted})

    @property
    def instead(self) -> Mapping[str, str]:
        """The observation may stand for the state."""
        return {"full_grid": "counted=observation"}

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("impact", "episodic", "inverse_accuracy", "inverse_loss", "forward_loss")

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Impact:
        """Fresh networks, and no visits."""
        return Impact(
            learner=dynamics.learner(key, spec, self.network, self.units),
            visits=episodic_counts.empty(num_envs, min(spec.max_steps + 1, MOST_CODES)),
            fresh=jnp.ones(num_envs, bool),
        )

    def rollout(
        self, state: Impact, transitions: Transition
    ) -> tuple[Impact, Float32[Array, "time envs"], Metrics]:
        """Embeds both ends of all steps at once, and counts where they led."""
        before, after = state.learner.network.embed_both(transitions.before, transitions.after)
        impact = dynamics.size(after - before, self.norm)
        visits, counts = self.count(state, transitions)
        shares = 1 / jnp.sqrt(counts.astype(jnp.float32))
        state = Impact(state.learner, visits, transitions.done[-1])
        logged = {
            "impact": over_all(impact, transitions.real),
            "episodic": over_all(shares, transitions.real),
            "dropped/visits": visits.dropped.astype(jnp.float32),
            "load/visits": visits.load,
        }
        return state, impact * shares, logged

    def count(
        self, state: Impact, transitions: Transition
    ) -> tuple[episodic_counts.EpisodicCounts, Int32[Array, "time envs"]]:
        """N_ep of where each step led."""
        starts = jnp.concatenate([state.fresh[None], transitions.done[:-1]])
        ends = transitions.before[self.counted], transitions.after[self.counted]
        codes = [exact(view, ndim=view.ndim - 2) if self.hash is None else self.hash(view) for view in ends]
        codes = jnp.stack(codes, axis=2)
        first = starts if self.first_state else jnp.zeros_like(starts)
        valid = jnp.stack([first, jnp.ones_like(first)], axis=2)
        visits, counts = episodic_counts.add(state.visits, codes, valid, starts)
        return visits, counts[:, :, 1]

    def learn(self, state: Impact, key: Key[Array, ""], transitions: Transition) -> tuple[Impact, Metrics]:
        """One step on both models' losses."""
        del key
        learner, logged = dynamics.learn(
            state.learner, transitions, self.forward, self.inverse, learning_rate=self.rate
        )
        return Impact(learner, state.visits, state.fresh), logged

    def grow(self, state: Impact, memories: frozenset[str]) -> Impact:
        """Four times the room for every environment."""
        if "visits" not in memories:
            return state
        return Impact(state.learner, episodic_counts.grow(state.visits), state.fresh)
