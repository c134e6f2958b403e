"""A pack: runs that differ only in seeds and in numbers that scale something, trained together.

Their agents lie side by side along the axis of seeds, and each run has the random streams, the files and the
checkpoints that it would have alone. A run by itself is a pack of one.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gobi
from gobi.errors import GobiError
from gobi.memory.crowding import crowded
from gobi.training import beforehand, checkpoints
from gobi.training.beforehand import Learned
from gobi.training.folder import Folder, Plan, Run, alone
from gobi.training.record import GridRecord, Outcome
from gobi.training.stopping import Stopping
from gobi.training.sweep import same_program
from gobi.training.trainer import Progress, Row, Trainer

CHECKPOINT_SECONDS = 120.0
MOST_AGENTS = 32
"""In one pack, unless one is asked for more: sixteen already keep an H200 busy."""


class Listener:
    """What a pack tells while it goes on; this one does not listen."""

    def stage(self, what: str, done: int, total: int) -> None:
        """Something before training: so much of it is done."""

    def row(self, frames: int, total: int, row: Row, steps_per_second: float) -> None:
        """A row of metrics was written: of all agents, and their speed together."""

    def say(self, text: str) -> None:
        """A line that stays on the screen."""


def go(
    runs: Sequence[Run],
    listener: Listener | None = None,
    checkpoint: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    stopping: Stopping | None = None,
) -> list[Outcome]:
    """Trains all runs to their end, from the newest checkpoint that all of them have.

    runs:                differ only in seeds and in numbers that scale something; see `packs`.
    checkpoint:          the name of an earlier one to go on from.
    checkpoint_seconds:  time between checkpoints. When they are made changes nothing in what is learned.
    stopping:            when to stop before their end; by default when the user asks for it.
    """
    listener = listener or Listener()
    with alone(*(folder for folder, _ in runs)):
        return _Pack(runs, listener, checkpoint_seconds, stopping or Stopping(listener.say)).go(checkpoint)


def packs(runs: Iterable[Run], most: int = MOST_AGENTS) -> list[list[Run]]:
    """The runs in as few packs as can be, of at most so many agents; a run alone may have more.

    Runs of one pack also stand at the same place. A kill while a pack was being saved leaves some of its runs
    one checkpoint ahead: they go back by that one. Those that have none in common are packs of their own.
    """
    alike: dict[Any, list[Run]] = {}
    for run in runs:
        alike.setdefault((same_program(run[1].recipe), run[1].deterministic), []).append(run)
    found = []
    for same in alike.values():
        left = {run[0]: (run, list(_places(run[0]))) for run in same}
        while left:
            places = [place for _, mine in left.values() for place in mine]
            meeting = max(places, key=lambda place: (places.count(place), place[0]))
            together = [run for run, mine in left.values() if meeting in mine]
            left = {folder: one for folder, one in left.items() if one[0] not in together}
            found += _parts(together, most)
    return found


def _parts(runs: list[Run], most: int) -> list[list[Run]]:
    """The runs in their order, in parts of at most so many agents."""
    parts: list[list[Run]] = [[]]
    for run in runs:
        if parts[-1] and sum(len(plan.seeds) for _, plan in parts[-1]) + len(run[1].seeds) > most:
            parts.append([])
        parts[-1].append(run)
    return parts


Place = tuple[int, str, str | None]
"""Where runs can go on from: frames, what had grown by then, and the world that they were trained with."""


def _places(folder: Folder) -> dict[Place, Path | None]:
    """The places of a run, each with its checkpoint; the start, which has none, if there is no other.

    Only the newest checkpoint must be whole: nobody needs to know why an older one cannot be gone back to.
    """
    world, found = beforehand.checksum(folder.path), {}
    available = checkpoints.available(folder.checkpoints)
    for path in available:
        with contextlib.nullcontext() if path == available[-1] else contextlib.suppress(GobiError):
            facts = checkpoints.facts(path)
            found[facts["frames"], str(facts["grown"]), world] = path
    return found or {(0, "[]", None): None}


class _Pack:
    """One process's part of some runs."""

    def __init__(
        self, runs: Sequence[Run], listener: Listener, checkpoint_seconds: float, stopping: Stopping
    ):
        self.runs, self.listener, self.checkpoint_seconds = runs, listener, checkpoint_seconds
        self.plans: list[Plan] = [plan for _, plan in runs]
        self.recipe = self.plans[0].recipe
        self.stopping = stopping
        if len({(same_program(plan.recipe), plan.deterministic) for plan in self.plans}) > 1:
            raise GobiError("only runs that differ in seeds and in numbers that scale something make a pack")
        ends = list(itertools.accumulate(len(plan.seeds) for plan in self.plans))
        self.shares = [slice(end - len(plan.seeds), end) for end, plan in zip(ends, self.plans, strict=True)]
        self.agents = ends[-1]
        self.full = False

    def go(self, checkpoint: str | None) -> list[Outcome]:
        self.records = [
            GridRecord(folder, plan, found)
            for (folder, plan), found in zip(self.runs, self._find(checkpoint), strict=True)
        ]
        made = self._beforehand()
        self.trainer = self._trainer(made)
        progress = self._restored() if self.records[0].updates else self._started()
        opened = []
        try:
            for record, policy in zip(self.records, self._first_policies(progress), strict=True):
                record.open(self.trainer, policy, made, beside=self.agents - len(record.plan.seeds))
                opened.append(record)
            with self.stopping:
                self._train(progress)
        finally:
            for record in opened:
                record.close()
        return [record.outcome() for record in self.records]

    def _find(self, checkpoint: str | None) -> list[Path | None]:
        """The checkpoint of each run to go on from; None for all of them where there is none."""
        places = [folder.checkpoints for folder, _ in self.runs]
        if checkpoint:
            return [checkpoints.named(place, checkpoint) for place in places]
        if len(places) == 1:
            return [checkpoints.latest(places[0])]
        found = [_places(folder) for folder, _ in self.runs]
        common = set.intersection(*map(set, found))
        if not common:
            raise GobiError("the runs of a pack must have a checkpoint in common, and these have none")
        meeting = max(common, key=lambda place: place[0])
        return [mine[meeting] for mine in found]

    def _beforehand(self) -> Learned | None:
        folders = [folder.path for folder, _ in self.runs]
        if self.records[0].updates and len(set(map(beforehand.checksum, folders))) > 1:
            raise GobiError("the runs of a pack must share what was learned beforehand, and these do not")
        return beforehand.shared(folders, self.recipe, gobi.make(self.recipe.task), self.listener.stage)

    def _trainer(self, made: Learned | None) -> Trainer:
        """One set of numbers where all agents have the same, as in a run by itself; else one for each."""
        each = [plan.recipe for plan in self.plans for _ in plan.seeds]
        agents = each if any(recipe != self.recipe for recipe in each) else []
        return Trainer(self.recipe, made.network if made else None, agents)

    def _started(self) -> Progress:
        seeds = [seed for plan in self.plans for seed in plan.seeds]
        return self.trainer.start(
            seeds, lambda done, total: self.listener.stage("making levels", done, total)
        )

    def _restored(self) -> Progress:
        first = self.records[0]
        if any((one.updates, one.grown) != (first.updates, first.grown) for one in self.records):
            raise GobiError("the runs of a pack must stand at the same place, and their memories be as large")
        parts = [record.restored(self.trainer) for record in self.records]
        if len(parts) == 1:
            return parts[0]
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)

    def _split(self, progress: Progress) -> Iterable[Progress]:
        """Each run's own part."""
        if len(self.runs) == 1:
            return [progress]
        return (jax.tree.map(lambda leaf, mine=mine: leaf[mine], progress) for mine in self.shares)

    def _first_policies(self, progress: Progress) -> Iterable[Any]:
        """The policy of each run's first seed."""
        policy = progress.state.policy
        return (jax.tree.map(lambda leaf, at=mine.start: leaf[at], policy) for mine in self.shares)

    def _train(self, progress: Progress) -> None:
        saved = time.perf_counter()
        before = self._last()
        self.listener.stage("compiling", 0, 1)
        while self.records[0].updates < self.recipe.updates:
            begun = time.perf_counter()
            progress, row = self.trainer.advance(progress)
            self._log(row, time.perf_counter() - begun)
            self._snapshot(progress)
            memories = crowded(row, before)
            if memories:
                progress = self._grown(progress, memories)
            before = row
            over, why = self.records[0].updates >= self.recipe.updates, self.stopping.why()
            if over or why or time.perf_counter() - saved > self.checkpoint_seconds:
                for record, mine in zip(self.records, self._split(progress), strict=True):
                    record.save(mine, finished=over)
                saved = time.perf_counter()
            if why and not over:
                raise why

    def _grown(self, progress: Progress, memories: frozenset[str]) -> Progress:
        """More room for crowded memories; one that is as large as it may be stays so, which is said once."""
        larger = self.trainer.grow(progress, memories)
        if jax.tree.map(jnp.shape, larger) == jax.tree.map(jnp.shape, progress):
            if not self.full:
                self.listener.say(
                    f"a memory ({', '.join(sorted(memories))}) is more than half full and as large as it may "
                    "be: the column `dropped` counts what it cannot hold"
                )
            self.full = True
        else:
            for record in self.records:
                record.grown.append(sorted(memories))
        return larger

    def _last(self) -> Row | None:
        """The row before the first one to come, of all agents."""
        rows = [record.last for record in self.records if record.last is not None]
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]} if rows else None

    def _log(self, row: Row, took: float) -> None:
        parts = [{name: values[mine] for name, values in row.items()} for mine in self.shares]
        interval = self.recipe.updates_per_row * self.recipe.frames_per_update
        frames = self.records[0].frames + interval
        for record, part in zip(self.records, parts, strict=True):
            record.check(part, frames)
        for record, part in zip(self.records, parts, strict=True):
            record.log(part, took * len(record.plan.seeds) / self.agents)
        total = self.recipe.updates * self.recipe.frames_per_update
        self.listener.row(frames, total, row, interval * self.agents / took)

    def _snapshot(self, progress: Progress) -> None:
        if self.records[0].wants_snapshot():
            for record, policy in zip(self.records, self._first_policies(progress), strict=True):
                record.snapshot(policy)
