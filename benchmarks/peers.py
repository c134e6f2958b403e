"""Other fast MiniGrid-like environments, run the same way as ours, where they are installed."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

Rollout = Callable[[int], object]


@dataclasses.dataclass(frozen=True)
class Peer:
    """A peer and how to make a rollout of it: None where it does not have the task."""

    name: str
    note: str
    rollout: Callable[[str, int, int], Rollout | None]


def installed() -> list[Peer]:
    """The peers that can be imported here."""
    found = []
    for module, package, note, rollout in (
        ("navix", "navix", "no occlusion; other rules", _navix),
        ("xminigrid", "xminigrid", "no occlusion; other rules", _xland),
        ("envpool", "envpool", "C++ threads", _envpool),
    ):
        if importlib.util.find_spec(module):
            found.append(Peer(f"{package} {importlib.metadata.version(package)}", note, rollout))
    return found


def _navix(task: str, lanes: int, steps: int) -> Rollout | None:
    navix = importlib.import_module("navix")

    name = "Navix-" + task.removeprefix("MiniGrid-")
    # NAVIX writes some names with a dash that MiniGrid does not have.
    candidates = (name, name.replace("KeyCorridor", "KeyCorridor-"))
    known = [found for found in candidates if found in navix.registry()]
    if not known:
        return None
    env = navix.make(known[0], observation_fn=navix.observations.symbolic_first_person)
    start = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), lanes))
    return _scanned(jax.vmap(env.step), start, lanes, steps, num_actions=7)


def _xland(task: str, lanes: int, steps: int) -> Rollout | None:
    xminigrid = importlib.import_module("xminigrid")
    wrappers = importlib.import_module("xminigrid.wrappers")

    name = task.rsplit("-v", 1)[0]
    if name not in xminigrid.registered_environments():
        return None
    env, params = xminigrid.make(name)
    env = wrappers.GymAutoResetWrapper(env)
    keys = jax.random.split(jax.random.key(0), lanes)
    start = jax.jit(jax.vmap(env.reset, in_axes=(None, 0)))(params, keys)

    def step(timestep, action):
        return jax.vmap(env.step, in_axes=(None, 0, 0))(params, timestep, action)

    return _scanned(step, start, lanes, steps, env.num_actions(params))


def _scanned(step, start, lanes: int, steps: int, num_actions: int) -> Rollout:
    """A rollout of an environment whose timestep holds its state, the observations stored as ours are."""
    state = [start]

    @jax.jit
    def rollout(timestep, key):
        actions = jax.random.randint(key, (steps, lanes), 0, num_actions, jnp.int32)

        def body(carry, action):
            carry = step(carry, action)
            return carry, (carry.observation, carry.reward, carry.step_type)

        return jax.lax.scan(body, timestep, actions)

    def run(number: int):
        state[0], out = rollout(state[0], jax.random.key(number))
        return out

    return run


def _envpool(task: str, lanes: int, steps: int) -> Rollout | None:
    envpool = importlib.import_module("envpool")

    if task not in envpool.list_all_envs():
        return None
    env = envpool.make_gymnasium(task, num_envs=lanes)
    env.reset()
    random = np.random.default_rng(0)

    def run(number: int):
        del number
        for _ in range(steps):
            env.step(random.integers(0, 7, lanes))
        return jnp.zeros(())

    return run
