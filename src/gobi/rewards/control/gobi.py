"""GoBI on control tasks: growth as a step is made, times a lifelong bonus as it is replayed."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from gobi.errors import unknown
from gobi.rewards.control import running
from gobi.rewards.control.lessons import ControlReward, Lessons
from gobi.rewards.control.re3 import RE3
from gobi.rewards.control.reachability import Reachability
from gobi.rewards.reward import Metrics
from gobi.types import Spec, Transition

Normalised = Literal["lifelong", "product"]
NORMALISED = ("lifelong", "product")
SPREAD = "gobi/spread"
"""The column of the product's deviation."""


class Replayed(ControlReward):
    """stored x lifelong: what the episodic reward stored with a step, times the lifelong bonus at sampling.

    The growth of an episode's memory can only be found while the episode runs; the lifelong bonus changes
    with all that comes after, so it is taken when the transition is replayed.

    normalised:  what is of size 1 in the end: the `lifelong` factor, if that divides by its own running
                 deviation, as RE3 does; or the `product`, which is divided by one of its own. The mean growth
                 depends on the task and on how coarse codes are, and with it the size of the first.
    """

    episodic: ControlReward
    lifelong: ControlReward
    normalised: Normalised = eqx.field(static=True, default="lifelong")

    def __check_init__(self):
        if self.normalised not in NORMALISED:
            raise unknown("normalised", self.normalised, NORMALISED)

    @property
    def reads(self) -> frozenset[str]:
        """What either of them reads."""
        return self.episodic.reads | self.lifelong.reads

    @property
    def logs(self) -> tuple[str, ...]:
        """What either of them logs, and the deviation of the product."""
        own = (SPREAD,) if self.normalised == "product" else ()
        return tuple(dict.fromkeys(self.episodic.logs + self.lifelong.logs + own))

    @property
    def lessons(self) -> Lessons | None:
        """The episodic factor's."""
        return self.episodic.lessons

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int = 1) -> Any:
        """Both states; and the running deviation of the product, if that is asked for."""
        one, other = jax.random.split(key)
        states = self.episodic.init(one, spec, num_envs), self.lifelong.init(other, spec, num_envs)
        return states if self.normalised == "lifelong" else (*states, running.begin())

    def begin(self, state: Any, frame: Array) -> Any:
        """Both are told."""
        return self.episodic.begin(state[0], frame), self.lifelong.begin(state[1], frame), *state[2:]

    def step(self, state: Any, transition: Transition) -> tuple[Any, Float32[Array, " envs"]]:
        """Stores the growth; the lifelong factor notes what it needs for later."""
        episodic, growth = self.episodic.step(state[0], transition)
        lifelong, _ = self.lifelong.step(state[1], transition)
        return (episodic, lifelong, *state[2:]), growth

    def at_sampling(
        self, state: Any, key: Key[Array, ""], stored: Float32[Array, " batch"], batch: Any
    ) -> tuple[Any, Float32[Array, " batch"], Metrics]:
        """Both factors, multiplied; if asked for, divided by the deviation of all such products so far."""
        one, other = jax.random.split(key)
        episodic, growth, logged = self.episodic.at_sampling(state[0], one, stored, batch)
        lifelong, bonus, more = self.lifelong.at_sampling(state[1], other, jnp.ones_like(stored), batch)
        paid, logged = growth * bonus, logged | more
        if self.normalised == "lifelong":
            return (episodic, lifelong), paid, logged
        spread = running.update(state[2], paid, "welford")
        logged[SPREAD] = spread.deviation
        return (episodic, lifelong, spread), paid / spread.deviation, logged

    def learn(self, state: Any, key: Key[Array, ""], transitions: Any) -> tuple[Any, Metrics]:
        """A lesson of the episodic factor's world."""
        episodic, logged = self.episodic.learn(state[0], key, transitions)
        return (episodic, *state[1:]), logged

    def grow(self, state: Any, memories: frozenset[str]) -> Any:
        """Gives room to both."""
        return self.episodic.grow(state[0], memories), self.lifelong.grow(state[1], memories), *state[2:]


def GoBI(world: Any, lifelong: ControlReward | None = None, **options: Any) -> Replayed:
    """(m_{t+1} - m_t) x RE3(o_t), or another reward as the lifelong factor (the paper's section on control).

    `options` are those of `Reachability`.
    """
    return Replayed(Reachability(world, **options), RE3() if lifelong is None else lifelong)


def R1(world: Any, **options: Any) -> Reachability:
    """The episodic factor alone: m_{t+1} - m_t."""
    return Reachability(world, **options)
