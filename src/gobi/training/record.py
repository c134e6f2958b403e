"""The record of one run: what it writes while it is trained, and where it stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gobi.errors import GobiError
from gobi.training import assembly, card, checkpoints, resolved, trainer, world_model
from gobi.training.beforehand import Learned
from gobi.training.folder import Folder, Plan, begun_by, refuse_changed_options
from gobi.training.metrics import Board, MetricsFile
from gobi.training.recipe import differences, from_json
from gobi.training.trainer import NotFinite, Progress, Row, Trainer


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run stands at its end: the last row, and how long it took in all."""

    plan: Plan
    row: Row
    frames: int
    pretraining_frames: int
    seconds: float


class Record:
    """The files of one run, on whatever kind of task. Each kind adds how it counts, and what it saves.

    seconds:  how long it took so far.
    last:     the last row of metrics; None before the first.
    """

    def __init__(self, folder: Folder, plan: Plan, checkpoint: Path | None):
        """Where the run stands at a checkpoint; None is its beginning."""
        self.folder, self.plan, self.recipe = folder, plan, plan.recipe
        refuse_changed_options(folder, plan.recipe)
        self.checkpoint = checkpoint
        self.seconds = 0.0
        self.last: Row | None = None
        self.stand_at({})
        if checkpoint:
            self._take_up(checkpoint)

    @property
    def frames(self) -> int:
        """Environment steps of each seed so far."""
        raise NotImplementedError

    def stand_at(self, facts: dict[str, Any]) -> None:
        """Counts as a checkpoint's facts say; without any, from the beginning."""
        raise NotImplementedError

    def describe(self, columns: Sequence[str], described: Callable[[], dict[str, Any]], beside: int) -> None:
        """Opens the files to write into.

        columns:    of the metrics.
        described:  gives the card's fields that only the run knows; asked when it has none yet.
        beside:     how many agents of other runs there are in the process.
        """
        if self.folder.card.exists() and self.frames:
            told = card.read(self.folder.card)
        else:
            told = card.write(
                self.folder.card,
                card.begin(
                    self.recipe.task,
                    options=resolved.options(self.recipe),
                    command=begun_by(self.folder),
                    **described(),
                ),
            )
        self.card = dataclasses.replace(told, beside=max(told.beside, beside))
        self.columns = tuple(columns)
        self.metrics = MetricsFile(self.folder.metrics, self.columns)
        self.metrics.truncate_after(self.frames)
        self.board = None
        if Board.installed():
            self.board = Board(self.folder.board, self.plan.seeds, resumed_at=self.frames or None)

    def close(self) -> None:
        """Closes them."""
        self.metrics.close()
        if self.board:
            self.board.close()

    def kept(self, error: NotFinite) -> NotFinite:
        """The same error, with what can be gone back to."""
        kept = checkpoints.available(self.folder.checkpoints)
        good = f"the last good checkpoint is {kept[-1]}" if kept else "there is no checkpoint before that"
        return NotFinite(f"{error}, in the run {self.folder.path}; {good}")

    def append(self, row: Row, values: Row, took: float, frames: int) -> None:
        """Adds a row: all that is known, what is logged of it, and the time and frames that it took."""
        self.seconds += took
        self.last = row
        values = values | {
            "seed": np.array(self.plan.seeds),
            "frames": np.asarray(self.frames),
            "seconds": np.asarray(self.seconds),
            "steps_per_second": np.asarray(frames * len(self.plan.seeds) / took),
        }
        self.metrics.append(values)
        if self.board:
            self.board.append(values)

    def keep(self, tree: Any, facts: dict[str, Any], finished: bool, **told: Any) -> None:
        """Writes a checkpoint of the tree and the facts, and brings the card up to date."""
        self.metrics.sync()
        facts = {
            "frames": self.frames,
            "seconds": self.seconds,
            "recipe": self.recipe.to_json(),
            "seeds": self.plan.seeds,
            "row": self.last,
            **facts,
        }
        checkpoints.save(self.folder.checkpoints, tree, facts)
        self.card = card.write(
            self.folder.card,
            self.card,
            frames=self.frames,
            seconds=round(self.seconds, 3),
            finished=card.now() if finished else None,
            **told,
        )

    def outcome(self) -> Outcome:
        """How the run stands."""
        assert self.last is not None
        return Outcome(self.plan, self.last, self.frames, self.card.pretraining_frames, self.seconds)

    def _take_up(self, checkpoint: Path) -> None:
        facts = checkpoints.facts(checkpoint)
        changed = differences(from_json(facts["recipe"]), self.recipe)
        if changed:
            raise GobiError(
                f"{self.folder.recipe} was changed since the checkpoint was made: {'; '.join(changed)}; "
                "put it back, or start a new run"
            )
        if tuple(facts["seeds"]) != self.plan.seeds:
            raise GobiError(f"the checkpoint has the seeds {facts['seeds']}, the run {list(self.plan.seeds)}")
        self.seconds = facts["seconds"]
        if facts["row"] is not None:
            self.last = {name: np.asarray(values, np.float32) for name, values in facts["row"].items()}
        self.stand_at(facts)


