"""Probe environments: tiny tasks whose values and best policy are known, and a loop that trains on them.

They answer the calls of every environment here: `spec`, `reset(key)`, `step(state, action)`. A probe is a
table, so that one compiled training loop serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Integer, Key, PyTree, UInt8

from gobi.agents.impala import Hyper, Policy, Timeouts, Unroll, init_optimiser, learn
from gobi.agents.networks.grid import compact
from gobi.types import Spec, Timestep

LONGEST = 5
SPEC = Spec("Probe", (2,), "uint8", num_actions=2, max_steps=LONGEST)


class ProbeState(eqx.Module):
    """How many steps were made, and what the episode drew: cue 0 or 1."""

    time: Int32[Array, ""]
    cue: Int32[Array, ""]


class Probe(eqx.Module):
    """An episode of `length` steps with two actions, and a cue drawn at its start.

    seen:     what is observed at each time with each cue; the last time is the end.
    rewards:  what each action earns there.
    length:   steps of an episode.
    timeout:  whether its end is a time-out.
    """

    seen: UInt8[Array, "times 2 2"]
    rewards: Float32[Array, "times 2 2"]
    length: Int32[Array, ""]
    timeout: Bool[Array, ""]

    @property
    def spec(self) -> Spec:
        return SPEC

    def reset(self, key: Key[Array, ""]) -> tuple[ProbeState, Timestep]:
        state = ProbeState(jnp.int32(0), jax.random.randint(key, (), 0, 2))
        return state, self._timestep(state, jnp.float32(0))

    def step(self, state: ProbeState, action: Integer[Array, ""]) -> tuple[ProbeState, Timestep]:
        reward = self.rewards[state.time, state.cue, action]
        state = ProbeState(state.time + 1, state.cue)
        return state, self._timestep(state, reward)

    def _timestep(self, state, reward) -> Timestep:
        over = state.time >= self.length
        return Timestep(self.seen[state.time, state.cue], reward, over & ~self.timeout, over & self.timeout)


def probe(
    length: int,
    seen: Callable[[int, int], tuple[int, int]],
    reward: Callable[[int, int, int], float],
    timeout: bool = False,
) -> Probe:
    """A probe from what is seen at (time, cue) and earned by (time, cue, action)."""
    times = range(LONGEST + 1)
    return Probe(
        jnp.array(np.array([[seen(t, cue) for cue in (0, 1)] for t in times], np.uint8)),
        jnp.array([[[reward(t, cue, a) for a in (0, 1)] for cue in (0, 1)] for t in times], jnp.float32),
        jnp.int32(length),
        jnp.array(timeout),
    )


def constant(length: int = 1, timeout: bool = False) -> Probe:
    """Each step earns 1, nothing is seen. One step is worth 1; an endless row of them 1 / (1 - discount)."""
    return probe(length, lambda t, cue: (0, 0), lambda t, cue, action: 1.0, timeout)


def omen() -> Probe:
    """One step earns -1 or 1, and the cue tells which: that is its value."""
    return probe(1, lambda t, cue: (1 + cue, 0), lambda t, cue, action: 2.0 * cue - 1)


def delayed(length: int) -> Probe:
    """The last step earns 1, the clock is seen: the value is discount ** (steps that are left - 1)."""
    return probe(length, lambda t, cue: (t, 0), lambda t, cue, action: float(t == length - 1))


def choice() -> Probe:
    """One step earns 1 if the action is the one shown."""
    return probe(1, lambda t, cue: (1 + cue, 0), lambda t, cue, action: float(action == cue))


def recall(length: int) -> Probe:
    """A T-maze: the first view shows the action that pays at the end. Without memory, half is earned."""
    last = length - 1
    return probe(
        length,
        lambda t, cue: (1 + cue if t == 0 else 0, int(t == last)),
        lambda t, cue, action: float(t == last and action == cue),
    )


def rollout(env: Any, policy: Policy, num_envs: int, steps: int, lanes: PyTree, key: Key[Array, ""]) -> Any:
    """Plays `steps` steps in all lanes: the lanes afterwards, the unroll, and where it was cut off."""
    before = lanes

    def step(lanes, key):
        states, observation, first, carry = lanes
        act_key, reset_key = jax.random.split(key)
        logits, _, carry = policy(observation, first, carry)
        actions = jax.random.categorical(act_key, logits)
        states, after = jax.vmap(env.step)(states, actions)
        fresh, start = jax.vmap(env.reset)(jax.random.split(reset_key, num_envs))
        states = jax.tree.map(lambda new, old: jnp.where(after.done, new, old), fresh, states)
        following = jnp.where(after.done[:, None], start.observation, after.observation)
        return (states, following, after.done, carry), (observation, first, actions, logits, after)

    lanes, (observations, first, actions, logits, after) = jax.lax.scan(
        step, lanes, jax.random.split(key, steps)
    )
    unroll = Unroll(
        observations=jnp.concatenate([observations, lanes[1][None]]),
        first=jnp.concatenate([first, lanes[2][None]]),
        actions=actions,
        logits=logits,
        rewards=after.reward,
        terminal=after.done,
        carry=before[3],
    )
    return lanes, unroll, Timeouts(after.truncated, after.observation, most=steps)


def start(env: Any, policy: Policy, num_envs: int, key: Key[Array, ""]) -> PyTree:
    """All lanes at the start of an episode."""
    states, timestep = jax.vmap(env.reset)(jax.random.split(key, num_envs))
    return states, timestep.observation, jnp.ones(num_envs, bool), policy.initial(num_envs)


@eqx.filter_jit
def train(
    env: Any,
    key: Key[Array, ""],
    discount: Float32[Array, ""],
    bootstrap: Bool[Array, ""],
    updates: int = 600,
    steps: int = 10,
    learning_rate: float = 3e-3,
    num_envs: int = 16,
    units: int = 16,
) -> tuple[Policy, dict[str, Array]]:
    """A compact policy after so many updates, its learning rate falling to 0, and the metrics of each."""
    policy_key, start_key, key = jax.random.split(key, 3)
    policy = compact(env.spec, policy_key, units=units)
    hyper = Hyper(discount=discount, entropy_cost=0.01)

    def update(running, inputs):
        policy, opt_state, lanes = running
        key, rate = inputs
        lanes, unroll, timeouts = rollout(env, policy, num_envs, steps, lanes, key)
        timeouts = eqx.tree_at(lambda record: record.truncated, timeouts, timeouts.truncated & bootstrap)
        policy, opt_state, metrics = learn(policy, opt_state, unroll, hyper, rate, timeouts=timeouts)
        return (policy, opt_state, lanes), metrics | {"reward": jnp.mean(unroll.rewards)}

    rates = learning_rate * (1 - jnp.arange(updates) / updates)
    running = policy, init_optimiser(policy), start(env, policy, num_envs, start_key)
    (policy, _, _), metrics = jax.lax.scan(update, running, (jax.random.split(key, updates), rates))
    return policy, metrics


def along(env: Probe, policy: Policy, cue: int = 0) -> tuple[Array, Array]:
    """Action probabilities and values at each step of the episode with this cue."""
    observations = env.seen[: int(env.length), cue, None]
    first = jnp.arange(len(observations))[:, None] == 0
    logits, values, _ = policy.unroll(observations, first, policy.initial(1))
    return jax.nn.softmax(logits)[:, 0], values[:, 0]
