"""One seed on the device: what it has learned and remembers, and the compiled steps of its loop.

Environments are stepped on the host, and only observations and actions cross while they are. What an unroll
of them is paid for exploring, and what is learned from it, is one call on the device.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, Num

from gobi.agents import distributions
from gobi.agents import registry as learners
from gobi.agents.learner import Learner, Rollout
from gobi.rewards import Nothing, Reward, own, registry
from gobi.training.host.recipe import HostRecipe
from gobi.training.knobs import Knobs, knobs, reward_metrics
from gobi.types import Spec, Transition

ACTING, LEARNING = range(2)
"""What a draw is for."""
LEARNER = 1
"""Keeps the learner's draws apart from those of a reward that learns."""
SHORTEST = 1
"""Steps of the longest episode are not known of every task: any step may be truncated."""


class Seat(eqx.Module):
    """What one seed has on the device: what a checkpoint holds.

    policy, optimiser:  the weights, and what the learner's optimiser keeps of their gradients.
    carry:              what the policy remembers of each lane's episode.
    reward:             the intrinsic reward's state.
    key:                the seed.
    updates:            how many there have been.
    """

    policy: Any
    optimiser: Any
    carry: Any
    reward: Any
    key: Key[Array, ""]
    updates: Int32[Array, ""]


class Acted(eqx.Module):
    """An unroll as the host leaves it behind; `states` is one more than `steps`.

    observations:  what was acted on, and last what will be next.
    first:         whether an episode begins with that observation.
    choices:       what the policy drew.
    noted:         what the learner noted of each step.
    actions:       what was done, as rewards read it.
    after:         where each step led: at an episode's end its true last observation.
    """

    observations: Num[Array, "states envs *shape"]
    first: Bool[Array, "states envs"]
    choices: Int32[Array, "steps envs"] | Float32[Array, "steps envs size"]
    noted: Any
    actions: Int32[Array, "steps envs"] | Float32[Array, "steps envs size"]
    after: Num[Array, "steps envs *shape"]
    reward: Float32[Array, "steps envs"]
    terminated: Bool[Array, "steps envs"]
    truncated: Bool[Array, "steps envs"]


