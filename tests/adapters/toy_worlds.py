"""Toy environments whose observations tell where they are, and a reward that remembers what it was given."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from jaxtyping import Array

from gobi.rewards import Reward

MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)
ROOM = 64


class Told(gymnasium.Env):
    """Observations are (number of the episode, number of the step); episodes have the lengths given, in turn.

    Odd episodes terminate, even ones are truncated; the last step of an episode pays 1.
    """

    observation_space = gymnasium.spaces.Box(0, 200, (2,), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, lengths: tuple[int, ...]):
        self.lengths, self.episode, self.at = lengths, -1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.episode, self.at = self.episode + 1, 0
        return self._see(), {}

    def step(self, action: Any):
        self.at += 1
        over = self.at == self.lengths[self.episode % len(self.lengths)]
        odd = self.episode % 2 == 1
        return self._see(), float(over), over and odd, over and not odd, {}

    def _see(self) -> np.ndarray:
        return np.array([self.episode, self.at], np.uint8)


class Grid(Told):
    """The same, but what is seen looks like MiniGrid's view: few different ones, so that some come again."""

    observation_space = gymnasium.spaces.Box(0, 255, (7, 7, 3), np.uint8)

    def _see(self) -> np.ndarray:
        return np.random.default_rng((self.episode * 7 + self.at * 3) % 5).integers(0, 3, (7, 7, 3), np.uint8)


def vector(
    mode: AutoresetMode, lengths: tuple[tuple[int, ...], ...], kind: type[Told] = Told, **options: Any
) -> SyncVectorEnv:
    """One environment for each tuple of lengths."""
    return SyncVectorEnv([lambda own=own: kind(own) for own in lengths], autoreset_mode=mode, **options)


def play(env: Any, steps: int, action: int = 1) -> list[tuple[Any, ...]]:
    """So many calls of `step`; where environments do not reset themselves, those that ended are reset."""
    made = []
    for number in range(steps):
        actions = np.full(env.num_envs, (action + number) % 3)
        made.append(env.step(actions))
        done = made[-1][2] | made[-1][3]
        if env.metadata["autoreset_mode"] == AutoresetMode.DISABLED and done.any():
            env.reset(options={"reset_mask": done})
    return made


def pairs(lengths: tuple[int, ...], count: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Both ends of the first steps that an environment of these lengths makes."""
    made = []
    episode = 0
    while len(made) < count:
        made += [((episode, at), (episode, at + 1)) for at in range(lengths[episode % len(lengths)])]
        episode += 1
    return made[:count]


class Recorder(Reward):
    """Pays 1 everywhere, and keeps what it was given, in the order of calls."""

    view: str = eqx.field(static=True, default="observation")

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.view})

    def init(self, key: Any, spec: Any, num_envs: int) -> dict[str, Array]:
        shape = spec.observation_shape if self.view == "observation" else (2,)
        views = jnp.zeros((ROOM, num_envs, *shape), spec.observation_dtype)
        flags = jnp.zeros((ROOM, num_envs), bool)
        return {
            "before": views,
            "after": views,
            "real": flags,
            "done": flags,
            "action": jnp.zeros((ROOM, num_envs), jnp.int32),
            "reward": jnp.zeros((ROOM, num_envs)),
            "calls": jnp.int32(0),
            "lessons": jnp.zeros((ROOM, num_envs)),
        }

    def step(self, state: Any, transition: Any) -> tuple[Any, Any]:
        at = state["calls"]
        given = {
            "before": transition.before[self.view],
            "after": transition.after[self.view],
            "real": transition.real,
            "done": transition.done,
            "action": transition.action,
            "reward": transition.reward,
        }
        kept = {name: state[name].at[at].set(value) for name, value in given.items()}
        return state | kept | {"calls": at + 1}, jnp.ones_like(transition.reward)

    def learn(self, state: Any, key: Any, transitions: Any) -> tuple[Any, dict[str, Array]]:
        time = len(transitions.reward)
        return state | {"lessons": state["lessons"].at[:time].set(transitions.weights)}, {}


def recorded(env: Any) -> dict[str, np.ndarray]:
    """What the recorder of a wrapped environment was given."""
    state = {name: np.asarray(value) for name, value in env.bonus.program.running.state.items()}
    return {name: value[: state["calls"]] if value.ndim else value for name, value in state.items()}


def real_pairs(env: Any, lane: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Both ends of the real steps of one environment, as the reward was given them."""
    kept = recorded(env)
    return [
        (tuple(before.tolist()), tuple(after.tolist()))
        for before, after, real in zip(
            kept["before"][:, lane], kept["after"][:, lane], kept["real"][:, lane], strict=True
        )
        if real
    ]
