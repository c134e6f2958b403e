"""GoBI on control tasks: growth as a step is made, times a lifelong bonus as it is replayed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from gobi.rewards.control.lessons import ControlReward, Lessons
from gobi.rewards.control.re3 import RE3
from gobi.rewards.control.reachability import Reachability
from gobi.rewards.reward import Metrics
from gobi.types import Spec, Transition


class Replayed(ControlReward):
    """stored x lifelong: what the episodic reward stored with a step, times the lifelong bonus at sampling.

    The growth of an episode's memory can only be found while the episode runs; the lifelong bonus changes
    with all that comes after, so it is taken when the transition is replayed.
    """

    episodic: ControlReward
    lifelong: ControlReward

    @property
    def reads(self) -> frozenset[str]:
        """What either of them reads."""
        return self.episodic.reads | self.lifelong.reads

    @property
    def logs(self) -> tuple[str, ...]:
        """What either of them logs."""
        return tuple(dict.fromkeys(self.episodic.logs + self.lifelong.logs))

    @property
    def lessons(self) -> Lessons | None:
        """The episodic factor's."""
        return self.episodic.lessons

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int = 1) -> Any:
        """Both states."""
        one, other = jax.random.split(key)
        return self.episodic.init(one, spec, num_envs), self.lifelong.init(other, spec, num_envs)

    def begin(self, state: Any, frame: Array) -> Any:
        """Both are told."""
        return self.episodic.begin(state[0], frame), self.lifelong.begin(state[1], frame)

    def step(self, state: Any, transition: Transition) -> tuple[Any, Float32[Array, " envs"]]:
        """Stores the growth; the lifelong factor notes what it needs for later."""
        episodic, growth = self.episodic.step(state[0], transition)
        lifelong, _ = self.lifelong.step(state[1], transition)
        return (episodic, lifelong), growth

    def at_sampling(
        self, state: Any, key: Key[Array, ""], stored: Float32[Array, " batch"], batch: Any
    ) -> tuple[Any, Float32[Array, " batch"], Metrics]:
        """Both factors, multiplied."""
        one, other = jax.random.split(key)
        episodic, growth, logged = self.episodic.at_sampling(state[0], one, stored, batch)
        lifelong, bonus, more = self.lifelong.at_sampling(state[1], other, jnp.ones_like(stored), batch)
        return (episodic, lifelong), growth * bonus, logged | more

    def learn(self, state: Any, key: Key[Array, ""], transitions: Any) -> tuple[Any, Metrics]:
        """A lesson of the episodic factor's world."""
        episodic, logged = self.episodic.learn(state[0], key, transitions)
        return (episodic, state[1]), logged

    def grow(self, state: Any, memories: frozenset[str]) -> Any:
        """Gives room to both."""
        return self.episodic.grow(state[0], memories), self.lifelong.grow(state[1], memories)


def GoBI(world: Any, lifelong: ControlReward | None = None, **options: Any) -> Replayed:
    """(m_{t+1} - m_t) x RE3(o_t), or another reward as the lifelong factor (the paper's section on control).

    `options` are those of `Reachability`.
    """
    return Replayed(Reachability(world, **options), RE3() if lifelong is None else lifelong)


def R1(world: Any, **options: Any) -> Reachability:
    """The episodic factor alone: m_{t+1} - m_t."""
    return Reachability(world, **options)