class Program:
    """The compiled parts, the same for all seeds. What changes is handed in and out, and used up."""

    def __init__(self, recipe: HostRecipe, spec: Spec):
        self.recipe, self.spec = recipe, spec
        self.learner: Learner = learners.build(recipe)
        self.continuous = distributions.is_continuous(spec)
        self.reward = reward(recipe, spec)
        self.knobs = knobs(recipe)
        self.act = jax.jit(self._act)
        self.look = jax.jit(self._look, static_argnums=0)
        self._restarted = jax.jit(self._restart, donate_argnums=1)
        self._updated = jax.jit(self._update, donate_argnums=2)
        self._init = jax.jit(self._start)

    def start(self, seed: int) -> Seat:
        """Before the first step."""
        return self._init(self.reward, jax.random.key(seed))

    def shapes(self, grown: Sequence[Sequence[str]] = ()) -> Seat:
        """The structure of a seat, after memories grew so often."""

        def made(key):
            seat = self._start(self.reward, key)
            for memories in grown:
                seat = self.grow(seat, frozenset(memories))
            return seat

        return jax.eval_shape(made, jax.eval_shape(lambda: jax.random.key(0)))

    def update(self, seat: Seat, acted: Acted, carry: Any) -> tuple[Seat, dict[str, Any]]:
        """Pays for an unroll and learns from it. The seat is used up; `carry` is remembered at its end."""
        return self._updated(self.reward, self.knobs, seat, acted, carry)

    def restart(self, seat: Seat, observation: np.ndarray) -> Seat:
        """New episodes begin in all lanes, in the middle of what they were: the reward is told of a reset."""
        return self._restarted(self.reward, seat, observation)

    def grow(self, seat: Seat, memories: frozenset[str]) -> Seat:
        """The same with more room in some memories; the next update compiles anew."""
        return eqx.tree_at(lambda s: s.reward, seat, self.reward.grow(seat.reward, memories))

    def _start(self, reward: Reward, key: Key[Array, ""]) -> Seat:
        weights, bonus, own = jax.random.split(key, 3)
        lanes = self.recipe.num_envs
        policy, optimiser = self.learner.init(weights, self.spec, lanes)
        return Seat(
            policy=policy,
            optimiser=optimiser,
            carry=self.learner.initial_carry(policy, lanes),
            reward=reward.init(bonus, self.spec, lanes),
            key=own,
            updates=jnp.int32(0),
        )

    def _act(self, policy: Any, observation: Any, first: Any, carry: Any, key: Any, number: Any):
        """What to do in every lane, what the learner notes of it, and what is remembered."""
        key = jax.random.fold_in(jax.random.fold_in(key, ACTING), number)
        (noise,) = self.learner.noise(key, self.spec, 1, self.recipe.num_envs)
        return self.learner.act(self.learner.actor(policy), observation, first, carry, noise)

    def _look(
        self, greedy: bool, policy: Any, observation: Any, first: Any, carry: Any, keys: Any, time: Any
    ):
        """The same while episodes are played; each lane draws by a key of its own, and by the time."""
        outputs, _, carry = policy(observation, first, carry)
        if greedy:
            return distributions.mode(outputs, self.continuous), carry

        def sampled(row, key):
            noise = distributions.noise(jax.random.fold_in(key, time), self.spec, 1, 1)
            return distributions.sample(row, noise[0, 0])

        return jax.vmap(sampled)(outputs, keys), carry

    def _restart(self, reward: Reward, seat: Seat, observation: Any) -> Seat:
        lanes = jnp.ones(self.recipe.num_envs, bool)
        actions = jnp.zeros((self.recipe.num_envs, *self._action_shape()), self._action_dtype())
        views = {"observation": observation}
        nothing = jnp.zeros(self.recipe.num_envs)
        reset = Transition(views, actions, views, nothing, lanes, ~lanes, real=~lanes)
        state, _ = reward.step(seat.reward, reset)
        return eqx.tree_at(lambda s: s.reward, seat, state)

    def _update(
        self, reward: Reward, knobs: Knobs, seat: Seat, acted: Acted, carry: Any
    ) -> tuple[Seat, dict[str, Any]]:
        transitions = Transition(
            before={"observation": acted.observations[:-1]},
            action=acted.actions,
            after={"observation": acted.after},
            reward=acted.reward,
            terminated=acted.terminated,
            truncated=acted.truncated,
        )
        state, bonus, logged = reward.rollout(seat.reward, transitions)
        frames = (seat.updates * self.recipe.frames_per_update).astype(jnp.float32)
        rate = knobs.rate(frames)
        rollout = Rollout(
            observations=acted.observations,
            first=acted.first,
            actions=acted.choices,
            noted=acted.noted,
            rewards=acted.reward,
            bonus=bonus,
            weights=knobs.weights(frames),
            terminated=acted.terminated,
            truncated=acted.truncated,
            last_observations=acted.after,
            carry=seat.carry,
            next_carry=carry,
        )
        key = jax.random.fold_in(jax.random.fold_in(seat.key, LEARNING), seat.updates)
        policy, optimiser, losses = self.learner.learn(
            seat.policy,
            seat.optimiser,
            rollout,
            knobs.hyper_after(frames),
            rate,
            jax.random.fold_in(key, LEARNER),
            SHORTEST,
        )
        state, lessons = reward.learn(state, key, transitions)
        seat = Seat(policy, optimiser, carry, state, seat.key, seat.updates + 1)
        return seat, reward_metrics(rollout, rate) | logged | lessons | losses

    def _action_shape(self) -> tuple[int, ...]:
        return (self.spec.action_size,) if self.continuous else ()

    def _action_dtype(self) -> str:
        return "float32" if self.continuous else "int32"


def reward(recipe: HostRecipe, spec: Spec) -> Reward:
    """The recipe's intrinsic reward, with parts that suit what the task shows."""
    from gobi.adapters.choosing import choose

    if recipe.reward == "none":
        return Nothing()
    if own.is_own(recipe.reward):
        made = choose(own.load(recipe.reward, recipe.reward_options), spec)
        seen = jax.ShapeDtypeStruct((own.TRIED, *spec.observation_shape), spec.observation_dtype)
        return own.tried(made, spec, {"observation": seen})
    return choose(recipe.reward, spec, **registry.options(recipe.reward, recipe.reward_options))


@functools.lru_cache(maxsize=4)
def program(recipe: HostRecipe, spec: Spec) -> Program:
    """The program of a recipe; one that was compiled in this process is found again."""
    return Program(recipe, spec)


def row(told: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The metrics of some updates as one: the largest `load/`, the last `dropped/`, of others the mean."""
    told = jax.device_get(list(told))

    def one(name: str) -> float:
        series = np.array([metrics[name] for metrics in told])
        if name.startswith("load/"):
            return float(series.max())
        return float(series[-1] if name.startswith("dropped/") else series.mean())

    return {name: one(name) for name in told[0]}
