"""A run on a task of Gymnasium's from start to end: all seeds in turn, each with lanes of its own.

An update: an unroll of steps is played on the host, then paid for and learned from in one call on the device.
A Gymnasium task cannot be saved in the middle of an episode: a run that is taken up again has all that was
learned, remembered and counted, and begins new episodes.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gobi.envs import host
from gobi.envs.host import Host
from gobi.memory.crowding import crowded
from gobi.training import checkpoints
from gobi.training.folder import Folder, Plan, alone
from gobi.training.host import seat
from gobi.training.host.recipe import HostRecipe
from gobi.training.host.record import HostRecord
from gobi.training.host.seat import Acted, Seat
from gobi.training.pack import CHECKPOINT_SECONDS, Listener
from gobi.training.record import Outcome
from gobi.training.stopping import Stopping
from gobi.training.trainer import NotFinite, Row


def go(
    folder: Folder,
    plan: Plan[HostRecipe],
    listener: Listener | None = None,
    checkpoint: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    stopping: Stopping | None = None,
) -> Outcome:
    """Trains to the end, from the last checkpoint if there is one.

    checkpoint:          the name of an earlier one to go on from.
    checkpoint_seconds:  time between checkpoints. When they are made changes nothing in what is learned.
    stopping:            when to stop before the end; by default when the user asks for it.
    """
    listener = listener or Listener()
    with alone(folder):
        found = checkpoints.chosen(folder.checkpoints, checkpoint)
        record = HostRecord(folder, plan, found)
        run = _Run(record, listener, checkpoint_seconds, stopping or Stopping(listener.say))
        try:
            run.train()
        finally:
            run.close()
    return record.outcome()


class _Run:
    """One process's part of a run."""

    def __init__(self, record: HostRecord, listener: Listener, every: float, stopping: Stopping):
        self.record, self.listener, self.checkpoint_seconds, self.stopping = record, listener, every, stopping
        self.recipe: HostRecipe = record.recipe
        self.seeds = record.plan.seeds
        self.hosts: list[Host] = []
        self.opened = self.full = False

    def train(self) -> None:
        """From where the record stands to the end."""
        for seed, diary in zip(self.seeds, self.record.diaries, strict=True):
            self.listener.stage("making environments", len(self.hosts), len(self.seeds))
            lanes = host.make(self.recipe.task, self.recipe.num_envs)
            self.hosts.append(lanes)
            lanes.reset(host.seeds_of(seed, self.record.resumed, count=self.recipe.num_envs))
            diary.begin(self.recipe.num_envs)
        self.program = seat.program(self.recipe, self.hosts[0].spec)
        self.seats = self._restored() if self.record.checkpoint else list(map(self.program.start, self.seeds))
        self.record.open(self.program, self.seats[0])
        self.opened = True
        self.listener.stage("compiling", 0, 1)
        with self.stopping:
            self._go_on()

    def close(self) -> None:
        """Closes the environments and the files."""
        for lanes in self.hosts:
            lanes.close()
        if self.opened:
            self.record.close()

    def _restored(self) -> list[Seat]:
        self.listener.say("new episodes begin: a Gymnasium task cannot be saved in the middle of one")
        seats = self.record.restored(self.program)
        return [self.program.restart(one, at.observation) for one, at in zip(seats, self.hosts, strict=True)]

    def _go_on(self) -> None:
        record, recipe = self.record, self.recipe
        saved, before = time.perf_counter(), record.last
        while record.updates < recipe.updates:
            begun = time.perf_counter()
            row, updates = self._row(begun)
            frames = updates * recipe.frames_per_update * len(self.seeds)
            self.listener.row(record.frames, recipe.all_frames, row, frames / (time.perf_counter() - begun))
            self._grow(crowded(row, before))
            before = row
            over, why = record.updates >= recipe.updates, self.stopping.why()
            if over or why or time.perf_counter() - saved > self.checkpoint_seconds:
                record.save(self.seats, finished=over)
                saved = time.perf_counter()
            if why and not over:
                raise why

    def _row(self, begun: float) -> tuple[Row, int]:
        """The updates of one row of the metrics, which is written, and how many there were."""
        count = min(self.recipe.updates_per_row, self.recipe.updates - self.record.updates)
        told: list[list[dict[str, Any]]] = [[] for _ in self.seeds]
        for number in range(self.record.updates, self.record.updates + count):
            for place, metrics in enumerate(told):
                acted, carry = self._unroll(place, number)
                self.seats[place], more = self.program.update(self.seats[place], acted, carry)
                metrics.append(more)
        rows = [seat.row(metrics) for metrics in told]
        return self.record.log(rows, count, time.perf_counter() - begun), count

    def _unroll(self, place: int, update: int) -> tuple[Acted, Any]:
        """Plays an unroll, and returns it with what the policy remembers at its end."""
        one, lanes, diary = self.seats[place], self.hosts[place], self.record.diaries[place]
        carry, length = one.carry, self.recipe.unroll
        seen, first, choices, notes, steps = [lanes.observation], [lanes.first], [], [], []
        for number in range(update * length, (update + 1) * length):
            choice, noted, carry = self.program.act(
                one.policy, lanes.observation, lanes.first, carry, one.key, np.int32(number)
            )
            choices.append(self._finite(np.asarray(choice), place))
            notes.append(jax.device_get(noted))
            steps.append(lanes.step(choices[-1]))
            diary.add(steps[-1])
            seen.append(lanes.observation)
            first.append(lanes.first)
        parts = {
            "observations": seen, "first": first, "choices": choices, "noted": notes,
            "actions": [step.action for step in steps], "after": [step.after for step in steps],
            "reward": [step.reward for step in steps], "terminated": [step.terminated for step in steps],
            "truncated": [step.truncated for step in steps],
        }  # fmt: skip
        return Acted(**{name: _stacked(part) for name, part in parts.items()}), carry

    def _finite(self, choice: np.ndarray, place: int) -> np.ndarray:
        if not np.isfinite(choice).all():
            what = f"seed {self.seeds[place]}: an action became {choice[~np.isfinite(choice)][0]}"
            raise self.record.kept(NotFinite(f"{what} after {self.record.frames:,} frames"))
        return choice

    def _grow(self, memories: frozenset[str]) -> None:
        """More room for crowded memories; one that is as large as it may be stays so, which is said once."""
        if not memories:
            return
        larger = [self.program.grow(one, memories) for one in self.seats]
        if jax.tree.map(jnp.shape, larger) != jax.tree.map(jnp.shape, self.seats):
            self.record.grown.append(sorted(memories))
        elif not self.full:
            self.full = True
            self.listener.say(
                f"a memory ({', '.join(sorted(memories))}) is more than half full and as large as it may be: "
                "the column `dropped` counts what it cannot hold"
            )
        self.seats = larger


def _stacked(steps: list[Any]) -> Any:
    """The same of every step, along a first axis of time."""
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *steps)
