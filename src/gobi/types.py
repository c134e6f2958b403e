"""The few records that every part of gobi passes along: Spec, Timestep and Transition."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, UInt8

Views = dict[str, Any]
"""What can be seen of a state, by name: `observation`, `panorama`, `full_grid`, or the `state` itself."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """What a learner must know of a task before it starts.

    id:                 the name under which `gobi.make` finds the task.
    observation_shape:  shape of one observation.
    observation_dtype:  its dtype, by name.
    num_actions:        actions are the integers 0 .. num_actions - 1; 0 where they are vectors.
    max_steps:          an episode is truncated after this many steps.
    action_size:        actions are vectors of so many numbers in [-1, 1]; 0 where they are integers.
    classes:            observations are integers 0 .. classes - 1 (symbols); 0: they are numbers or pixels.
    """

    id: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    num_actions: int
    max_steps: int
    action_size: int = 0
    classes: int = 0


class Timestep(eqx.Module):
    """What one step of one environment gives back.

    observation:  what the agent sees after the step.
    reward:       the task's own reward.
    terminated:   the episode ended by the rules of the task.
    truncated:    the episode ran out of steps. Both may be true at once.
    """

    observation: UInt8[Array, "..."]
    reward: Float32[Array, "..."]
    terminated: Bool[Array, "..."]
    truncated: Bool[Array, "..."]

    @property
    def done(self) -> Bool[Array, "..."]:
        """Whether the episode is over, for either reason."""
        return self.terminated | self.truncated


class Transition(eqx.Module):
    """Both ends of a step in each of the parallel environments; a rollout has a time axis before those.

    before:      the views of where the action was taken.
    action:      what was done.
    after:       the views of where it led: at an episode's end its true last state, not the next one's first.
    reward:      the task's own reward.
    terminated:  the episode ended by the rules of the task.
    truncated:   the episode ran out of steps. Both may be true at once.
    real:        where a step was made at all; None: everywhere. A lane that only resets makes none: it is an
                 episode of its own, and rewards leave it out of what they learn and remember for life.
    """

    before: Views
    action: Int32[Array, "*time envs"] | Float32[Array, "*time envs size"]
    after: Views
    reward: Float32[Array, "*time envs"]
    terminated: Bool[Array, "*time envs"]
    truncated: Bool[Array, "*time envs"]
    real: Bool[Array, "*time envs"] | None = None

    @property
    def done(self) -> Bool[Array, "*time envs"]:
        """Whether the episode is over, for either reason."""
        return self.terminated | self.truncated

    @property
    def weights(self) -> Float32[Array, "*time envs"]:
        """What each step counts for in averages: 1, or 0 where none was made."""
        return jnp.ones_like(self.reward) if self.real is None else self.real.astype(jnp.float32)
