"""What the tests of worlds share: random play, and rollouts made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from gobi.envs.minigrid import DoorKey, make
from gobi.types import Transition
from gobi.worlds import Transitions, collect


@dataclasses.dataclass(frozen=True)
class TwoSteps(DoorKey):
    """DoorKey in which every second step ends an episode."""

    @property
    def max_steps(self) -> int:
        return 2


@pytest.fixture(scope="session")
def two_steps():
    return make(TwoSteps(5))


@pytest.fixture(scope="session")
def play() -> Transitions:
    """Two thousand random steps in KeyCorridorS3R3."""
    return collect(make("MiniGrid-KeyCorridorS3R3-v0"), jax.random.key(5), 2_000, num_envs=16)


@pytest.fixture(scope="session")
def rollout_of() -> Callable[..., Transition]:
    """A rollout [time, envs] made of collected rows; `done` marks the steps that count as ends."""

    def made(data: Transitions, time: int, envs: int, done=None) -> Transition:
        def shaped(array):
            return jnp.asarray(array[: time * envs]).reshape(time, envs, *array.shape[1:])

        ended = jnp.zeros((time, envs), bool) if done is None else jnp.asarray(done)
        return Transition(
            before={"panorama": shaped(data.panorama)},
            action=shaped(data.action),
            after={"panorama": shaped(data.after)},
            reward=jnp.zeros((time, envs)),
            terminated=ended,
            truncated=jnp.zeros((time, envs), bool),
        )

    return made
