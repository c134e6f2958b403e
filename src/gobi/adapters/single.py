"""One lane of our MiniGrid tasks as a plain Gymnasium environment. Needs the extra `gymnasium`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from gobi.adapters.play import DISABLED, SHOWN, Play, Played, Table, packs
from gobi.adapters.vector import action_space, level_seed, observation_space
from gobi.envs.minigrid import make
from gobi.envs.minigrid.generator import Generator
from gobi.envs.minigrid.rules import NUM_ACTIONS
from gobi.envs.minigrid.state import nth
from gobi.errors import GobiError, require, unknown

require("gymnasium", extra="gymnasium")

import gymnasium  # noqa: E402


class Plain(gymnasium.Env):
    """A task as a `gymnasium.Env`: for loops that want one, and for checks. `Vector` is the fast one.

    task:         a name of `gobi tasks`, or a task family with sizes of your own.
    seed:         whose levels are played if the first reset names no seed; None for one at random, so that
                  several environments made alike do not play the same levels.
    views:        what `info` shows beside the observation: "panorama", "full_grid".
    render_mode:  "rgb_array" for `render`, which then needs the extra `minigrid`.

    `env.max_steps` is the most steps of an episode, `env.task` the task itself.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        task: str | Generator,
        *,
        seed: int | None = None,
        views: Sequence[str] = (),
        render_mode: str | None = None,
    ):
        if render_mode not in (None, "rgb_array"):
            raise unknown("render mode", render_mode, ["rgb_array"])
        self.task = make(task)
        self.max_steps = self.task.spec.max_steps
        self.metadata = {**type(self).metadata, SHOWN: tuple(views)}
        self.render_mode = render_mode
        self.observation_space = observation_space()
        self.action_space = action_space()
        self._seed = seed
        self._play = Play(Table(self.task, 1, DISABLED, tuple(views), packed=packs()))
        self._over = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """A new episode: on the first level of a seed where one is given, on the next level otherwise."""
        super().reset(seed=seed)
        if seed is None and not self._play.started:
            seed = int(self.np_random.integers(2**31)) if self._seed is None else self._seed
        played = self._play.reset(None if seed is None else level_seed(seed))
        self._over = False
        return played.observation[0].copy(), _info(played)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one action: observation, reward, terminated, truncated, info."""
        if self._over:
            raise GobiError("the episode is over: call reset")
        if not self.action_space.contains(action):
            raise GobiError(f"an action is an integer in 0 .. {NUM_ACTIONS - 1}, got {action!r}")
        played = self._play.step(np.array([action], np.int32))
        terminated, truncated = bool(played.terminated[0]), bool(played.truncated[0])
        self._over = terminated or truncated
        return played.observation[0].copy(), float(played.reward[0]), terminated, truncated, _info(played)

    def render(self) -> Any:
        """The picture of the whole grid, what the agent sees lit up."""
        if self.render_mode is None:
            return None
        from gobi.envs.minigrid.render import frame

        return frame(self.task, nth(jax.device_get(self._play.states), 0))


def plain(task: str | Generator, **options: Any) -> Plain:
    """One of our tasks as a plain Gymnasium environment; see `Plain` for the options."""
    return Plain(task, **options)


def _info(played: Played) -> dict[str, Any]:
    return {name: np.array(view[0]) for name, view in played.views.items()}
