"""What a control reward answers to beyond other rewards: when its world model has lessons."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from gobi.errors import GobiError
from gobi.rewards.reward import Reward
from gobi.types import Spec, Transition


@dataclasses.dataclass(frozen=True)
class Lessons:
    """When to call `learn`, and with what; steps are an agent's steps. Dreamer's own numbers (2019).

    batch:     sequences in one call.
    length:    steps of a sequence.
    every:     steps between two rounds of calls: one episode.
    steps:     calls in a round.
    prefill:   steps before the first round.
    pretrain:  calls in that first round.
    """

    batch: int = 50
    length: int = 50
    every: int = 500
    steps: int = 100
    prefill: int = 2500
    pretrain: int = 100

    def __post_init__(self):
        for field in dataclasses.fields(self):
            least = 0 if field.name in ("prefill", "pretrain") else 1
            if getattr(self, field.name) < least:
                raise GobiError(
                    f"{field.name} of the lessons must be at least {least}, got {getattr(self, field.name)}"
                )

    def due(self, step: int) -> int:
        """How many calls of `learn` follow the agent's step number `step`, counted from 1."""
        if step == max(self.prefill, 1):
            return self.pretrain
        return self.steps if step > self.prefill and (step - self.prefill) % self.every == 0 else 0


class ControlReward(Reward):
    """An intrinsic reward for off-policy learning on control tasks, one environment to a seed.

    A transition brings the views `frame` (one picture, or a state vector) and `slot` (where the replay keeps
    the frame that was left). `begin` is called with the first frame of each episode, then `step` once for
    each transition, in order; what it returns is stored in the replay. `at_sampling` makes of that the bonus
    of a replayed batch; `learn` takes the replay's sequences.
    """

    @property
    def reads(self) -> frozenset[str]:
        """Frames and their places in the replay."""
        return frozenset({"frame", "slot"})

    @property
    def lessons(self) -> Lessons | None:
        """When `learn` is to be called; None where there is nothing to learn from sequences."""
        return None

    def begin(self, state: Any, frame: Array) -> Any:
        """An episode begins with this frame."""
        del frame
        return state


class Nothing(ControlReward):
    """No bonus at all: training on the task's own reward."""

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int = 1) -> Any:
        """No state."""
        del key, spec, num_envs
        return ()

    def step(self, state: Any, transition: Transition) -> tuple[Any, Float32[Array, " envs"]]:
        """Zeros."""
        return state, jnp.zeros_like(transition.reward)
