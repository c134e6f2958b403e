"""Recorded play, made once for all tests of rewards."""

from __future__ import annotations

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from recordings import TASKS, record

from gobi.envs.minigrid import make
from gobi.types import Transition


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Transition]:
    """What was played in a task."""

    @functools.cache
    def play(task: str) -> Transition:
        return record(make(task), jax.random.key(TASKS.index(task)))

    return play


@pytest.fixture(scope="session")
def played(recorded) -> Transition:
    """What was played in all four tasks, side by side: lanes 0 to 2 are the first task's. Without states."""

    def without_states(play: Transition) -> Transition:
        views = [{name: seen[name] for name in seen if name != "state"} for seen in (play.before, play.after)]
        return eqx.tree_at(lambda p: (p.before, p.after), play, tuple(views))

    plays = [without_states(recorded(task)) for task in TASKS]
    return jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *plays)


@pytest.fixture(scope="session")
def misjudged(played) -> Transition:
    """The same play with a world that is wrong: what another action led to, 40 steps earlier."""
    views = [
        seen | {"futures": jnp.roll(seen["futures"], (40, 1), axis=(0, 2))}
        for seen in (played.before, played.after)
    ]
    return eqx.tree_at(lambda p: (p.before, p.after), played, tuple(views))
