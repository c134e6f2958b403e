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

from gobi.agents import general
from gobi.agents.general import Hyper, Learner, Policy, Unroll, build, distributions, learn
from gobi.agents.impala.networks import Carry
from gobi.rewards import Nothing, Reward, own, registry
from gobi.training.host.recipe import HostRecipe
from gobi.types import Spec, Transition

ACTING, LEARNING = range(2)
"""What a draw is for."""


class Knobs(eqx.Module):
    """The numbers of a recipe that only scale something: changing one does not compile again.

    frames:  over which the learning rate falls to zero; infinite where it does not.
    hyper:   the learner's own.
    """

    coefficient: Float32[Array, ""]
    decay: Float32[Array, ""]
    extrinsic: Float32[Array, ""]
    clip: Float32[Array, ""]
    learning_rate: Float32[Array, ""]
    frames: Float32[Array, ""]
    hyper: Hyper


class Seat(eqx.Module):
    """What one seed has on the device: what a checkpoint holds.

    learner:  the policy, and what its optimiser keeps.
    carry:    what the policy remembers of each lane's episode.
    reward:   the intrinsic reward's state.
    key:      the seed.
    updates:  how many there have been.
    """

    learner: Learner
    carry: Carry
    reward: Any
    key: Key[Array, ""]
    updates: Int32[Array, ""]


class Acted(eqx.Module):
    """An unroll as the host leaves it behind; `states` is one more than `steps`.

    observations:  what was acted on, and last what will be next.
    first:         whether an episode begins with that observation.
    choices:       what the policy drew.
    actions:       what was done, as rewards read it.
    after:         where each step led: at an episode's end its true last observation.
    """

    observations: Num[Array, "states envs *shape"]
    first: Bool[Array, "states envs"]
    choices: Int32[Array, "steps envs"] | Float32[Array, "steps envs size"]
    actions: Int32[Array, "steps envs"] | Float32[Array, "steps envs size"]
    after: Num[Array, "steps envs *shape"]
    reward: Float32[Array, "steps envs"]
    terminated: Bool[Array, "steps envs"]
    truncated: Bool[Array, "steps envs"]


class Program:
    """The compiled parts, the same for all seeds. What changes is handed in and out, and used up."""

    def __init__(self, recipe: HostRecipe, spec: Spec):
        self.recipe, self.spec = recipe, spec
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

    def update(self, seat: Seat, acted: Acted, carry: Carry) -> tuple[Seat, dict[str, Any]]:
        """Pays for an unroll and learns from it. The seat is used up; `carry` is remembered at its end."""
        seat, metrics = self._updated(self.reward, self.knobs, seat, acted)
        return eqx.tree_at(lambda s: s.carry, seat, carry), metrics

    def restart(self, seat: Seat, observation: np.ndarray) -> Seat:
        """New episodes begin in all lanes, in the middle of what they were: the reward is told of a reset."""
        return self._restarted(self.reward, seat, observation)

    def grow(self, seat: Seat, memories: frozenset[str]) -> Seat:
        """The same with more room in some memories; the next update compiles anew."""
        return eqx.tree_at(lambda s: s.reward, seat, self.reward.grow(seat.reward, memories))

    def _start(self, reward: Reward, key: Key[Array, ""]) -> Seat:
        weights, bonus, own = jax.random.split(key, 3)
        policy = build(self.spec, weights, self.recipe.network, self.recipe.units)
        lanes = self.recipe.num_envs
        return Seat(
            learner=general.init(policy),
            carry=policy.initial(lanes),
            reward=reward.init(bonus, self.spec, lanes),
            key=own,
            updates=jnp.int32(0),
        )

    def _act(self, policy: Policy, observation: Any, first: Any, carry: Carry, key: Any, number: Any):
        """What to do in every lane, and what is remembered of it."""
        outputs, _, carry = policy(observation, first, carry)
        key = jax.random.fold_in(jax.random.fold_in(key, ACTING), number)
        return distributions.draw(outputs, key, self.continuous), carry

    def _look(
        self, greedy: bool, policy: Policy, observation: Any, first: Any, carry: Carry, keys: Any, time: Any
    ):
        """The same while episodes are played; each lane draws by a key of its own, and by the time."""
        outputs, _, carry = policy(observation, first, carry)
        if greedy:
            return distributions.likeliest(outputs, self.continuous), carry

        def one(row, key):
            return distributions.draw(row, jax.random.fold_in(key, time), self.continuous)

        return jax.vmap(one)(outputs, keys), carry

    def _restart(self, reward: Reward, seat: Seat, observation: Any) -> Seat:
        lanes = jnp.ones(self.recipe.num_envs, bool)
        actions = jnp.zeros((self.recipe.num_envs, *self._action_shape()), self._action_dtype())
        views = {"observation": observation}
        nothing = jnp.zeros(self.recipe.num_envs)
        reset = Transition(views, actions, views, nothing, lanes, ~lanes, real=~lanes)
        state, _ = reward.step(seat.reward, reset)
        return eqx.tree_at(lambda s: s.reward, seat, state)

    def _update(self, reward: Reward, knobs: Knobs, seat: Seat, acted: Acted) -> tuple[Seat, dict[str, Any]]:
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
        coefficient = knobs.coefficient * jnp.exp(frames * jnp.log1p(-knobs.decay))
        extrinsic, intrinsic = knobs.extrinsic * acted.reward, coefficient * bonus
        total = jnp.clip(extrinsic + intrinsic, -knobs.clip, knobs.clip)
        rate = knobs.learning_rate * jnp.maximum(0.0, 1 - frames / knobs.frames)
        goes_on = self.recipe.timeouts == "bootstrap"
        unroll = Unroll(
            observations=acted.observations,
            first=acted.first,
            actions=acted.choices,
            rewards=total,
            terminal=transitions.done,
            cut=acted.truncated & ~acted.terminated & goes_on,
            last=acted.after,
            carry=seat.carry,
        )
        learner, losses = learn(seat.learner, unroll, knobs.hyper, rate, self.recipe.passes)
        key = jax.random.fold_in(jax.random.fold_in(seat.key, LEARNING), seat.updates)
        state, lessons = reward.learn(state, key, transitions)
        sizes = jnp.sum(jnp.abs(intrinsic)), jnp.sum(jnp.abs(extrinsic))
        metrics = {
            "bonus": jnp.mean(bonus),
            "bonus_share": sizes[0] / jnp.maximum(sizes[0] + sizes[1], 1e-9),
            "coefficient": coefficient,
            "learning_rate": rate,
            "reward_is_finite": jnp.isfinite(total).all().astype(jnp.float32),
        }
        seat = Seat(learner, seat.carry, state, seat.key, seat.updates + 1)
        return seat, metrics | logged | lessons | losses

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


def knobs(recipe: HostRecipe) -> Knobs:
    """The numbers of a recipe, as arrays."""
    falling = recipe.learning_rate_decay == "linear"
    numbers = (recipe.discount, recipe.entropy_cost, recipe.value_cost, recipe.max_grad_norm)
    return Knobs(
        coefficient=jnp.float32(recipe.coefficient),
        decay=jnp.float32(recipe.decay),
        extrinsic=jnp.float32(recipe.extrinsic),
        clip=jnp.float32(recipe.clip or jnp.inf),
        learning_rate=jnp.float32(recipe.learning_rate),
        frames=jnp.float32(recipe.all_frames if falling else jnp.inf),
        hyper=Hyper(*map(jnp.float32, numbers)),
    )


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
