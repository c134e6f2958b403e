"""A control task, played by dm_control on the host: it shows frames or its state, and holds each action."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float32, UInt8

from gobi.envs.dmc import rendering, saving
from gobi.envs.dmc.tasks import ControlTask, find
from gobi.errors import GobiError, require
from gobi.types import Spec

Observations = Literal["pixels", "state"]

UNENDING = 1000
"""Environment steps of an episode where dm_control sets no limit."""


class Step(NamedTuple):
    """What one agent step gives back.

    observation:  what the agent sees after it: one frame, or the state.
    reward:       the sum of the task's rewards over the repeated action.
    terminated:   the episode ended by the rules of the task; most control tasks never do.
    truncated:    the episode ran out of time, and what comes after it has a value still.
    """

    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool

    @property
    def done(self) -> bool:
        """Whether the episode is over, for either reason."""
        return self.terminated or self.truncated


class Control:
    """One control task with one stream of random starts; never resets by itself.

    spec:  what a learner must know: one observation (a single frame, not a stack of them), the size of an
           action, and the length of an episode in agent steps.
    task:  which task it is.
    """

    def __init__(
        self,
        task: str | ControlTask,
        seed: int,
        observations: Observations = "pixels",
        repeat: int = 2,
        size: int = 100,
    ):
        """`repeat`: environment steps for which an action is held. `size`: height and width of a frame."""
        self.task = check(task, seed, observations, repeat, size)
        rendering.choose(needed=observations == "pixels")
        suite = require("dm_control.suite", extra="dmc")
        self._observations, self._repeat, self._size = observations, repeat, size
        with _without_old_words():
            self._env = suite.load(self.task.domain, self.task.task, task_kwargs={"random": seed})
        if math.isinf(self._env._step_limit):
            self._env._step_limit = UNENDING
        self._cameras: dict[int, Any] = {}
        self._scale = _scale(self._env.action_spec())
        self.spec = self._make_spec()

    def reset(self) -> np.ndarray:
        """Starts the next episode and returns its first observation."""
        return self._observe(self._env.reset().observation)

    def step(self, action: np.ndarray) -> Step:
        """Holds an action, numbers in [-1, 1], for the repeat or until the episode ends."""
        if self._env._reset_next_step:
            raise GobiError(f"{self.task.id}: no episode is under way; call reset() first")
        control = self._rescale(action)
        control_module = require("dm_control.rl.control", extra="dmc")
        reward, last = 0.0, None
        for _ in range(self._repeat):
            try:
                last = self._env.step(control)
            except control_module.PhysicsError as error:
                raise GobiError(f"{self.task.id}: the physics broke down: {error}") from error
            reward += self._sparse(float(last.reward))
            if last.last():
                break
        assert last is not None
        # dm_control says by the discount whether time ran out (1) or the task is over (0).
        terminated = last.last() and last.discount == 0
        return Step(self._observe(last.observation), reward, terminated, last.last() and not terminated)

    def frame(self, size: int | None = None) -> UInt8[np.ndarray, "size size 3"]:
        """The picture that the task's camera sees now, whatever the observations are."""
        rendering.choose()
        wanted = self._size if size is None else size
        if wanted not in self._cameras:
            self._cameras[wanted] = self._make_camera(wanted)
        # The camera draws into the same memory every time.
        return self._cameras[wanted].render().copy()

    def save(self) -> dict[str, np.ndarray]:
        """All that `load` needs to continue from here, bit for bit."""
        return saving.save(self._env, self.task.id)

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continues where `save` was called, in this or another process."""
        saving.load(self._env, self.task.id, saved)

    def close(self) -> None:
        """Lets go of the pictures' memory; the worker has the same method."""
        self._cameras.clear()
        self._env.close()

    def _make_spec(self) -> Spec:
        if self._observations == "pixels":
            shape, dtype = (self._size, self._size, 3), "uint8"
        else:
            sizes = [int(np.prod(one.shape)) for one in self._env.observation_spec().values()]
            shape, dtype = (sum(sizes),), "float32"
        limit = math.ceil(math.ceil(self._env._step_limit) / self._repeat)
        (actions,) = self._env.action_spec().shape
        return Spec(self.task.id, shape, dtype, num_actions=0, max_steps=limit, action_size=actions)

    def _make_camera(self, size: int) -> Any:
        # dm_control's own `physics.render` makes a camera for every frame.
        engine = require("dm_control.mujoco.engine", extra="dmc")
        try:
            return engine.Camera(self._env.physics, size, size, self.task.camera)
        except ValueError as error:
            raise GobiError(f"{self.task.id}: {str(error).splitlines()[0]}") from error

    def _observe(self, observed: dict[str, Any]) -> np.ndarray:
        if self._observations == "pixels":
            return self.frame()
        return flat(observed)

    def _rescale(self, action: np.ndarray) -> np.ndarray:
        given = np.asarray(action)
        if given.shape != (self.spec.action_size,):
            raise GobiError(
                f"{self.task.id} takes actions of shape ({self.spec.action_size},), got {given.shape}"
            )
        if not np.all(np.abs(given) <= 1):
            raise GobiError(f"{self.task.id} takes actions in [-1, 1], got {given}")
        control = given.astype(np.float64)
        if self._scale is None:
            return control
        low, high = self._scale
        return low + (control + 1) * (high - low) / 2

    def _sparse(self, reward: float) -> float:
        threshold = self.task.threshold
        return reward if threshold is None or reward >= threshold else 0.0


def flat(observed: dict[str, Any]) -> Float32[np.ndarray, "size"]:
    """dm_control's observation as one vector, its parts in their own order."""
    return np.concatenate([np.ravel(part) for part in observed.values()]).astype(np.float32)


def check(task: str | ControlTask, seed: int, observations: str, repeat: int, size: int) -> ControlTask:
    """The task, once all arguments of an environment are found to make sense."""
    found = find(task) if isinstance(task, str) else task
    if observations not in get_args(Observations):
        raise GobiError(f"observations are 'pixels' or 'state', got '{observations}'")
    if not 0 <= seed < 2**32:
        raise GobiError(f"a seed is a number from 0 to {2**32 - 1}, got {seed}")
    if repeat < 1 or size < 1:
        raise GobiError(f"the repeat and the size of a frame are at least 1, got {repeat} and {size}")
    return found


@contextlib.contextmanager
def _without_old_words() -> Iterator[None]:
    """Keeps MuJoCo from telling the user that dm_control's own model files use deprecated words."""

    def about_something_else(record: logging.LogRecord) -> bool:
        return "is deprecated" not in record.getMessage()

    logger = logging.getLogger("absl")
    logger.addFilter(about_something_else)
    try:
        yield
    finally:
        logger.removeFilter(about_something_else)


def _scale(spec: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Lowest and highest action of dm_control; None where they are -1 and 1, or have no bounds."""
    low, high = np.asarray(spec.minimum), np.asarray(spec.maximum)
    unit = np.all(low == -1) and np.all(high == 1)
    return None if unit or np.any(np.abs([low, high]) >= 1e9) else (low, high)
