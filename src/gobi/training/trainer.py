"""Training on the device, all agents side by side: start, go on by one row of metrics, grow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import gobi
from gobi.envs.minigrid import Bank, has_room, make_bank, refill
from gobi.envs.minigrid.bank import blank
from gobi.errors import GobiError
from gobi.rewards.comparator import Comparator
from gobi.training import assembly
from gobi.training.loop import Loop, SeedState, knobs, loop
from gobi.training.metrics import COLUMNS
from gobi.training.recipe import Recipe
from gobi.training.sweep import stacked, with_numbers
from gobi.worlds.network import Network

Row = dict[str, np.ndarray]
"""The metrics of one interval, by column, one number for each seed."""

COLUMN_OF = {"gradient_norm": "grad_norm", "world/exact": "world_exact", "world/cells": "world_cells"}
MUST_BE_FINITE = ("bonus", "loss", "policy_loss", "value_loss", "entropy", "grad_norm")
"""The first of them that is not is told: a bonus spoils all that is learned from it."""


class Progress(eqx.Module):
    """All that changes in a run, seeds stacked: what a checkpoint holds."""

    state: SeedState
    bank: Bank


class Trainer:
    """The compiled parts of a run. What changes is handed in and out."""

    def __init__(
        self, recipe: Recipe, network: Network | Comparator | None = None, agents: Sequence[Recipe] = ()
    ):
        """One recipe for all agents, or one for each, where they differ in what `sweep` names."""
        self.recipe, self.agents = recipe, agents
        self.env = gobi.make(recipe.task)
        self.reward = assembly.reward(recipe, self.env, network)
        self.knobs = stacked(agents) if agents else knobs(recipe)
        self.loop: Loop = loop(self.env, recipe)
        more = (*self.reward.logs, *self.loop.learner.logs)
        self.columns = COLUMNS + tuple(name for name in more if name not in COLUMNS)
        self._advance = jax.jit(self._many_updates, donate_argnums=3)
        self._refill = jax.jit(jax.vmap(functools.partial(refill, self.env)))
        self._has_room = jax.jit(jax.vmap(functools.partial(has_room, self.env)))

    def start(self, seeds: Sequence[int], progress: Callable[[int, int], None] | None = None) -> Progress:
        """Before the first update. Each seed has the levels and draws that it would have alone.

        seeds:  of each agent; agents of one seed may differ in their numbers, and have the same levels.
        """
        different = list(dict.fromkeys(seeds))

        def partly(number: int) -> Callable[[int, int], None]:
            def made(levels: int, room: int) -> None:
                if progress is not None:
                    progress(number * room + levels, len(different) * room)

            return made

        banks = {
            seed: make_bank(self.env, seed, self.recipe.bank, progress=partly(number))
            for number, seed in enumerate(different)
        }
        bank = jax.tree.map(lambda *parts: jnp.stack(parts), *[banks[seed] for seed in seeds])
        keys = jax.vmap(jax.random.key)(jnp.array(seeds))
        state = jax.jit(self._init)(self.reward, bank, keys)
        return Progress(with_numbers(state, self.agents) if self.agents else state, bank)

    def shapes(self, seeds: Sequence[int], grown: Sequence[Sequence[str]]) -> Any:
        """The structure of what a checkpoint holds after its memories grew so often."""

        def made(bank, keys):
            state = self._init(self.reward, bank, keys)
            for memories in grown:
                state = self._grow(state, frozenset(memories))
            return Progress(state, bank)

        one = jax.eval_shape(lambda: blank(self.env, 0, self.recipe.bank))
        bank = jax.tree.map(lambda part: jax.ShapeDtypeStruct((len(seeds), *part.shape), part.dtype), one)
        keys = jax.eval_shape(jax.vmap(jax.random.key), jnp.array(seeds))
        return jax.eval_shape(made, bank, keys)

    def advance(self, progress: Progress) -> tuple[Progress, Row]:
        """One row: so many updates, then fresh levels. What is handed in is used up."""
        state, metrics = self._advance(self.reward, self.knobs, progress.bank, progress.state)
        bank, queue = progress.bank, state.lanes.queue
        while bool(self._has_room(bank, queue).any()):
            before = int(queue.fresh.sum())
            bank, queue = self._refill(bank, queue)
            if int(queue.fresh.sum()) == before:
                # A chunk without a level: rare even for twelve rooms; the next interval tries again.
                break
        state = eqx.tree_at(lambda s: s.lanes.queue, state, queue)
        return Progress(state, bank), _row(jax.device_get(metrics))

    def grow(self, progress: Progress, memories: frozenset[str]) -> Progress:
        """The same with more room in some memories; the next call compiles anew."""
        return Progress(self._grow(progress.state, memories), progress.bank)

    def _init(self, reward, bank: Bank, keys) -> SeedState:
        return jax.vmap(lambda bank, key: self.loop.init(reward, bank, key))(bank, keys)

    def _grow(self, state: SeedState, memories: frozenset[str]) -> SeedState:
        return eqx.tree_at(lambda s: s.reward, state, self.reward.grow(state.reward, memories))

    def _many_updates(self, reward, knobs, bank: Bank, state: SeedState):
        count = self.recipe.updates_per_row

        def one_agent(knobs, bank, state):
            return self.loop.updates(reward, knobs, bank, state, count)

        one_for_all = knobs.coefficient.ndim == 0
        return jax.vmap(one_agent, in_axes=(None if one_for_all else 0, 0, 0))(knobs, bank, state)


class NotFinite(GobiError):
    """A loss or a reward is not a number any more."""


def check_finite(row: Row, seeds: Sequence[int], frames: int) -> None:
    """Refuses to go on with a loss or a reward that is not a number."""
    wrong = [(name, row[name]) for name in MUST_BE_FINITE if name in row]
    wrong.append(("total reward", np.where(row["reward_is_finite"] == 1, 0.0, np.nan)))
    for name, values in wrong:
        for seed, value in zip(seeds, values, strict=True):
            if not np.isfinite(value):
                raise NotFinite(
                    f"seed {seed}: the {name.replace('_', ' ')} became {value} before frame {frames:,}"
                )


def logged(row: Row, columns: Sequence[str] = COLUMNS) -> Row:
    """The columns of metrics.csv in a row."""
    dropped = sum(values for name, values in row.items() if name.startswith("dropped/"))
    return {name: values for name, values in row.items() if name in columns} | {
        "dropped": np.asarray(dropped)
    }


def _row(metrics: dict[str, Any]) -> Row:
    return {COLUMN_OF.get(name, name): np.asarray(values) for name, values in metrics.items()}
