"""`gobi play`: records an episode."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

import gobi
from gobi.analysis import pictures
from gobi.cli.arguments import Switch, TaskName, at_least, check_seed
from gobi.cli.terminal import say
from gobi.envs.minigrid import MiniGrid, State, numbered_levels, policies, render, solver
from gobi.envs.minigrid.state import nth
from gobi.errors import GobiError, require


def play(
    task: TaskName,
    /,
    *,
    out: Path,
    policy: Literal["random", "biased", "solver"] = "random",
    seed: int = 0,
    level: int = 0,
    max_frames: int = 200,
    fps: int = 10,
    overwrite: Switch = False,
) -> None:
    """Records an episode of a task as a GIF, an MP4 or a PNG.

    Args:
        task: the task, for example KeyCorridorS3R3; `gobi tasks` lists them.
        out: the file to write: .gif, .mp4, or .png for at most twelve of the pictures on one sheet.
        policy: random plays any action, biased prefers those that do something, solver knows the way.
        seed: whose levels to play, and how the random policies draw.
        level: which of the seed's levels.
        max_frames: the film ends after this many pictures at the latest.
        fps: pictures per second.
        overwrite: replace the file if it is there.
    """
    env = gobi.make(task)
    at_least("--level", level, 0)
    at_least("--max-frames", max_frames, 1)
    check_seed(seed)
    pictures.check_output(out, fps)
    require("minigrid", extra="minigrid")
    if out.exists() and not overwrite:
        raise GobiError(f"{out} is there already: give another name, or --overwrite")

    start = numbered_level(env, seed, level)
    limit = min(max_frames - 1, env.spec.max_steps)
    if policy == "solver":
        plan = solver.solve(start)
        if plan is None:
            raise GobiError(f"level {level} of seed {seed} cannot be solved: try another --level")
        episode = follow(env, start, plan[:limit])
    else:
        episode = act(env, start, policies.biased if policy == "biased" else policies.uniform, seed, limit)
    pictures.save(out, render.episode(env, start, episode.actions), fps)

    cut = "" if episode.over else f"; the film stops at --max-frames {max_frames}"
    say(f"{env.spec.id}, level {level} of seed {seed}, {policy} policy: {episode}{cut}")
    say(f"wrote {out} ({out.stat().st_size / 1000:.0f} kB)")


@dataclasses.dataclass(frozen=True)
class Episode:
    """What was played from a level on, up to the end of the episode if it came.

    actions:       the actions.
    total_reward:  the sum of the rewards.
    over:          whether the episode ended.
    """

    actions: list[int]
    total_reward: float
    over: bool

    def __str__(self) -> str:
        solved = "solved" if self.total_reward > 0 else "not solved"
        return f"{len(self.actions)} steps, return {self.total_reward:.3f}, {solved}"


def numbered_level(env: MiniGrid, seed: int, number: int) -> State:
    """One level of a seed."""
    return nth(numbered_levels(env, seed, number, 1), 0)


def act(
    env: MiniGrid, start: State, policy: Callable[..., Int32[Array, ""]], seed: int, steps: int
) -> Episode:
    """Plays a policy of `policies` for so many steps, or until the episode is over."""
    return _episode(*_roll(env, policy, start, jax.random.split(jax.random.key(seed), steps)))


def follow(env: MiniGrid, start: State, actions: list[int]) -> Episode:
    """Plays the given actions until the episode is over."""
    return _episode(*_roll(env, _as_told, start, jnp.array(actions, jnp.int32)))


def _as_told(action: Int32[Array, ""], state: State) -> Int32[Array, ""]:
    del state
    return action


@functools.partial(jax.jit, static_argnums=(0, 1))
def _roll(env: MiniGrid, choose: Callable[..., Int32[Array, ""]], start: State, inputs: Any):
    """The actions, rewards and ends of a chain of steps; `choose` takes one input and the state at each."""

    def step(state, one_input):
        action = choose(one_input, state)
        state, timestep = env.step(state, action)
        return state, (action, timestep.reward, timestep.done)

    return jax.lax.scan(step, start, inputs)[1]


def _episode(
    actions: Int32[Array, " steps"], rewards: Float32[Array, " steps"], done: Bool[Array, " steps"]
) -> Episode:
    """The chain up to the first end."""
    ends = np.flatnonzero(np.asarray(done))
    steps = int(ends[0]) + 1 if len(ends) else len(done)
    return Episode(
        actions=np.asarray(actions)[:steps].tolist(),
        total_reward=float(np.asarray(rewards)[:steps].sum()),
        over=len(ends) > 0,
    )
