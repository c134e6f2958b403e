"""Made-up play on control tasks: a replay that is filled, and a world whose imagination is a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32

from gobi.agents.rad.replay import Replay, empty
from gobi.rewards.control import ControlReward
from gobi.types import Spec, Transition
from gobi.worlds.rssm import shrink

ACTIONS = 2
PICTURES = Spec("pictures", (20, 20, 3), "uint8", 0, max_steps=40, action_size=ACTIONS)
VECTORS = Spec("vectors", (4,), "float32", 0, max_steps=40, action_size=ACTIONS)


def observation(rng: np.random.Generator, spec: Spec) -> np.ndarray:
    if spec.observation_dtype == "uint8":
        return rng.integers(0, 256, spec.observation_shape, np.uint8)
    return rng.standard_normal(spec.observation_shape).astype(np.float32)


def transition(before, action, after, slot: int, terminated: bool = False, truncated: bool = False):
    return Transition(
        before={"frame": jnp.asarray(before)[None], "slot": jnp.array([slot], jnp.int32)},
        action=jnp.asarray(action, jnp.float32)[None],
        after={"frame": jnp.asarray(after)[None]},
        reward=jnp.zeros(1),
        terminated=jnp.array([terminated]),
        truncated=jnp.array([truncated]),
    )


def filled(
    reward: ControlReward,
    spec: Spec,
    slots: int,
    steps: int,
    seed: int = 0,
    same: bool = False,
    watch: Callable[[Any, Replay], None] = lambda state, replay: None,
) -> tuple[Any, Replay]:
    """A reward's state and the replay after so many random steps, in episodes of 1 to 9.

    same:   all frames are drawn from five, so that many are equal.
    watch:  is shown both after every step, when the next episode has begun if one has ended.
    """
    rng = np.random.default_rng(seed)
    some = [observation(rng, spec) for _ in range(5)]

    def look() -> np.ndarray:
        return some[rng.integers(5)] if same else observation(rng, spec)

    state = jax.jit(reward.init, static_argnums=(1, 2))(jax.random.key(seed), spec, 1)
    replay = empty(slots, spec)
    step, add = jax.jit(reward.step), jax.jit(Replay.add)
    begin = jax.jit(lambda state, replay, first: (reward.begin(state, first), replay.begin(first)))
    left, before = int(rng.integers(1, 10)), look()
    state, replay = begin(state, replay, jnp.asarray(before))
    for _ in range(steps):
        left -= 1
        action = rng.uniform(-1, 1, ACTIONS).astype(np.float32)
        after = look()
        made = transition(before, action, after, int(replay.slot), truncated=left == 0)
        state, stored = step(state, made)
        none = jnp.float32(0), jnp.bool_(False), stored[0]
        replay, before = add(replay, jnp.asarray(action), *none, jnp.asarray(after)), after
        if left == 0:
            left, before = int(rng.integers(1, 10)), look()
            state, replay = begin(state, replay, jnp.asarray(before))
        watch(state, replay)
    return state, replay


IMAGES = np.random.default_rng(7).uniform(-0.5, 0.5, (9, 64, 64, 3)).astype(np.float32)
"""All that can be imagined."""


class TableState(eqx.Module):
    """What the world has learned: how many lessons it had."""

    learned: Int32[Array, ""]


class Table(eqx.Module):
    """A world that is known all through: its belief is a number, what it imagines is looked up by it.

    The belief depends on everything observed in the episode, and the order of it.
    """

    predictions: int = eqx.field(static=True, default=3)

    @property
    def needed(self):
        return True

    def init(self, key, spec):
        return TableState(jnp.int32(0))

    def as_it_is(self, ws):
        return ws

    def first_belief(self):
        return jnp.int32(1)

    def observe(self, ws, belief, action, frame, key):
        return advance(belief, jnp.round(action[0]).astype(jnp.int32), frame[0, 0, 0].astype(jnp.int32))

    def imagine(self, ws, belief, key):
        return jnp.asarray(IMAGES)[imagined(belief, jnp.arange(self.predictions), ws.learned)]

    def present(self, ws, beliefs, frames):
        return shrink(frames)

    def learn(self, ws, key, frames, actions):
        return TableState(ws.learned + 1), {"world/loss": jnp.float32(0)}


def advance(belief: Any, action: Any, frame: Any) -> Any:
    """The belief after an action led to a frame; plain arithmetic, for numbers and arrays alike."""
    return (belief * 5 + action * 3 + frame) % 31


def imagined(belief: Any, which: Any, learned: Any) -> Any:
    """The image that is imagined as the number `which`."""
    return (belief // 4 + which * which + learned) % len(IMAGES)
