"""Rewards that others wrote: any class with `init` and `step` as one, and mistakes told in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from gobi.errors import GobiError
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition, Views

TRIED = 2
"""Environments of a trial."""


def tried(reward: Reward, spec: Spec, views: Views) -> Reward:
    """The same reward, if its shapes are right: nothing is computed, and its mistakes are told in one line.

    views:  what it would see, as arrays or their shapes, of `TRIED` environments.
    """
    actions = (TRIED, spec.action_size) if spec.action_size else (TRIED,)
    kinds = {"action": "float32" if spec.action_size else "int32", "reward": "float32", "done": "bool"}
    shapes = {"action": actions, "reward": (TRIED,), "done": (TRIED,)}
    parts = {name: jax.ShapeDtypeStruct(shapes[name], kinds[name]) for name in kinds}

    def twice(key, views, parts):
        state = reward.init(key, spec, TRIED)
        done = parts["done"]
        step = Transition(views, parts["action"], views, parts["reward"], done, done)
        return reward.step(reward.step(state, step)[0], step)

    try:
        jax.eval_shape(twice, jax.eval_shape(lambda: jax.random.key(0)), views, parts)
    except GobiError:
        raise
    except Exception as error:
        name = reward.name if isinstance(reward, Checked) else type(reward).__name__
        raise GobiError(f"{name} fails at its first steps: {in_one_line(error)}") from error
    return reward


class Plain(Reward):
    """A class with `init` and `step` as a reward; `reads`, `logs` and `learn` are used if it has them."""

    made: Any = eqx.field(static=True)

    @property
    def reads(self) -> frozenset[str]:
        """What it says, or the observation."""
        return frozenset(getattr(self.made, "reads", ("observation",)))

    @property
    def logs(self) -> tuple[str, ...]:
        """What it says, or nothing."""
        return tuple(getattr(self.made, "logs", ()))

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
        """Its own, numbers as arrays."""
        return jax.tree.map(jnp.asarray, self.made.init(key, spec, num_envs))

    def step(self, state: Any, transition: Transition) -> Any:
        """Its own, right or wrong."""
        return self.made.step(state, transition)

    def learn(self, state: Any, key: Key[Array, ""], transitions: Transition) -> tuple[Any, Metrics]:
        """Its own, if it has one."""
        if hasattr(self.made, "learn"):
            return self.made.learn(state, key, transitions)
        return state, {}


class Checked(Reward):
    """Another reward whose mistakes are told in one line: bonuses of a wrong shape, a state that changes.

    name:  what it is called in these lines.
    """

    inner: Reward
    name: str = eqx.field(static=True)

    @property
    def reads(self) -> frozenset[str]:
        """What the inner reward reads, or the observation if it does not say."""
        try:
            return frozenset(self.inner.reads)
        except NotImplementedError:
            return frozenset({"observation"})

    @property
    def instead(self) -> Mapping[str, str]:
        """What the inner reward can do without."""
        return self.inner.instead

    @property
    def logs(self) -> tuple[str, ...]:
        """What the inner reward logs."""
        return tuple(self.inner.logs)

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
        """The inner reward's state."""
        return self.inner.init(key, spec, num_envs)

    def step(self, state: Any, transition: Transition) -> tuple[Any, Float32[Array, " envs"]]:
        """The inner reward's bonus."""
        after, bonus = self._two(self.inner.step(state, transition), "step")
        return self._same(state, after), self._shaped(bonus, transition.reward.shape)

    def rollout(
        self, state: Any, transitions: Transition
    ) -> tuple[Any, Float32[Array, "time envs"], Metrics]:
        """The inner reward's; a scan of the checked step where it has none of its own."""
        if type(self.inner).rollout is Reward.rollout:
            return super().rollout(state, transitions)
        after, bonus, logged = self.inner.rollout(state, transitions)
        return self._same(state, after), self._shaped(bonus, transitions.reward.shape), logged

    def learn(self, state: Any, key: Key[Array, ""], transitions: Transition) -> tuple[Any, Metrics]:
        """Trains the inner reward."""
        after, logged = self._two(self.inner.learn(state, key, transitions), "learn")
        return self._same(state, after), logged

    def grow(self, state: Any, memories: frozenset[str]) -> Any:
        """Gives room to the inner reward."""
        return self.inner.grow(state, memories)

    def _two(self, given: Any, method: str) -> tuple[Any, Any]:
        if not isinstance(given, tuple) or len(given) != 2:
            what = "the state and the bonus" if method == "step" else "the state and a dict of metrics"
            raise GobiError(f"{self.name}: {method} must return {what}, got {type(given).__name__}")
        return given

    def _shaped(self, bonus: Any, shape: tuple[int, ...]) -> Float32[Array, "..."]:
        if jnp.shape(bonus) != shape:
            raise GobiError(
                f"{self.name}: the bonus must have shape {list(shape)}, one number for each environment, "
                f"got {list(jnp.shape(bonus))}"
            )
        return jnp.asarray(bonus, jnp.float32)

    def _same(self, before: Any, after: Any) -> Any:
        """The new state, if it has the structure, shapes and dtypes of the one before."""
        told, now = (list(map(_kind, jax.tree.leaves(state))) for state in (before, after))
        if told != now or jax.tree.structure(before) != jax.tree.structure(after):
            pairs = zip(told, now, strict=False)
            what = next((f": {a} became {b}" for a, b in pairs if a != b), "")
            raise GobiError(f"{self.name}: the state must keep its structure, shapes and dtypes{what}")
        return after


def _kind(leaf: Any) -> str:
    return f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}"


def in_one_line(error: BaseException) -> str:
    """What went wrong in somebody else's code."""
    return " ".join(f"{type(error).__name__}: {error}".split())
