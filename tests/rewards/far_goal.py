"""A probe: a corridor too long for chance, and a reward at its end that must be found before it can teach.

Each place has a view of its own, all of them different. The agent is an actor-critic that keeps tables, so
that what is found or not found is the bonus's doing.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gobi.rewards import Nothing, Reward
from gobi.types import Spec, Transition

PLACES, STEPS, LANES = 20, 24, 8
SPEC = Spec("Corridor", (7, 7, 3), "uint8", num_actions=2, max_steps=STEPS)
SEEDS = 3


def views() -> np.ndarray:
    """What is seen at each place: any objects, colours and states."""
    rng = np.random.default_rng(0)
    return rng.integers(0, (11, 6, 3), (PLACES, 7, 7, 3)).astype(np.uint8)


def must_beat_no_bonus(reward: Reward, coefficient: float = 0.1, updates: int = 150) -> None:
    """With every seed the agent comes to walk to the end, where without a bonus none ever gets there."""
    found = explore(reward, coefficient, updates)
    assert (found[:, -20:].mean(axis=1) > 0.9).all(), found.reshape(SEEDS, -1, 10).mean(axis=2)
    assert without_bonus().mean() < 0.01


def explore(reward: Reward, coefficient: float, updates: int) -> np.ndarray:
    """Of each seed's and each update's episodes the share that reached the end."""

    def update(tables, key):
        logits, values, state = tables
        acting, learning = jax.random.split(key)
        place, action, after = play(logits, acting)
        earned = (after == PLACES - 1).astype(jnp.float32)
        over = jnp.broadcast_to((jnp.arange(STEPS) == STEPS - 1)[:, None], earned.shape)
        steps = Transition(look(place), action, look(after), earned, jnp.zeros_like(over), over)
        state, bonus, _ = reward.rollout(state, steps)
        state, _ = reward.learn(state, learning, steps)
        logits, values = learned(logits, values, place, action, earned + coefficient * bonus)
        return (logits, values, state), jnp.mean(jnp.any(earned > 0, axis=0))

    def run(key):
        start, key = jax.random.split(key)
        tables = jnp.zeros((PLACES, 2)), jnp.zeros(PLACES), reward.init(start, SPEC, LANES)
        return jax.lax.scan(update, tables, jax.random.split(key, updates))[1]

    # Unlike most tests, this one computes much: it pays to compile it well.
    trained = jax.jit(jax.vmap(run), compiler_options={"xla_backend_optimization_level": 2})
    return np.asarray(trained(jax.vmap(jax.random.key)(jnp.arange(SEEDS))))


@functools.cache
def without_bonus() -> np.ndarray:
    """The same without a bonus."""
    return explore(Nothing(), coefficient=0, updates=200)


def look(place):
    """The views of places; `futures` is what going back and going on would show, for a `Recorded` world."""
    known = jnp.asarray(views())
    ways = jnp.clip(place[..., None] + jnp.array([-1, 1]), 0, PLACES - 1)
    return {"observation": known[place], "full_grid": known[place], "futures": known[ways]}


def play(logits, key):
    """An episode in every lane; action 1 goes on, 0 goes back. Place, action and next place of each step."""

    def step(place, key):
        action = jax.random.categorical(key, logits[place]).astype(jnp.int32)
        after = jnp.clip(place + 2 * action - 1, 0, PLACES - 1)
        return after, (place, action, after)

    return jax.lax.scan(step, jnp.zeros(LANES, jnp.int32), jax.random.split(key, STEPS))[1]


def learned(logits, values, place, action, paid):
    """Both tables after a step on whole episodes. Advantages are divided by their spread: size is nothing."""
    _, returns = jax.lax.scan(
        lambda later, now: (now + 0.9 * later,) * 2, jnp.zeros(LANES), paid, reverse=True
    )
    wrong = returns - values[place]
    count = jnp.zeros(PLACES).at[place].add(1.0)
    values = values + 0.3 * jnp.zeros(PLACES).at[place].add(wrong) / jnp.maximum(count, 1)
    chosen = jax.nn.one_hot(action, 2) - jax.nn.softmax(logits[place])
    steps = chosen * (wrong / (jnp.std(wrong) + 1e-6))[..., None]
    return logits + 0.05 * jnp.zeros_like(logits).at[place].add(steps), values
