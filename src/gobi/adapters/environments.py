"""What a Gymnasium environment tells of itself, and its observations as batches on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gobi.adapters.observations import Observed, observations
from gobi.adapters.play import SHOWN
from gobi.envs.minigrid import MiniGrid
from gobi.envs.minigrid.registry import TASKS
from gobi.errors import GobiError, require

require("gymnasium", extra="gymnasium")

import gymnasium  # noqa: E402
from gymnasium.vector import AutoresetMode, VectorEnv  # noqa: E402
from gymnasium.vector.utils import concatenate, create_empty_array  # noqa: E402

Observe = tuple[Callable[[Any], Any], gymnasium.Space]
"""A function from a batch of observations to an array, and the space of one row of that array."""


def reading(
    space: gymnasium.Space, observe: Observe | None
) -> tuple[gymnasium.Space, Callable[[Any], np.ndarray]]:
    """The space that a reward is made for, and how batches of an environment are read."""
    if observe is None:
        return space, observations(space)
    function, made = observe
    then: Observed = observations(made)
    return made, lambda batch: then(function(batch))


def autoreset_mode_of(env: VectorEnv, given: AutoresetMode | str | None) -> AutoresetMode:
    """When an environment that ended starts again."""
    mode = env.metadata.get("autoreset_mode") if given is None else given
    if mode is None:
        raise GobiError(
            f"the metadata of {env} does not say when it resets environments that ended: pass autoreset_mode="
        )
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise GobiError(
            f"unknown autoreset mode {mode!r}; known are {[m.value for m in AutoresetMode]}"
        ) from None


def shown(env: VectorEnv | gymnasium.Env, given: Iterable[str] | None) -> frozenset[str]:
    """The views there are to read: those given, or else those that the environment announces."""
    views = env.metadata.get(SHOWN, ()) if given is None else given
    return frozenset({"observation", *views})


def name_of(env: VectorEnv | gymnasium.Env) -> str:
    """The name of the task, where it has one: of our own tasks, the one that `gobi tasks` lists."""
    one = _one_of(env)
    ours = getattr(one.unwrapped, "task", None)
    if isinstance(ours, MiniGrid):
        return ours.spec.id
    known = env.spec or one.spec
    if known is None:
        return type(env.unwrapped).__name__
    # Environments in other processes tell no more than that.
    return listed(known.id)


def listed(id: str) -> str:
    """A name that Gymnasium knows as `gobi tasks` lists it: Gymnasium knows all of ours as gobi/NAME."""
    bare = id.removeprefix("gobi/")
    return bare if bare in TASKS else id


def max_steps_of(env: VectorEnv | gymnasium.Env) -> int | None:
    """The most steps of an episode, where it is known: Gymnasium's own limit, or MiniGrid's."""
    for known in (env, _one_of(env)):
        limit = known.spec.max_episode_steps if known.spec is not None else None
        limit = limit or getattr(known.unwrapped, "max_steps", None)
        if limit:
            return int(limit)
    return None


def _one_of(env: VectorEnv | gymnasium.Env) -> VectorEnv | gymnasium.Env:
    """One of the environments inside, where they can be reached."""
    return (getattr(env.unwrapped, "envs", None) or [env])[0]


def batch_of(space: gymnasium.Space, rows: list[Any]) -> Any:
    """Single observations as a batch."""
    return concatenate(space, rows, create_empty_array(space, n=len(rows)))


def on_host(array: Any) -> Any:
    """Arrays of other libraries as NumPy's; what holds several arrays, as it is."""
    if isinstance(array, np.ndarray | dict | tuple):
        return array
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def with_bonus(rewards: Any, paid: np.ndarray) -> Any:
    """Both parts of the reward, as the environment gives its own."""
    return rewards + (rewards.new_tensor(paid) if hasattr(rewards, "new_tensor") else paid)
