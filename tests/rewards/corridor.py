"""A probe: a corridor that random play seldom walks to its end, and a learner that has the bonus alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, UInt8

from gobi.rewards import Reward
from gobi.types import Spec, Transition

LENGTH, STEPS, ENVS = 8, 12, 16
SPEC = Spec("Corridor", (7, 7, 3), "uint8", num_actions=2, max_steps=STEPS)


def views() -> UInt8[Array, "places 7 7 3"]:
    """Empty cells, and a goal in the cell that is numbered like the place."""
    seen = np.zeros((LENGTH + 1, 49, 3), np.uint8)
    seen[..., 0] = 1
    seen[np.arange(LENGTH + 1), np.arange(LENGTH + 1), 0] = 8
    return jnp.array(seen.reshape(-1, 7, 7, 3))


def play(logits: Float32[Array, "places 2"], key: Array) -> tuple[Transition, Array]:
    """One episode in each lane, from the left end; action 1 goes right, 0 left. Places before each step."""

    def step(place, key):
        action = jax.random.categorical(key, logits[place])
        after = jnp.clip(place + 2 * action - 1, 0, LENGTH)
        return after, (place, action, after)

    start = jnp.zeros(ENVS, jnp.int32)
    _, (before, actions, after) = jax.lax.scan(step, start, jax.random.split(key, STEPS))
    nothing = jnp.zeros((STEPS, ENVS), jnp.float32)
    ends = ({"observation": views()[place], "full_grid": views()[place]} for place in (before, after))
    over = jnp.broadcast_to(jnp.arange(STEPS)[:, None] == STEPS - 1, (STEPS, ENVS))
    one, other = ends
    return Transition(one, actions.astype(jnp.int32), other, nothing, nothing > 0, over), before


def arrivals(reward: Reward, key: Array, updates: int = 120, rate: float = 1.0) -> Float32[Array, " updates"]:
    """How many lanes come to the end of the corridor, after each update of a tabular policy gradient."""

    def update(running, key):
        logits, state = running
        play_key, learn_key = jax.random.split(key)
        transitions, places = play(logits, play_key)
        state, bonus, _ = reward.rollout(state, transitions)
        state, _ = reward.learn(state, learn_key, transitions)
        returns = jnp.cumsum(bonus[::-1], axis=0)[::-1]
        advantage = returns - jnp.mean(returns, axis=1, keepdims=True)
        advantage /= jnp.std(advantage) + 1e-6

        def objective(logits):
            chosen = jnp.take_along_axis(
                jax.nn.log_softmax(logits)[places], transitions.action[..., None], axis=-1
            )
            return jnp.mean(chosen[..., 0] * advantage)

        logits += rate * jax.grad(objective)(logits)
        end = jnp.all(transitions.after["observation"] == views()[-1], axis=(2, 3, 4))
        return (logits, state), jnp.mean(jnp.any(end, axis=0), dtype=jnp.float32)

    init_key, key = jax.random.split(key)
    begin = jnp.zeros((LENGTH + 1, 2)), reward.init(init_key, SPEC, ENVS)
    return jax.lax.scan(update, begin, jax.random.split(key, updates))[1]
