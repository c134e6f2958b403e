"""The device loop: act, look, pay the bonus, learn. One seed; seeds are a `vmap` axis over all of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, UInt8

from gobi.agents import registry
from gobi.agents.learner import Learner, Rollout
from gobi.envs.minigrid import Bank, Lanes, MiniGrid, State, Stepper
from gobi.rewards.reward import Metrics, Reward
from gobi.training import episodes
from gobi.training.knobs import Knobs, knobs, reward_metrics
from gobi.training.recipe import Recipe
from gobi.types import Transition, Views

__all__ = ["Knobs", "Loop", "SeedState", "knobs", "loop"]

LAST = frozenset({*episodes.MEASURES, "episodes", "distinct", "levels_repeated"})
"""Metrics of which an interval's last value counts, as of `dropped/...`; of `load/...` the largest does."""


LEARNER = 1
"""Keeps the learner's draws apart from those of a reward that learns."""


class SeedState(eqx.Module):
    """Everything of one seed that changes: what a checkpoint holds, besides the bank.

    policy, optimiser:   the weights, and what the learner's optimiser keeps of their gradients.
    carry:               what the policy remembers of each lane's episode.
    lanes, observation:  where the lanes stand and what they see.
    first:               whether that begins an episode.
    reward:              the intrinsic reward's state.
    episodes:            what became of the last episodes.
    key:                 the source of all draws.
    updates:             how many there have been.
    """

    policy: Any
    optimiser: Any
    carry: Any
    lanes: Lanes
    observation: UInt8[Array, "envs 7 7 3"]
    first: Bool[Array, " envs"]
    reward: Any
    episodes: episodes.Episodes
    key: Key[Array, ""]
    updates: Int32[Array, ""]


class Acted(eqx.Module):
    """One step of a rollout, as the actors leave it behind."""

    observation: UInt8[Array, "*time envs 7 7 3"]
    first: Bool[Array, "*time envs"]
    action: Int32[Array, "*time envs"]
    noted: Any
    last_observation: UInt8[Array, "*time envs 7 7 3"]
    reward: Float32[Array, "*time envs"]
    terminated: Bool[Array, "*time envs"]
    truncated: Bool[Array, "*time envs"]
    reachable: Int32[Array, "*time envs"]
    before: Any
    after: Any