class GridRecord(Record):
    """The files of a run on a grid.

    updates:  how many there have been.
    grown:    which memories were given more room, in turn.
    """

    def stand_at(self, facts: dict[str, Any]) -> None:
        """By updates."""
        self.updates: int = facts.get("updates", 0)
        self.grown: list[list[str]] = facts.get("grown", [])

    @property
    def frames(self) -> int:
        """Environment steps of each seed so far."""
        return self.updates * self.recipe.frames_per_update

    def restored(self, own: Trainer) -> Progress:
        """What the checkpoint holds; later ones are forgotten."""
        assert self.checkpoint is not None
        progress = checkpoints.load(self.checkpoint, own.shapes(self.plan.seeds, self.grown))
        # Only now: if the checkpoint is damaged, a later one is what can be gone on from.
        checkpoints.forget_after(self.folder.checkpoints, self.frames)
        return progress

    def open(self, own: Trainer, policy: Any, made: Learned | None, beside: int) -> None:
        """Opens the files to write into.

        policy:  of one agent.
        beside:  how many agents of other runs there are in the process.
        """
        self.describe(own.columns, lambda: self._described(own, policy, made), beside)

    def check(self, row: Row, frames: int) -> None:
        """Refuses a row in which something is not a number, and names what can be gone back to."""
        try:
            trainer.check_finite(row, self.plan.seeds, frames)
        except NotFinite as error:
            raise self.kept(error) from None

    def log(self, row: Row, took: float) -> None:
        """Adds the row of an interval that took so many seconds: of a pack's time, the run's share."""
        self.updates += self.recipe.updates_per_row
        frames = self.recipe.updates_per_row * self.recipe.frames_per_update
        self.append(row, trainer.logged(row, self.columns), took, frames)

    def wants_snapshot(self) -> bool:
        """Whether the last interval passed one of the evenly spaced marks."""
        marks = self.recipe.snapshots
        before = (self.updates - self.recipe.updates_per_row) * marks // self.recipe.updates
        return bool(marks) and self.updates * marks // self.recipe.updates > before

    def snapshot(self, policy: Any) -> None:
        """Keeps the policy of the first seed."""
        place = self.folder.snapshots / f"{self.frames:012d}.safetensors"
        checkpoints.save_weights(place, policy, {"frames": self.frames, "seed": self.plan.seeds[0]})

    def save(self, progress: Progress, finished: bool) -> None:
        """Writes a checkpoint, and brings the card up to date."""
        assert self.last is not None
        facts = {"updates": self.updates, "grown": self.grown}
        looked = "panorama" in self.card.privileged
        self.keep(progress, facts, finished, peeks=3 * self.frames if looked else 0)

    def _described(self, own: Trainer, policy: Any, made: Learned | None) -> dict[str, Any]:
        recipe = self.recipe
        learned = world_model.needed(recipe)
        return {
            "reward": recipe.reward,
            "recipe": recipe.recipe,
            "recipe_digest": recipe.digest,
            "network": recipe.network,
            "world": (recipe.model if learned else recipe.world) if recipe.imagines else "none",
            "world_size": recipe.model_size if learned else "",
            "policy_parameters": card.parameters(policy),
            "world_parameters": card.parameters(made.network) if made and learned else 0,
            "precision": recipe.precision,
            "seeds": self.plan.seeds,
            "deterministic": self.plan.deterministic,
            "privileged": assembly.privileges(own.reward),
            "pretraining_frames": made.frames if made else 0,
            "pretraining_pairs": made.pairs if made else 0,
            "pretraining_seconds": made.seconds if made else 0.0,
        }
