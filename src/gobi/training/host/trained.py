"""Trained agents of a run on a task of Gymnasium's, from a checkpoint, and the episodes that they play."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64, Int64

from gobi.envs import host
from gobi.envs.host import Host
from gobi.training import checkpoints
from gobi.training.host import seat
from gobi.training.host.recipe import HostRecipe
from gobi.training.host.seat import Program
from gobi.training.trained import Kept

EVALUATING = 0x6F63
"""Keeps the episodes of evaluations apart from those of training."""


@dataclasses.dataclass(frozen=True)
class HostTrained(Kept):
    """The agents of a run, as they were after so many frames; new episodes come from `level_seed`."""

    recipe: HostRecipe


class Played(NamedTuple):
    """What came of some episodes.

    returns:    the task's reward of each.
    lengths:    their steps.
    successes:  whether they were solved; NaN where the task does not tell.
    """

    returns: Float64[np.ndarray, " episodes"]
    lengths: Int64[np.ndarray, " episodes"]
    successes: Float64[np.ndarray, " episodes"]


def load(folder: Path, wanted: Sequence[int] = (), checkpoint: str | None = None) -> HostTrained:
    """The agents of a run: all, or those of the wanted seeds; the newest, or those of a checkpoint."""
    return HostTrained.found(folder, wanted, checkpoint)


def play(
    agents: HostTrained,
    episodes: int,
    greedy: bool = False,
    num_envs: int = 16,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Played]:
    """So many episodes of each agent, the same starts for all.

    num_envs:  episodes side by side.
    progress:  called with the episodes played so far, and how many there will be.
    """
    # What an agent was paid for exploring is none of an evaluation's business, nor need its file be there.
    quiet = agents.recipe.changed(reward="none", reward_options="")
    lanes = host.make(agents.recipe.task, min(num_envs, episodes))
    try:
        program = seat.program(quiet, lanes.spec)
        shape = program.shapes().policy
        played = []
        for number, place in enumerate(agents.places):
            policy = checkpoints.load(agents.source, shape, within=f"['seats'][{place}].policy")

            def told(done: int, before: int = number * episodes) -> None:
                progress(before + done, len(agents.places) * episodes)

            played.append(_played(program, policy, lanes, agents.level_seed, episodes, greedy, told))
    finally:
        lanes.close()
    return played


def _played(
    program: Program,
    policy: Any,
    lanes: Host,
    seed: int,
    episodes: int,
    greedy: bool,
    told: Callable[[int], None],
) -> Played:
    seeds, rounds = host.seeds_of(EVALUATING, seed, count=episodes), []
    for first in range(0, episodes, lanes.num_envs):
        # The last lanes may have nothing left to do: they play again, and are not counted.
        numbers = np.arange(first, first + lanes.num_envs) % episodes
        rounds.append(_round(program, policy, lanes, [seeds[number] for number in numbers], greedy))
        told(min(first + lanes.num_envs, episodes))
    return Played(*(np.concatenate(parts)[:episodes] for parts in zip(*rounds, strict=True)))


def _round(program: Program, policy: Any, lanes: Host, seeds: list[int], greedy: bool) -> Played:
    """One episode in each lane, in lockstep; lanes that are done go on with others, which do not count."""
    lanes.reset(seeds)
    carry, keys = policy.initial(len(seeds)), jax.vmap(jax.random.key)(jnp.array(seeds))
    returns, lengths = np.zeros(len(seeds)), np.zeros(len(seeds), np.int64)
    successes, playing, time = np.full(len(seeds), np.nan), np.ones(len(seeds), bool), 0
    while playing.any():
        choice, carry = program.look(
            greedy, policy, lanes.observation, lanes.first, carry, keys, np.int32(time)
        )
        step = lanes.step(np.asarray(choice))
        returns += np.where(playing, step.reward, 0)
        lengths += playing
        successes = np.where(playing & step.done, step.success, successes)
        playing &= ~step.done
        time += 1
    return Played(returns, lengths, successes)