@dataclasses.dataclass(frozen=True)
class Loop:
    """What is fixed when the loop is compiled. Hashable; holds no arrays."""

    env: MiniGrid
    learner: Learner
    num_envs: int
    unroll: int
    decay_by: str

    @property
    def stepper(self) -> Stepper:
        """The lanes."""
        return Stepper(self.env, self.num_envs)

    @property
    def frames_per_update(self) -> int:
        """Steps of all lanes in one update."""
        return self.num_envs * self.unroll

    def init(self, reward: Reward, bank: Bank, key: Key[Array, ""]) -> SeedState:
        """The state of one seed before its first update."""
        weights, bonus, own = jax.random.split(key, 3)
        policy, optimiser = self.learner.init(weights, self.env.spec, self.num_envs)
        lanes, observation = self.stepper.reset(bank)
        return SeedState(
            policy=policy,
            optimiser=optimiser,
            carry=self.learner.initial_carry(policy, self.num_envs),
            lanes=lanes,
            observation=observation,
            first=jnp.ones(self.num_envs, bool),
            reward=reward.init(bonus, self.env.spec, self.num_envs),
            episodes=episodes.empty(self.env, self.num_envs),
            key=own,
            updates=jnp.int32(0),
        )

    def updates(
        self, reward: Reward, knobs: Knobs, bank: Bank, state: SeedState, count: int
    ) -> tuple[SeedState, Metrics]:
        """So many updates in a row, and the means (or last values) of what they log."""

        def one(state: SeedState, _: None):
            return self.update(reward, knobs, bank, state)

        state, logged = jax.lax.scan(one, state, length=count)
        return state, {name: _over_time(name, series) for name, series in logged.items()}

    def update(self, reward: Reward, knobs: Knobs, bank: Bank, state: SeedState) -> tuple[SeedState, Metrics]:
        """A rollout, its bonuses, and one step of the learner."""
        key, acting, learning = jax.random.split(state.key, 3)
        acted, carry, lanes, observation, first = self._act(bank, state, acting)
        transitions = self._transitions(reward.reads, acted)
        reward_state, bonus, logged = reward.rollout(state.reward, transitions)

        frames = self._frames(state)
        rate = knobs.rate(frames)
        rollout = Rollout(
            observations=jnp.concatenate([acted.observation, observation[None]]),
            first=jnp.concatenate([acted.first, first[None]]),
            actions=acted.action,
            noted=acted.noted,
            rewards=acted.reward,
            bonus=bonus,
            weights=knobs.weights(self._exponent(state)),
            terminated=acted.terminated,
            truncated=acted.truncated,
            last_observations=acted.last_observation,
            carry=state.carry,
            next_carry=carry,
        )
        shuffling = jax.random.fold_in(learning, LEARNER)
        policy, optimiser, losses = self.learner.learn(
            state.policy,
            state.optimiser,
            rollout,
            knobs.hyper_after(frames),
            rate,
            shuffling,
            self.env.spec.max_steps,
        )
        reward_state, lessons = reward.learn(reward_state, learning, transitions)
        told = episodes.add(self.env, state.episodes, _walk(acted))
        state = SeedState(
            policy, optimiser, carry, lanes, observation, first, reward_state, told, key, state.updates + 1
        )
        metrics = reward_metrics(rollout, rate)
        metrics["levels_repeated"] = lanes.queue.repeated.astype(jnp.float32)
        return state, metrics | logged | lessons | losses | episodes.means(told)

    def _act(self, bank: Bank, state: SeedState, key: Key[Array, ""]):
        """Plays an unroll. Weights are cast once, and all draws are made at once, before the first step."""
        policy = self.learner.actor(state.policy)
        noise = self.learner.noise(key, self.env.spec, self.unroll, self.num_envs)
        stepper = self.stepper

        def step(carry, noise):
            memory, lanes, observation, first = carry
            action, noted, memory = self.learner.act(policy, observation, first, memory, noise)
            states, timestep = stepper.advance(lanes, action)
            acted = Acted(
                observation=observation,
                first=first,
                action=action,
                noted=noted,
                last_observation=timestep.observation,
                reward=timestep.reward,
                terminated=timestep.terminated,
                truncated=timestep.truncated,
                reachable=lanes.reachable,
                before=lanes.states,
                after=states,
            )
            lanes, observation = stepper.restart(bank, lanes, states, timestep)
            return (memory, lanes, observation, timestep.done), acted

        start = (state.carry, state.lanes, state.observation, state.first)
        (memory, lanes, observation, first), acted = jax.lax.scan(step, start, noise)
        return acted, memory, lanes, observation, first

    def _transitions(self, reads: frozenset[str], acted: Acted) -> Transition:
        return Transition(
            before=views(self.env, reads, acted.before, acted.observation),
            action=acted.action,
            after=views(self.env, reads, acted.after, acted.last_observation),
            reward=acted.reward,
            terminated=acted.terminated,
            truncated=acted.truncated,
        )

    def _frames(self, state: SeedState) -> Float32[Array, ""]:
        """Steps of all lanes so far."""
        return (state.updates * self.frames_per_update).astype(jnp.float32)

    def _exponent(self, state: SeedState) -> Float32[Array, ""]:
        """What (1 - rho) is raised to: frames, or Algorithm 1's (e - 1) * T."""
        if self.decay_by == "frames":
            return self._frames(state)
        return state.episodes.finished.astype(jnp.float32) * self.env.spec.max_steps


def loop(env: MiniGrid, recipe: Recipe) -> Loop:
    """The loop of a recipe."""
    return Loop(
        env=env,
        learner=registry.build(recipe),
        num_envs=recipe.num_envs,
        unroll=recipe.unroll,
        decay_by=recipe.decay_by,
    )


def views(env: MiniGrid, reads: frozenset[str], states: State, observation: Any) -> Views:
    """The views of a rollout's states that a reward reads. The observation is there already."""
    makers = {"panorama": env.panorama, "full_grid": env.full_grid, "state": lambda state: state}
    made = {name: jax.vmap(jax.vmap(makers[name]))(states) for name in reads if name != "observation"}
    return made | {"observation": observation}


def _over_time(name: str, series: Float32[Array, " time"]) -> Float32[Array, ""]:
    """One number for an interval."""
    if name.startswith("load/"):
        return jnp.max(series)
    return series[-1] if name in LAST or name.startswith("dropped/") else jnp.mean(series)


def _walk(acted: Acted) -> episodes.Walk:
    return episodes.Walk(
        first=acted.first,
        done=acted.terminated | acted.truncated,
        start=acted.before.position,
        place=acted.after.position,
        on_door=episodes.on_door(acted.after),
        reward=acted.reward,
        length=acted.after.step_count,
        floor=acted.reachable,
    )
