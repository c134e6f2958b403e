"""A reward at work beside somebody else's loop: what it keeps on the device, and its compiled steps.

Between calls everything is a flat list of arrays: taking records apart and building them again at each step
would cost more than most rewards do.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key

from gobi.errors import GobiError
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition, Views

Told = dict[str, Float32[Array, " time"]]
"""What was logged at each step since the last lesson, by name."""

OWN = ("bonus", "bonus_squares", "paid", "earned", "frames")
"""What is told of every reward: sums over environments of the bonus, its square, what is paid for it after
the coefficient (its size), what the task itself paid (its size), and how many steps were made."""


class Running(NamedTuple):
    """What changes.

    before:   the views of where the environments stand.
    state:    the reward's own.
    rollout:  the steps since the last lesson, to learn from; None where the reward does not learn.
    told:     what was logged at them.
    """

    before: Views
    state: Any
    rollout: Transition | None
    told: Told


class Step(NamedTuple):
    """One step of the environments as it comes from the host.

    real:  where a step was made at all; elsewhere `after` is the first sight of a new episode.
    """

    action: Int32[np.ndarray, " envs"] | Float32[np.ndarray, "envs size"]
    after: dict[str, Any]
    reward: Float32[np.ndarray, " envs"]
    terminated: Bool[np.ndarray, " envs"]
    truncated: Bool[np.ndarray, " envs"]
    real: Bool[np.ndarray, " envs"]


def learns(reward: Reward) -> bool:
    """Whether there is anything to keep rollouts for."""
    return type(reward).learn is not Reward.learn


@dataclasses.dataclass(frozen=True)
class Fixed:
    """The part of a reward that is no array: what is compiled is compiled once for each of these."""

    values: tuple[Any, ...]
    structure: Any

    def with_arrays(self, arrays: Any) -> Reward:
        """The whole reward."""
        return eqx.combine(arrays, jax.tree.unflatten(self.structure, self.values))


@dataclasses.dataclass(frozen=True, eq=False)
class Unlike(Fixed):
    """The same of a reward that cannot be compared with others: compiled for itself alone."""


def parted(reward: Reward) -> tuple[Any, Fixed]:
    """The arrays of a reward, and the rest of it."""
    arrays, rest = eqx.partition(reward, lambda leaf: isinstance(leaf, jax.Array | np.ndarray))
    values, structure = jax.tree.flatten(rest)
    fixed = Fixed(tuple(values), structure)
    try:
        hash(fixed)
    except TypeError:
        fixed = Unlike(tuple(values), structure)
    return arrays, fixed


def start(reward: Reward, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
    """The state of a reward before the first step."""
    arrays, fixed = parted(reward)
    return _started(fixed, arrays, key, spec, num_envs)


def begin(reward: Reward, state: Any, step: Any, length: int) -> Running:
    """What changes, before the first step: room for a rollout of so many steps like this one.

    step:  one step, or the shapes of one.
    """
    arrays, fixed = parted(reward)
    before = {name: jnp.zeros(view.shape, view.dtype) for name, view in step.after.items()}
    _, _, rolled, logged = _paid.eval_shape(fixed, arrays, state, before, step)
    rollout = jax.tree.map(lambda part: jnp.zeros((length, *part.shape[1:]), part.dtype), rolled)
    told = {name: jnp.zeros(length) for name in (*OWN, *logged)}
    return Running(before, state, rollout if learns(reward) else None, told)


class Program:
    """The compiled step and lesson of a reward, and what they change."""

    def __init__(self, reward: Reward, running: Running):
        self._arrays, self._fixed = parted(reward)
        self._leaves, self._structure = jax.tree.flatten(running)
        self._views = len(jax.tree.leaves(running.before))

    @property
    def running(self) -> Running:
        """What changes, as it is now."""
        return jax.tree.unflatten(self._structure, self._leaves)

    def stand(self, views: dict[str, np.ndarray]) -> None:
        """The environments stand elsewhere than where the last step led."""
        # Copied: the environments may write their next observations into the same memory.
        places = [jnp.array(views[name]) for name in sorted(views)]
        self._leaves = places + self._leaves[self._views :]

    def step(self, at: int, coefficient: float, step: Step) -> Float32[np.ndarray, "2 envs"]:
        """The bonus of each environment, bare and times the coefficient; `at` is its place in the rollout."""
        self._leaves, paid = _stepped(
            self._fixed, self._structure, self._leaves, self._arrays,
            np.int32(at), np.float32(coefficient), step,
        )  # fmt: skip
        return np.asarray(paid)

    def learn(self, key: Key[Array, ""], lesson: int) -> dict[str, float]:
        """Learns from the rollout, where there is anything to learn, and tells what there is to log."""
        if self.running.rollout is None:
            return {}
        self._leaves, logged = _learned(
            self._fixed, self._structure, self._leaves, self._arrays, key, np.int32(lesson)
        )
        return {name: float(value) for name, value in jax.device_get(logged).items()}

    def told(self) -> dict[str, np.ndarray]:
        """What was logged at each step since the last lesson."""
        return jax.device_get(self.running.told)


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def _started(fixed: Fixed, arrays: Any, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
    return fixed.with_arrays(arrays).init(key, spec, num_envs)


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def _stepped(
    fixed: Fixed,
    structure: Any,
    leaves: list[Any],
    arrays: Any,
    at: Int32[Array, ""],
    coefficient: Float32[Array, ""],
    step: Any,
) -> tuple[list[Any], Float32[Array, "2 envs"]]:
    running: Running = jax.tree.unflatten(structure, leaves)
    state, bonus, rolled, logged = _paid(fixed, arrays, running.state, running.before, step)
    _check_structure(running.state, state)
    paid = coefficient * bonus
    own = (bonus, jnp.square(bonus), jnp.abs(paid), jnp.abs(step.reward), step.real)
    logged |= {name: jnp.sum(value, dtype=jnp.float32) for name, value in zip(OWN, own, strict=True)}

    def written(series: Any, row: Any) -> Any:
        return jax.lax.dynamic_update_slice_in_dim(series, row.astype(series.dtype), at, 0)

    told = {name: written(series, logged[name][None]) for name, series in running.told.items()}
    rollout = None if running.rollout is None else jax.tree.map(written, running.rollout, rolled)
    # Copied: JAX would hand an argument on as it is, which may be the very memory that the environments
    # write their next observations into.
    here = {name: jnp.copy(view) for name, view in step.after.items()}
    return structure.flatten_up_to(Running(here, state, rollout, told)), jnp.stack([bonus, paid])


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def _learned(
    fixed: Fixed,
    structure: Any,
    leaves: list[Any],
    arrays: Any,
    key: Key[Array, ""],
    lesson: Int32[Array, ""],
) -> tuple[list[Any], Metrics]:
    running: Running = jax.tree.unflatten(structure, leaves)
    reward = fixed.with_arrays(arrays)
    assert running.rollout is not None
    state, logged = reward.learn(running.state, jax.random.fold_in(key, lesson), running.rollout)
    _check_structure(running.state, state)
    return structure.flatten_up_to(running._replace(state=state)), logged


def _check_structure(before: Any, after: Any) -> None:
    """Refuses a reward whose state changes its shape: it could be neither compiled once nor saved."""
    was, now = jax.tree.structure(before), jax.tree.structure(after)
    if was != now:
        raise GobiError(f"the reward's state changed from {was} to {now} in a step: its shape is fixed")
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            raise GobiError(
                f"an array in the reward's state changed from {one.dtype}{list(one.shape)} to "
                f"{other.dtype}{list(other.shape)} in a step: its shape is fixed"
            )


@functools.partial(jax.jit, static_argnums=0)
def _paid(
    fixed: Fixed, arrays: Any, state: Any, before: Views, step: Any
) -> tuple[Any, Float32[Array, " envs"], Transition, Metrics]:
    """The state after a step, the bonus, the step as a rollout of length one, and what is logged."""

    def where_real(made: Any, otherwise: Any) -> Any:
        return jnp.where(step.real.reshape(-1, *(1 for _ in made.shape[1:])), made, otherwise)

    transition = Transition(
        before={name: where_real(before[name], view) for name, view in step.after.items()},
        action=where_real(step.action, jnp.zeros_like(step.action)),
        after=dict(step.after),
        reward=where_real(step.reward, jnp.zeros_like(step.reward)),
        terminated=step.terminated,
        truncated=step.truncated,
        real=step.real,
    )
    rolled = jax.tree.map(lambda part: part[None], transition)
    state, bonus, logged = fixed.with_arrays(arrays).rollout(state, rolled)
    return state, jnp.where(step.real, bonus[0], 0).astype(jnp.float32), rolled, dict(logged)
