"""Any Gymnasium vector environment as a source of transitions, with both true ends of every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Shaped

from gobi.errors import GobiError, require
from gobi.types import Spec

PREFIX = "gym/"
SUCCESS = ("is_success", "success")
"""What environments call it in their infos."""

Lanes = Bool[np.ndarray, " envs"]


def is_host(name: str) -> bool:
    """Whether a task is one of Gymnasium's, by its name."""
    return name.startswith(PREFIX)


def short(name: str) -> str:
    """A task's id without its prefix and version, for the names of folders."""
    return name.removeprefix(PREFIX).replace("/", "-").replace(":", "-").rsplit("-v", 1)[0]


class Step(NamedTuple):
    """What one step of all lanes gave.

    before:      what was acted on.
    action:      as rewards read it: an integer, or numbers in [-1, 1].
    after:       where it led: at an episode's end its true last observation.
    reward:      the task's.
    terminated:  the episode ended by the rules of the task.
    truncated:   the episode was cut off.
    real:        where a step was made at all: not where a lane was only reset.
    success:     whether the episode that ended was solved; NaN where it did not end, or does not tell.
    """

    before: Shaped[np.ndarray, "envs *shape"]
    action: Shaped[np.ndarray, "envs *size"]
    after: Shaped[np.ndarray, "envs *shape"]
    reward: Float32[np.ndarray, " envs"]
    terminated: Lanes
    truncated: Lanes
    real: Lanes
    success: Float64[np.ndarray, " envs"]

    @property
    def done(self) -> Lanes:
        """Whether the episode is over, for either reason."""
        return self.terminated | self.truncated


class Host:
    """A vector environment, its observations and actions as learners and rewards read them.

    spec:         what these must know of the task.
    observation:  what the lanes show now.
    first:        whether an episode begins with it.
    """

    def __init__(self, envs: Any, id: str):
        """Takes a `gymnasium.vector.VectorEnv` in any of the three modes of autoreset."""
        from gobi.adapters import observations

        modes = require("gymnasium.vector", extra="gymnasium").AutoresetMode
        self.envs, self.num_envs, self.steps = envs, int(envs.num_envs), 0
        self.mode = envs.metadata.get("autoreset_mode", modes.NEXT_STEP)
        self.disabled, self.next_step = self.mode == modes.DISABLED, self.mode == modes.NEXT_STEP
        self._observed = observations.observations(envs.single_observation_space)
        self._acted = observations.actions(envs.single_action_space)
        self._into = into(envs.single_action_space)
        limit = getattr(envs.spec, "max_episode_steps", None)
        self.spec: Spec = observations.spec(
            id, envs.single_observation_space, envs.single_action_space, limit
        )

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Begins an episode in every lane, each by its seed, and returns their observations."""
        batch, _ = self.envs.reset(seed=list(seeds))
        self.observation, self.first = self._observed(batch), np.ones(self.num_envs, bool)
        self._over = np.zeros(self.num_envs, bool)
        return self.observation

    def step(self, choice: np.ndarray) -> Step:
        """One step; lanes whose episode ends begin the next one.

        choice:  integers, or numbers of which [-1, 1] is the whole range, as `spec` says.
        """
        before, action = self.observation, self._into(np.asarray(choice))
        batch, reward, terminated, truncated, infos = self.envs.step(action)
        terminated, truncated = np.asarray(terminated, bool), np.asarray(truncated, bool)
        over, self.steps = terminated | truncated, self.steps + 1
        seen = self._observed(batch)
        after = self._finals(seen, infos, over)
        if self.disabled and over.any():
            batch, _ = self.envs.reset(options={"reset_mask": over})
            seen = np.where(_like(over, seen), self._observed(batch), seen)
        real, acted = ~self._over, self._acted(action)
        step = Step(
            # Where a lane is only reset, nothing was left: its new episode begins with what it shows now.
            before=np.where(_like(real, before), before, after),
            action=np.where(_like(real, acted), acted, np.zeros_like(acted)),
            after=after,
            reward=self._finite(reward),
            terminated=terminated | ~real,
            truncated=truncated & real,
            real=real,
            success=_success(infos, over),
        )
        self._over = over if self.next_step else np.zeros(self.num_envs, bool)
        self.observation, self.first = seen, ~real if self.next_step else over
        return step

    def close(self) -> None:
        """Closes the environments."""
        self.envs.close()

    def _finals(self, seen: np.ndarray, infos: dict[str, Any], over: Lanes) -> np.ndarray:
        """Where each step led: what is seen, but for lanes that were reset within it."""
        if "final_obs" not in infos or not over.any():
            return seen
        from gobi.adapters.environments import batch_of

        lanes = np.flatnonzero(over)
        finals = [infos["final_obs"][lane] for lane in lanes]
        finals = self._observed(batch_of(self.envs.single_observation_space, finals))
        after = seen.copy()
        after[lanes] = finals
        return after

    def _finite(self, reward: Any) -> np.ndarray:
        wrong = ~np.isfinite(reward)
        if wrong.any():
            lane = int(wrong.argmax())
            raise GobiError(f"environment {lane}: the reward is {reward[lane]} at its step {self.steps:,}")
        return np.asarray(reward, np.float32)


def make(task: str, num_envs: int) -> Host:
    """A task of Gymnasium's by its name, gym/ID, in so many lanes that are reset within the step."""
    gymnasium = require("gymnasium", extra="gymnasium")
    name = task.removeprefix(PREFIX)
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    try:
        envs = gymnasium.make_vec(name, num_envs, "sync", vector_kwargs={"autoreset_mode": mode})
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        told = " ".join(str(error).split())
        raise GobiError(f"Gymnasium cannot make the task '{name}': {told or type(error).__name__}") from error
    return Host(envs, task)


