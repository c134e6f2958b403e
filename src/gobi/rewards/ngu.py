"""NGU's episodic bonus: how unlike the nearest states of its episode a state is, in controllable features."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from gobi import settings
from gobi.memory.neighbours import nearest
from gobi.rewards import dynamics
from gobi.rewards.real_steps import over_all
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition

MOST = 30_000
"""States of an episode that are remembered, at most: the room of the original."""

ROUNDING = 1e-10
"""Squared distances below this share of a feature's own square are none. Equal views may get features that
differ in their last digits, and in a first episode their mean is all there is to measure them by."""


class Episode(eqx.Module):
    """The state of `NGU`.

    memory:    the embeddings of what each environment has seen in its episode, in order.
    held:      how many of them there are.
    fresh:     whether an episode begins with the next step.
    distance:  the running mean of the squared distance to the neighbours, of each environment.
    counted:   the steps in that mean, those that were made.
    learner:   the embedding and what trains it.
    """

    memory: Float32[Array, "envs room units"]
    held: Int32[Array, " envs"]
    fresh: Bool[Array, " envs"]
    distance: Float32[Array, " envs"]
    counted: Float32[Array, " envs"]
    learner: dynamics.Learner


class NGU(Reward):
    """1 / (sqrt(sum of K(f(o_{t+1}), f_i)) + c) over the k nearest f_i of this episode's memory.

    K = eps / (d^2 / mean d^2 + eps), the ratio less the cluster distance first; nothing where the root and c
    pass s_max. The embedding f learns to tell one's own actions. Badia et al., 2020.

    k:              neighbours.
    epsilon:        of the kernel.
    cluster:        squared distances, relative to their mean, that count as none.
    c:              keeps the bonus finite.
    s_max:          nothing is paid for what is more familiar than this.
    network, units:   the embedding: see `gobi.rewards.dynamics`.
    rate:           the learning rate of the embedding.
    """

    k: int = eqx.field(static=True, default=10)
    epsilon: float = eqx.field(static=True, default=1e-4)
    cluster: float = eqx.field(static=True, default=0.008)
    c: float = eqx.field(static=True, default=0.001)
    s_max: float = eqx.field(static=True, default=8.0)
    network: str = eqx.field(static=True, default="ride")
    units: int = eqx.field(static=True, default=32)
    rate: float = eqx.field(static=True, default=1e-4)

    def __check_init__(self):
        dynamics.check_options(self.network, self.units, rate=self.rate)
        settings.at_least(1, k=self.k)
        settings.positive(epsilon=self.epsilon, c=self.c, s_max=self.s_max)
        settings.at_least(0, cluster=self.cluster)

    @property
    def reads(self) -> frozenset[str]:
        """The agent's own view."""
        return frozenset({"observation"})

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("ngu/similarity", "ngu/distance", "inverse_accuracy", "inverse_loss")

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Episode:
        """Empty memories with room for the longest episode, and an embedding that has learned nothing.

        Of episodes of more than `MOST` steps, the first ones are remembered.
        """
        return Episode(
            memory=jnp.zeros((num_envs, min(spec.max_steps, MOST), self.units)),
            held=jnp.zeros(num_envs, jnp.int32),
            fresh=jnp.ones(num_envs, bool),
            distance=jnp.zeros(num_envs),
            counted=jnp.zeros(num_envs),
            learner=dynamics.learner(key, spec, self.network, self.units),
        )

    def rollout(
        self, state: Episode, transitions: Transition
    ) -> tuple[Episode, Float32[Array, "time envs"], Metrics]:
        """All neighbours of the rollout at once: what a memory holds when is known beforehand."""
        left, reached = state.learner.network.embed_both(transitions.before, transitions.after)
        left, reached = jnp.swapaxes(left, 0, 1), jnp.swapaxes(reached, 0, 1)
        held = jnp.where(state.fresh, 0, state.held)
        began, there = _visible(held, transitions.done, state.memory.shape[1])
        points = jnp.concatenate([state.memory, left], axis=1)
        squares = jnp.swapaxes(nearest(reached, points, there, self.k), 0, 1)

        near = jnp.isfinite(squares)
        size = jnp.swapaxes(jnp.sum(jnp.square(reached), axis=-1), 0, 1)[..., None]
        squares = jnp.where(near & (squares > ROUNDING * size), squares, 0.0)
        distance, counted = _running(state, squares, near, transitions.real)
        ratio = squares / jnp.where(distance > 0, distance, 1.0)[..., None]
        kernel = self.epsilon / (jnp.maximum(ratio - self.cluster, 0.0) + self.epsilon)
        similarity = jnp.sqrt(jnp.sum(kernel * near, axis=-1)) + self.c
        bonus = jnp.where(similarity > self.s_max, 0.0, 1 / similarity)

        memory, held = _remembered(state.memory, held, left, began)
        state = eqx.tree_at(
            lambda s: (s.memory, s.held, s.fresh, s.distance, s.counted),
            state,
            (memory, held, transitions.done[-1], distance[-1], counted[-1]),
        )
        logged = {
            "ngu/bonus": over_all(bonus, transitions.real),
            "ngu/similarity": over_all(similarity, transitions.real),
            "ngu/distance": jnp.mean(distance),
        }
        return state, bonus, logged

    def learn(self, state: Episode, key: Key[Array, ""], transitions: Transition) -> tuple[Episode, Metrics]:
        """One step of the inverse model and its embedding."""
        del key
        learned, logged = dynamics.learn(
            state.learner, transitions, forward=0.0, inverse=1.0, learning_rate=self.rate
        )
        return eqx.tree_at(lambda s: s.learner, state, learned), logged


