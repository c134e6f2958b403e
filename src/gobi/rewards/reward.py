"""What every intrinsic reward answers to, and the ways to build one from others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from gobi.errors import GobiError, unknown
from gobi.types import Spec, Transition

ON_GRIDS = ("observation", "panorama", "full_grid")
"""The views of a grid that are arrays; a world may read its `state` too."""

Metrics = dict[str, Float32[Array, ""]]
"""Numbers worth a column in a log, by name."""


class Reward(eqx.Module):
    """An intrinsic reward: pure, batched over the parallel environments, safe under `jit`, `scan` and `vmap`.

    Everything that changes is in the state that `init` makes: save it, copy it over seeds, resume from it.
    A method of its own defines `reads`, `init`, and one of `step` and `rollout`.
    """

    @property
    def reads(self) -> frozenset[str]:
        """The names of the views that a transition must bring."""
        raise NotImplementedError

    @property
    def logs(self) -> tuple[str, ...]:
        """The names of its metrics that get columns of their own in a run's metrics.csv."""
        return ()

    @property
    def instead(self) -> Mapping[str, str]:
        """For views that few environments show: the option, as it is written, that does without them."""
        return {}

    @property
    def numbers(self) -> dict[str, float]:
        """Options that the state holds, each as an array of its name: they may differ from seed to seed."""
        return {}

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
        """The state before the first step."""
        raise NotImplementedError

    def step(self, state: Any, transition: Transition) -> tuple[Any, Float32[Array, " envs"]]:
        """The bonus of one step in every environment: a rollout of length one."""
        state, bonus, _ = self.rollout(state, jax.tree.map(lambda part: part[None], transition))
        return state, bonus[0]

    def rollout(
        self, state: Any, transitions: Transition
    ) -> tuple[Any, Float32[Array, "time envs"], Metrics]:
        """The bonuses of a whole rollout, the same as of its steps one by one, and what there is to log."""

        # `self.step` itself would not do: scan wants to hash it, and a reward that holds arrays has no hash.
        def step(state: Any, transition: Transition) -> tuple[Any, Float32[Array, " envs"]]:
            return self.step(state, transition)

        state, bonus = jax.lax.scan(step, state, transitions)
        return state, bonus, {}

    def learn(self, state: Any, key: Key[Array, ""], transitions: Transition) -> tuple[Any, Metrics]:
        """Trains what there is to train, after the rollout's bonuses were paid."""
        del key, transitions
        return state, {}

    def at_sampling(
        self, state: Any, key: Key[Array, ""], stored: Float32[Array, " batch"], batch: Any
    ) -> tuple[Any, Float32[Array, " batch"], Metrics]:
        """The bonus of replayed transitions; by default what was stored when they were made.

        A method may train on the batch here, after its bonuses were paid.
        """
        del key, batch
        return state, stored, {}

    def grow(self, state: Any, memories: frozenset[str]) -> Any:
        """Gives more room to the named memories. For between updates: shapes change; seeds may be stacked.

        A memory called NAME tells in its metrics how full it is, as `load/NAME`, and how many codes found no
        room, as `dropped/NAME`; it is time to grow when the first passes one half or the second rises.
        """
        del memories
        return state


class Product(Reward):
    """The product of two rewards. GoBI is reachability times a lifelong one."""

    first: Reward
    second: Reward

    @property
    def reads(self) -> frozenset[str]:
        """What either of them reads."""
        return self.first.reads | self.second.reads

    @property
    def instead(self) -> Mapping[str, str]:
        """What either of them can do without."""
        return {**self.first.instead, **self.second.instead}

    @property
    def logs(self) -> tuple[str, ...]:
        """What either of them logs."""
        return tuple(dict.fromkeys(self.first.logs + self.second.logs))

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
        """Both states."""
        one, other = jax.random.split(key)
        return self.first.init(one, spec, num_envs), self.second.init(other, spec, num_envs)

    def rollout(
        self, state: Any, transitions: Transition
    ) -> tuple[Any, Float32[Array, "time envs"], Metrics]:
        """Both bonuses, multiplied; each factor logs its own."""
        first, one, logged = self.first.rollout(state[0], transitions)
        second, other, more = self.second.rollout(state[1], transitions)
        return (first, second), one * other, logged | more

    def learn(self, state: Any, key: Key[Array, ""], transitions: Transition) -> tuple[Any, Metrics]:
        """Trains both."""
        one, other = jax.random.split(key)
        first, logged = self.first.learn(state[0], one, transitions)
        second, more = self.second.learn(state[1], other, transitions)
        return (first, second), logged | more

    def grow(self, state: Any, memories: frozenset[str]) -> Any:
        """Gives room to both."""
        return self.first.grow(state[0], memories), self.second.grow(state[1], memories)


class Positive(Reward):
    """1 where another reward is positive, else 0: the ablation R2 puts it around reachability."""

    inner: Reward

    @property
    def reads(self) -> frozenset[str]:
        """What the inner reward reads."""
        return self.inner.reads

    @property
    def instead(self) -> Mapping[str, str]:
        """What the inner reward can do without."""
        return self.inner.instead

    @property
    def logs(self) -> tuple[str, ...]:
        """What the inner reward logs."""
        return self.inner.logs

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
        """The inner reward's state."""
        return self.inner.init(key, spec, num_envs)

    def rollout(
        self, state: Any, transitions: Transition
    ) -> tuple[Any, Float32[Array, "time envs"], Metrics]:
        """Whether each bonus is positive."""
        state, bonus, logged = self.inner.rollout(state, transitions)
        return state, (bonus > 0).astype(jnp.float32), logged

    def learn(self, state: Any, key: Key[Array, ""], transitions: Transition) -> tuple[Any, Metrics]:
        """Trains the inner reward."""
        return self.inner.learn(state, key, transitions)

    def grow(self, state: Any, memories: frozenset[str]) -> Any:
        """Gives room to the inner reward."""
        return self.inner.grow(state, memories)


class Nothing(Reward):
    """No bonus at all: training on the task's own reward."""

    @property
    def reads(self) -> frozenset[str]:
        """Nothing is read."""
        return frozenset()

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
        """No state."""
        del key, spec, num_envs
        return ()

    def rollout(
        self, state: Any, transitions: Transition
    ) -> tuple[Any, Float32[Array, "time envs"], Metrics]:
        """Zeros."""
        return state, jnp.zeros_like(transitions.reward), {}


def check_views(reward: Any, views: Iterable[str]) -> None:
    """Refuses a reward that reads a view which is not among those there are; says what to use instead.

    reward:  a `Reward`, or anything with its `reads`.
    views:   the names of what can be read, such as `observation`.
    """
    there = sorted(views)
    for missing in sorted(reward.reads - frozenset(there)):
        if missing not in (*ON_GRIDS, "state"):
            raise unknown("view", missing, there)
        option = getattr(reward, "instead", {}).get(missing)
        hint = f"; use the option {option}" if option else ""
        raise GobiError(
            f"this reward reads {missing}, which is not to be had here (there is {', '.join(there)}){hint}"
        )