def seeds_of(*numbers: int, count: int) -> list[int]:
    """So many seeds of environments, by some numbers."""
    return [int(seed) >> 1 for seed in np.random.SeedSequence(numbers).generate_state(count)]


def into(space: Any) -> Callable[[np.ndarray], Any]:
    """From a learner's choices to the actions of a space: the way back from what rewards read of them."""
    spaces = require("gymnasium.spaces", extra="gymnasium")
    if isinstance(space, spaces.Discrete):
        return lambda choice: (choice + space.start).astype(space.dtype)
    if isinstance(space, spaces.Box):
        low, high = (np.asarray(bound, np.float64) for bound in (space.low, space.high))
        return lambda choice: _within(choice.reshape(-1, *space.shape), low, high).astype(space.dtype)
    binary = isinstance(space, spaces.MultiBinary)
    sizes = np.full(space.shape, 2) if binary else np.asarray(space.nvec)
    start = np.zeros_like(sizes) if binary else np.asarray(space.start)

    def several(choice: np.ndarray) -> np.ndarray:
        if choice.ndim == 1:
            # The last of them counts fastest, as in `adapters.observations`.
            parts = np.stack(np.unravel_index(choice, sizes.reshape(-1)), axis=-1).reshape(-1, *sizes.shape)
        else:
            parts = np.rint(_within(choice.reshape(-1, *sizes.shape), np.zeros(sizes.shape), sizes - 1.0))
        return (parts + start).astype(space.dtype)

    return several


def _within(choice: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Numbers in [-1, 1] as numbers between bounds; where there are none, as they are."""
    known = (np.abs(low) < np.inf) & (np.abs(high) < np.inf)
    least, most = np.where(known, low, -1.0), np.where(known, high, 1.0)
    inside = least + (np.clip(choice, -1, 1) + 1) / 2 * (most - least)
    return np.where(known, inside, choice)


def _like(lanes: Lanes, batch: np.ndarray) -> np.ndarray:
    return lanes.reshape(-1, *[1] * (batch.ndim - 1))


def _success(infos: dict[str, Any], over: Lanes) -> np.ndarray:
    found = np.full(over.shape, np.nan)
    if not over.any():
        return found
    told = infos.get("final_info", infos)
    for name in SUCCESS:
        if name in told:
            known = over & np.asarray(told.get(f"_{name}", over), bool)
            found[known] = np.asarray(told[name], np.float64)[known]
    return found
