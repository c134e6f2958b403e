"""E3B: the elliptical episodic bonus, a count of visits for features instead of states."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Key

from gobi.rewards import dynamics, real_steps
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition

LEAST = 1e-12
"""A variance to divide by, at least: that of a rollout in which nothing moved is none."""
LATELY = 0.02
"""The least weight of a lesson's variance in the running one: features may grow a hundredfold in a run."""


class Ellipse(eqx.Module):
    """The state of `E3B`.

    inverse:  C^-1 of each environment's episode.
    fresh:    whether an episode begins with the next step.
    learner:  the features and what trains them.
    variance: the running mean of the features' variance, summed over them; 1 if the ridge is not relative.
    lessons:  how many there were.
    """

    inverse: Float32[Array, "envs units units"]
    fresh: Bool[Array, " envs"]
    learner: dynamics.Learner
    variance: Float32[Array, ""]
    lessons: Float32[Array, ""]


class E3B(Reward):
    """phi(o_{t+1})^T C^-1 phi(o_{t+1}), with C = ridge I + the sum of phi phi^T over the episode so far.

    With one-hot features it is 1 / (N + ridge), N being the episode's visits so far. The features learn to
    tell one's own actions. Henaff et al., 2022.

    ridge:          what C begins with.
    relative:       whether that is a share of the features' variance, summed over them, so that it means the
                    same for all networks and at all times; then nothing is paid before the first lesson.
    network, units:   the features: see `gobi.rewards.dynamics`; units None takes as many as it has.
    rate:           the learning rate of the features.
    """

    ridge: float = eqx.field(static=True, default=0.1)
    network: str = eqx.field(static=True, default="ride")
    units: int | None = eqx.field(static=True, default=None)
    rate: float = eqx.field(static=True, default=1e-4)
    relative: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        dynamics.check_options(self.network, self.units, ridge=self.ridge, rate=self.rate)

    @property
    def reads(self) -> frozenset[str]:
        """The agent's own view."""
        return frozenset({"observation"})

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("e3b/largest", "inverse_accuracy", "inverse_loss")

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Ellipse:
        """Nothing visited, nothing learned."""
        learner = dynamics.learner(key, spec, self.network, self.units)
        units = learner.network.units
        return Ellipse(
            inverse=jnp.broadcast_to(jnp.eye(units) / self.ridge, (num_envs, units, units)),
            fresh=jnp.ones(num_envs, bool),
            learner=learner,
            variance=jnp.float32(1),
            lessons=jnp.float32(0),
        )

    def rollout(
        self, state: Ellipse, transitions: Transition
    ) -> tuple[Ellipse, Float32[Array, "time envs"], Metrics]:
        """Embeds all at once; the inverses take up one state after the other."""
        left, reached = state.learner.network.embed_both(transitions.before, transitions.after)
        start = jnp.eye(left.shape[-1]) / (self.ridge * state.variance)

        def step(carry: Any, inputs: Any):
            inverse, fresh = carry
            left, reached, done = inputs
            inverse = jnp.where(fresh[:, None, None], start, inverse)
            # Both products read C^-1 once; that of the state reached follows from the update's own terms.
            moved, sought = (_times(inverse, vectors) for vectors in (left, reached))
            scale = 1 / (1 + jnp.sum(left * moved, axis=-1))
            inverse = inverse - scale[:, None, None] * moved[:, :, None] * moved[:, None, :]
            bonus = jnp.sum(reached * sought, axis=-1)
            bonus = bonus - scale * jnp.square(jnp.sum(reached * moved, axis=-1))
            return (inverse, done), bonus

        inputs = left, reached, transitions.done
        (inverse, fresh), bonus = jax.lax.scan(step, (state.inverse, state.fresh), inputs)
        state = eqx.tree_at(lambda s: (s.inverse, s.fresh), state, (inverse, fresh))
        # Rounding may leave a little less than nothing of a direction visited over and over.
        bonus = jnp.maximum(bonus, 0.0)
        if self.relative:
            bonus = jnp.where(state.lessons > 0, bonus, 0.0)
        if transitions.real is not None:
            bonus = jnp.where(transitions.real, bonus, 0.0)
        logged = {"e3b/bonus": real_steps.over_all(bonus, transitions.real), "e3b/largest": jnp.max(bonus)}
        return state, bonus, logged

    def learn(self, state: Ellipse, key: Key[Array, ""], transitions: Transition) -> tuple[Ellipse, Metrics]:
        """One step of the inverse model and its features, after which their variance is measured."""
        del key
        learned, logged = dynamics.learn(
            state.learner, transitions, forward=0.0, inverse=1.0, learning_rate=self.rate
        )
        taught = eqx.tree_at(lambda s: s.learner, state, learned)
        if self.relative:
            features = learned.network.embed(transitions.after["observation"])
            found = jnp.maximum(jnp.sum(real_steps.variance(features, transitions.real)), LEAST)
            lessons = state.lessons + 1
            variance = state.variance + jnp.maximum(1 / lessons, LATELY) * (found - state.variance)
            # The ridge of episodes begun before there was a variance to measure it by means nothing.
            fresh = state.fresh | (state.lessons == 0)
            changed = variance, lessons, fresh
            taught = eqx.tree_at(lambda s: (s.variance, s.lessons, s.fresh), taught, changed)
            logged |= {"e3b/variance": variance}
        return real_steps.if_any(transitions.real, taught, state), logged


def _times(
    inverse: Float32[Array, "envs units units"], vectors: Float32[Array, "envs units"]
) -> Float32[Array, "envs units"]:
    """C^-1 phi, in full precision: errors of TensorFloat32 would add up over an episode."""
    return jnp.einsum("euv,ev->eu", inverse, vectors, precision=jax.lax.Precision.HIGHEST)
