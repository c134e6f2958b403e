"""What is told of episodes, against a plain walk through recorded ones."""

from __future__ import annotations

import collections
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.minigrid import MiniGrid, State, Stepper, cells, fixed_levels, make, policies
from gobi.training import episodes
from gobi.training.episodes import KEPT, MEASURES, Walk
from gobi.types import Timestep

TASKS = {"MiniGrid-MultiRoom-N2-S4-v0": 12, "MiniGrid-KeyCorridorS3R2-v0": 6}
"""How many lanes are recorded in each."""
STEPS = 420

compiled = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
)
"""Tests compile much and run it once or twice."""


@dataclasses.dataclass(frozen=True)
class Play:
    """Both ends of every step of every lane, on the host."""

    env: MiniGrid
    before: State
    after: State
    timestep: Timestep
    reachable: np.ndarray

    @property
    def done(self) -> np.ndarray:
        return self.timestep.terminated | self.timestep.truncated

    @property
    def first(self) -> np.ndarray:
        return np.concatenate([np.ones_like(self.done[:1]), self.done[:-1]])

    def walk(self, part: slice) -> Walk:
        """A piece of the play as the loop would tell it."""
        after = jax.tree.map(lambda leaf: jnp.asarray(leaf[part]), self.after)
        return Walk(
            *(jnp.asarray(flags[part]) for flags in (self.first, self.done)),
            start=jnp.asarray(self.before.position[part]),
            place=after.position,
            on_door=episodes.on_door(after),
            reward=jnp.asarray(self.timestep.reward[part]),
            length=after.step_count,
            floor=jnp.asarray(self.reachable[part]),
        )


@functools.cache
def recorded(task: str) -> Play:
    env, num_envs = make(task), TASKS[task]
    stepper = Stepper(env, num_envs)

    @compiled
    def play(bank):
        def step(lanes, key):
            actions = jax.vmap(policies.biased)(jax.random.split(key, num_envs), lanes.states)
            states, timestep = stepper.advance(lanes, actions)
            ends = lanes.states, states, timestep, lanes.reachable
            return stepper.restart(bank, lanes, states, timestep)[0], ends

        return jax.lax.scan(step, stepper.reset(bank)[0], jax.random.split(jax.random.key(0), STEPS))[1]

    return Play(env, *jax.tree.map(np.asarray, play(fixed_levels(env, seed=1, count=200))))


def kind(cell) -> int:
    return int(cell) & 0b1111


def flood(grid: np.ndarray, start: tuple[int, int]) -> int:
    """How many cells can be reached by single steps, where only walls are in the way."""
    found, edge = {start}, collections.deque([start])
    while edge:
        x, y = edge.popleft()
        for place in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
            if place not in found and kind(grid[place]) != cells.WALL:
                found.add(place)
                edge.append(place)
    return len(found)


def walked(play: Play) -> list[dict[str, float]]:
    """The measures of every finished episode, in the order in which they end."""
    finished = []
    lanes = [None] * play.done.shape[1]
    for t, lane in np.ndindex(play.done.shape):
        if lanes[lane] is None:
            grid, start = play.before.grid[t, lane], tuple(play.before.position[t, lane].tolist())
            lanes[lane] = {"cells": {start}, "doors": set(), "rewards": [], "all": flood(grid, start)}
        episode = lanes[lane]
        place = tuple(play.after.position[t, lane].tolist())
        episode["cells"].add(place)
        if kind(play.after.grid[t, lane][place]) == cells.DOOR:
            episode["doors"].add(place)
        episode["rewards"].append(float(play.timestep.reward[t, lane]))
        if play.done[t, lane]:
            finished.append(told(play.env, episode))
            lanes[lane] = None
    return finished


def told(env: MiniGrid, episode) -> dict[str, float]:
    rooms = len(episode["doors"]) + 1
    if "KeyCorridor" in env.id:
        # Rooms of three cells with shared walls: a new one every two cells. A doorway belongs to none.
        rooms = len({(x // 2, y // 2) for x, y in episode["cells"] - episode["doors"]})
    return {
        "return": sum(episode["rewards"]),
        "success": float(episode["rewards"][-1] > 0),
        "length": len(episode["rewards"]),
        "cells": len(episode["cells"]),
        "doors": len(episode["doors"]),
        "rooms": rooms,
        "reachable_share": len(episode["cells"]) / episode["all"],
    }


@pytest.mark.parametrize("task", TASKS)
def test_the_last_episodes_are_told_as_a_plain_walk_tells_them(task):
    play = recorded(task)
    expected = walked(play)
    assert len({episode["doors"] for episode in expected}) > 1
    add = compiled(functools.partial(episodes.add, play.env))
    record = episodes.empty(play.env, TASKS[task])
    for start in range(0, STEPS, STEPS // 3):
        record = add(record, play.walk(slice(start, start + STEPS // 3)))
    assert record.finished == len(expected)
    assert record.visited.dropped == 0
    means = episodes.means(record)
    assert means["episodes"] == len(expected)
    for name in MEASURES:
        np.testing.assert_allclose(means[name], np.mean([e[name] for e in expected[-KEPT:]]), rtol=1e-5)
    for number, episode in list(enumerate(expected))[-KEPT:]:
        np.testing.assert_allclose(
            record.ring[number % KEPT], [episode[name] for name in MEASURES], rtol=1e-6, err_msg=str(number)
        )


def test_more_ends_in_one_rollout_than_are_kept_leave_the_last_ones():
    play = recorded("MiniGrid-MultiRoom-N2-S4-v0")
    expected = walked(play)
    assert len(expected) > KEPT
    add = compiled(functools.partial(episodes.add, play.env))
    record = add(episodes.empty(play.env, TASKS[play.env.id]), play.walk(slice(None)))
    last = sorted(tuple(e.values()) for e in expected[-KEPT:])
    np.testing.assert_allclose(sorted(map(tuple, record.ring.tolist())), last, rtol=1e-6)


def test_before_the_first_end_the_means_are_not_numbers():
    means = episodes.means(episodes.empty(make("MiniGrid-Empty-5x5-v0"), 3))
    assert means["episodes"] == 0
    assert all(np.isnan(means[name]) for name in MEASURES)
