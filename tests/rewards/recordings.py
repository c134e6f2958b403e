"""Recorded play: random and biased walks, with all that a reward or its oracle needs to know of each step."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from gobi.envs.minigrid import Bank, MiniGrid, State, Stepper, policies
from gobi.envs.minigrid.state import reachable_cells
from gobi.types import Spec, Transition, Views

TASKS = (
    "MiniGrid-MultiRoom-N2-S4-v0",
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-KeyCorridorS3R1-v0",
    "MiniGrid-ObstructedMaze-1Dlh-v0",
)
LANES, STEPS = 3, 300
SPEC = Spec("all four", (7, 7, 3), "uint8", 7, max_steps=STEPS)


class Recorded(eqx.Module):
    """A world that has been asked beforehand: what each action leads to is a view called `futures`."""

    actions: tuple[int, ...] = eqx.field(static=True, default=(0, 1, 2, 3, 4, 5))
    reads = frozenset({"futures"})

    @property
    def predictions(self) -> int:
        return len(self.actions)

    def init(self, key, spec, num_envs):
        return ()

    def imagine(self, ws, keys, views):
        imagined = views["futures"][:, jnp.array(self.actions)]
        return imagined, jnp.ones(imagined.shape[:2], bool)

    def learn(self, ws, key, rollout):
        return ws, {}


compiled = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
)
"""Tests compile much and run it once or twice."""


@functools.partial(compiled, static_argnums=0)
def record(env: MiniGrid, key: Key[Array, ""]) -> Transition:
    """A rollout of several lanes, the first of which plays uniformly, with the views of each step's ends."""
    bank = _bank(env, key)
    stepper = Stepper(env, LANES)

    def step(carry, key):
        lanes, observation = carry
        keys = jax.random.split(key, LANES)
        actions = jax.vmap(policies.biased)(keys, lanes.states)
        actions = actions.at[0].set(jax.random.randint(key, (), 0, 7))
        states, timestep = stepper.advance(lanes, actions)
        step = Transition(
            before={"observation": observation, "state": lanes.states},
            action=actions,
            after={"observation": timestep.observation, "state": states},
            reward=timestep.reward,
            terminated=timestep.terminated,
            truncated=timestep.truncated,
        )
        return stepper.restart(bank, lanes, states, timestep), step

    _, played = jax.lax.scan(step, stepper.reset(bank), jax.random.split(key, STEPS))
    ends = played.before["state"], played.after["state"]
    more = _more_views(env, jax.tree.map(lambda *both: jnp.concatenate(both), *ends))
    before, after = (
        jax.tree.map(lambda view: view[:STEPS], more),
        jax.tree.map(lambda view: view[STEPS:], more),
    )
    return eqx.tree_at(lambda p: (p.before, p.after), played, (played.before | before, played.after | after))


def _bank(env: MiniGrid, key: Key[Array, ""]) -> Bank:
    """The levels of one chunk."""
    levels, count = env.generator.chunk(key)
    levels = jax.tree.map(lambda part: part[jnp.arange(env.generator.chunk_size) % count], levels)
    return Bank(
        levels=levels,
        views=jax.vmap(env.observe)(levels),
        reachable=jax.vmap(reachable_cells)(levels),
        seed=jnp.int32(0),
        next_chunk=jnp.int32(1),
        fresh=count,
    )


def _more_views(env: MiniGrid, states: State) -> Views:
    each_action = jax.vmap(env.step, in_axes=(None, 0))

    def one(state: State) -> Views:
        _, timestep = each_action(state, jnp.arange(7))
        return {"futures": timestep.observation, "panorama": env.panorama(state)}

    return jax.vmap(jax.vmap(one))(states)
