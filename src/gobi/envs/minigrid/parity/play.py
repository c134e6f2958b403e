"""Our half of a parity run: whole episodes played on the device, with everything that is to be compared."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, UInt8, UInt16

from gobi.envs.minigrid import cells, policies, rules
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.state import State

NO_PLAN = -1
"""In a plan: let the policy choose."""

EVENTS = ("nothing", "door", "key", "ball", "box", "drop", "success")
"""What a transition did. Where two apply the rarer one counts: success hides the ball that was picked up."""


class Trace(NamedTuple):
    """What happened at every step of an episode, after the step."""

    action: Int32[Array, " steps"]
    event: Int32[Array, " steps"]
    counts: Bool[Array, " steps"]
    """Whether the step still belongs to the episode."""
    grid: UInt16[Array, "steps width height"]
    position: Int32[Array, "steps 2"]
    direction: Int32[Array, " steps"]
    carrying: UInt16[Array, " steps"]
    view: UInt8[Array, "steps 7 7 3"]
    reward: Float32[Array, " steps"]
    terminated: Bool[Array, " steps"]
    truncated: Bool[Array, " steps"]
    panorama: UInt8[Array, "steps 4 7 7 3"]
    full_grid: UInt8[Array, "steps width height 3"]


@functools.cache
def player(env: MiniGrid):
    """Plays a batch of episodes: `player(env)(levels, plans, uniform, keys)`, compiled once per shape."""
    return jax.jit(jax.vmap(functools.partial(_play, env)))


def _play(
    env: MiniGrid,
    level: State,
    plan: Int32[Array, " steps"],
    uniform: Bool[Array, ""],
    key: Key[Array, ""],
) -> Trace:
    """One episode: the planned actions, and a random policy where the plan leaves the choice."""

    def step(carry: tuple[State, Bool[Array, ""]], inputs: tuple[Int32[Array, ""], Key[Array, ""]]):
        state, running = carry
        planned, step_key = inputs
        free = jnp.where(uniform, policies.uniform(step_key, state), policies.biased(step_key, state))
        action = jnp.where(planned == NO_PLAN, free, planned)
        after, timestep = env.step(state, action)
        trace = Trace(
            action=action,
            event=_event(state, after, action, timestep.reward),
            counts=running,
            grid=after.grid,
            position=after.position,
            direction=after.direction,
            carrying=after.carrying,
            view=timestep.observation,
            reward=timestep.reward,
            terminated=timestep.terminated,
            truncated=timestep.truncated,
            panorama=env.panorama(after),
            full_grid=env.full_grid(after),
        )
        return (after, running & ~timestep.done), trace

    keys = jax.random.split(key, plan.shape[0])
    return jax.lax.scan(step, (level, jnp.bool_(True)), (plan, keys))[1]


def _event(
    before: State, after: State, action: Int32[Array, ""], reward: Float32[Array, ""]
) -> Int32[Array, ""]:
    """The number in EVENTS of what the step did."""
    ahead = rules.front(before)
    cell = before.grid[ahead[0], ahead[1]]
    kind = cells.object_of(cell)
    changed = after.grid[ahead[0], ahead[1]] != cell
    cases = {
        "success": reward > 0,
        "drop": (action == rules.DROP) & changed,
        "box": (kind == cells.BOX) & changed,
        "ball": (kind == cells.BALL) & changed,
        "key": (kind == cells.KEY) & changed,
        "door": (kind == cells.DOOR) & changed,
    }
    numbers = [jnp.int32(EVENTS.index(name)) for name in cases]
    return jnp.select(list(cases.values()), numbers, jnp.int32(0))
