"""How well an agent plays: whole episodes with its mean action, several side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64, Int64

from gobi.envs.dmc import Worker
from gobi.training.control import assembly
from gobi.training.control.changing import Held
from gobi.training.control.recipe import ControlRecipe
from gobi.training.control.seat import Program

EVALUATING = 0x6F62
"""Keeps the episodes of evaluations apart from those of training."""


class Played(NamedTuple):
    """What came of some episodes.

    returns:  the task's reward of each.
    lengths:  their environment steps.
    """

    returns: Float64[np.ndarray, " episodes"]
    lengths: Int64[np.ndarray, " episodes"]


class Evaluator:
    """Plays episodes that depend on their seeds alone, however many processes share the work.

    The processes are started with the first evaluation and kept for the next.
    """

    def __init__(self, recipe: ControlRecipe, program: Program, lanes: int):
        """Lanes: agents that act together, always so many: rounding follows the size of a batch."""
        self.recipe, self.program, self.lanes = recipe, program, lanes
        self.workers: list[Worker] = []
        self.unplayed: dict[str, np.ndarray] = {}

    def play(self, acting: Held, seeds: Sequence[int]) -> Played:
        """An episode of each seed."""
        self._start(min(len(seeds), self.lanes, cores()))
        played = [
            self._round(acting, seeds[first : first + len(self.workers)])
            for first in range(0, len(seeds), len(self.workers))
        ]
        return Played(*(np.concatenate(parts) for parts in zip(*played, strict=True)))

    def close(self) -> None:
        """Ends the processes."""
        for worker in self.workers:
            worker.close()
        self.workers = []

    def _start(self, count: int) -> None:
        while len(self.workers) < count:
            self.workers.append(assembly.worker(self.recipe, seed=0))
        if not self.unplayed:
            self.unplayed = self.workers[0].save()

    def _round(self, acting: Held, seeds: Sequence[int]) -> Played:
        """One episode in each of the first so many workers, in lockstep; who is done waits for the others."""
        spec, workers = self.program.spec, self.workers[: len(seeds)]
        frames = np.zeros((self.lanes, *spec.observation_shape), spec.observation_dtype)
        for lane, (worker, seed) in enumerate(zip(workers, seeds, strict=True)):
            worker.load(seeded(self.unplayed, seed))
            frames[lane] = worker.reset()
        shape = (self.lanes, *self._shown(), *spec.observation_shape)
        views = jnp.zeros(shape, spec.observation_dtype)
        returns, lengths = np.zeros(len(seeds)), np.zeros(len(seeds), np.int64)
        playing, first = list(range(len(seeds))), True
        while playing:
            views, actions = self.program.look(acting, views, frames, np.bool_(first))
            chosen, first = np.asarray(actions), False
            for lane in playing:
                workers[lane].send(chosen[lane])
            over = []
            for lane in playing:
                step = workers[lane].receive()
                frames[lane] = step.observation
                returns[lane] += step.reward
                lengths[lane] += self.recipe.action_repeat
                over += [lane] * step.done
            playing = [lane for lane in playing if lane not in over]
        return Played(returns, lengths)

    def _shown(self) -> tuple[int, ...]:
        return (self.recipe.stack,) if self.program.spec.observation_dtype == "uint8" else ()


def cores() -> int:
    """How many processes can work at once."""
    # Not all systems can tell which of the machine's cores are ours.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seeds_of(seed: int, number: int, episodes: int) -> list[int]:
    """The seeds of the episodes of one evaluation, by its number, of one agent."""
    return [
        int(np.random.SeedSequence([EVALUATING, seed, number, episode]).generate_state(1)[0])
        for episode in range(episodes)
    ]


def seeded(saved: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """A saved environment whose next episode is the first of another seed."""
    _, key, position, has_gauss, gauss = np.random.RandomState(seed).get_state(legacy=True)
    return saved | {
        "random.key": np.asarray(key),
        "random.position": np.array([position, has_gauss], np.int64),
        "random.gauss": np.array([gauss], np.float64),
    }