def _running(
    state: Episode,
    squares: Float32[Array, "time envs k"],
    near: Bool[Array, "time envs k"],
    real: Bool[Array, "time envs"] | None,
) -> tuple[Float32[Array, "time envs"], Float32[Array, "time envs"]]:
    """The running mean of the squared distance to the neighbours up to each step, and the steps in it."""
    mean = jnp.sum(squares, axis=-1) / jnp.sum(near, axis=-1)
    steps = 1 + jnp.arange(len(mean), dtype=jnp.float32)[:, None]
    if real is not None:
        mean, steps = jnp.where(real, mean, 0), jnp.cumsum(real, axis=0, dtype=jnp.float32)
    counted = state.counted + steps
    # A mean of means: the count stays small enough for a float to go on counting.
    distance = state.distance + (jnp.cumsum(mean, axis=0) - steps * state.distance) / jnp.maximum(counted, 1)
    return distance, counted


def _visible(
    held: Int32[Array, " envs"], done: Bool[Array, "time envs"], room: int
) -> tuple[Int32[Array, "time envs"], Bool[Array, "envs time points"]]:
    """The step of the rollout at which each step's episode began, and what each step may be compared with.

    The points are the memory, then the states that the rollout's steps left. An episode from before the
    rollout began at step 0 less what is in the memory.
    """
    time, envs = done.shape
    steps = jnp.arange(time, dtype=jnp.int32)[:, None]
    ended = jnp.concatenate([jnp.zeros((1, envs), bool), done[:-1]])
    began = jax.lax.cummax(jnp.where(ended, steps, -held), axis=0)
    carried = jnp.cumsum(ended, axis=0) == 0
    inside = carried.T[..., None] & (jnp.arange(room) < held[:, None, None])
    lately = (steps >= steps.T) & (began.T[..., None] <= steps.T)
    return began, jnp.concatenate([inside, lately], axis=-1)


def _remembered(
    memory: Float32[Array, "envs room units"],
    held: Int32[Array, " envs"],
    left: Float32[Array, "envs time units"],
    began: Int32[Array, "time envs"],
) -> tuple[Float32[Array, "envs room units"], Int32[Array, " envs"]]:
    """The memories with the states of each environment's latest episode, each at its step of that episode."""
    envs, room = memory.shape[:2]
    time = len(began)
    steps = jnp.arange(time, dtype=jnp.int32)[:, None]
    place = jnp.where(began == began[-1], steps - began, room)
    memory = memory.at[jnp.arange(envs)[:, None], place.T].set(left, mode="drop")
    return memory, jnp.minimum(time - began[-1], room)
