"""Many episodes side by side: lanes that end take the next level of the bank."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Integer, UInt8

from gobi.envs.minigrid.bank import Bank, Queue, queue, take
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.state import State
from gobi.errors import GobiError
from gobi.types import Timestep


class Lanes(eqx.Module):
    """The states of all lanes, and how far they have used up their bank.

    states:     where each lane's episode stands.
    reachable:  how many cells of its level can be reached.
    queue:      how many levels have been handed out.
    """

    states: State
    reachable: Int32[Array, " envs"]
    queue: Queue


class LanesStep(eqx.Module):
    """What one step of all lanes gives.

    observation:       what the agent acts on next: the first one of a new episode where one ended.
    last_observation:  what the step really led to, the true last observation where an episode ended.
    reward:            the task's reward.
    terminated:        the episode ended by the rules of the task.
    truncated:         the episode ran out of steps.
    """

    observation: UInt8[Array, "envs 7 7 3"]
    last_observation: UInt8[Array, "envs 7 7 3"]
    reward: Float32[Array, " envs"]
    terminated: Bool[Array, " envs"]
    truncated: Bool[Array, " envs"]

    @property
    def done(self) -> Bool[Array, "*time envs"]:
        """Whether the episode is over, for either reason."""
        return self.terminated | self.truncated


@dataclasses.dataclass(frozen=True)
class Stepper:
    """Steps `num_envs` lanes of one task. Pure; the bank is an argument and never changes here."""

    env: MiniGrid
    num_envs: int

    def __post_init__(self):
        if self.num_envs < 1:
            raise GobiError(f"a stepper needs at least one lane, got num_envs={self.num_envs}")

    def reset(self, bank: Bank) -> tuple[Lanes, UInt8[Array, "envs 7 7 3"]]:
        """All lanes at the start of the bank's first levels, and their first observations."""
        place = queue(bank)
        slot = jnp.arange(self.num_envs) % bank.capacity
        states = jax.tree.map(lambda array: array[slot], bank.levels)
        place = take(place, jnp.int32(self.num_envs), bank.capacity)
        return Lanes(states, bank.reachable[slot], place), bank.views[slot]

    def step(self, bank: Bank, lanes: Lanes, actions: Integer[Array, " envs"]) -> tuple[Lanes, LanesStep]:
        """One step in every lane. Lanes whose episode ends stand at the start of their next level."""
        states, timestep = self.advance(lanes, actions)
        lanes, observation = self.restart(bank, lanes, states, timestep)
        return lanes, LanesStep(
            observation=observation,
            last_observation=timestep.observation,
            reward=timestep.reward,
            terminated=timestep.terminated,
            truncated=timestep.truncated,
        )

    def advance(self, lanes: Lanes, actions: Integer[Array, " envs"]) -> tuple[State, Timestep]:
        """The first half of a step: where the actions lead, ended episodes not yet replaced.

        For rewards that look at the true last state (its panorama, say).
        """
        actions = jnp.asarray(actions)
        if actions.shape != (self.num_envs,) or not jnp.issubdtype(actions.dtype, jnp.integer):
            raise GobiError(
                f"actions must be integers of shape ({self.num_envs},), "
                f"got {actions.dtype} of shape {actions.shape}"
            )
        return jax.vmap(self.env.step)(lanes.states, actions)

    def restart(
        self, bank: Bank, lanes: Lanes, states: State, timestep: Timestep
    ) -> tuple[Lanes, UInt8[Array, "envs 7 7 3"]]:
        """The second half: lanes that ended take the next levels of the bank, in the order of the lanes."""
        done = timestep.done
        rank = jnp.cumsum(done, dtype=jnp.int32)
        slot = (lanes.queue.reader + rank - 1) % bank.capacity
        # Without the barrier XLA works the running sum out again for every cell of every grid.
        slot = jax.lax.optimization_barrier(slot)

        def replaced(running, fresh):
            over = done.reshape(-1, *[1] * (running.ndim - 1))
            return jnp.where(over, fresh.at[slot].get(mode="promise_in_bounds"), running)

        states = jax.tree.map(replaced, states, bank.levels)
        place = take(lanes.queue, rank[-1], bank.capacity)
        reachable = replaced(lanes.reachable, bank.reachable)
        return Lanes(states, reachable, place), replaced(timestep.observation, bank.views)


def positions(lanes: Lanes) -> Int32[Array, "envs 2"]:
    """Where the agent of each lane is, for heatmaps."""
    return lanes.states.position
