"""A run from start to end on the host: its folder, its checkpoints, and what may go wrong on the way."""

from __future__ import annotations

import dataclasses
import json
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import numpy as np

import gobi
from gobi.errors import GobiError
from gobi.training import assembly, card, checkpoints, trainer, world_model
from gobi.training.files import disk_errors, to_json, write_whole
from gobi.training.metrics import Board, MetricsFile
from gobi.training.recipe import Recipe, differences, from_json
from gobi.training.trainer import Progress, Row, Trainer

CHECKPOINT_SECONDS = 120.0


class Stopped(KeyboardInterrupt):
    """The user stopped the run; it was saved and can go on."""


class Listener:
    """What a run tells while it goes on; this one does not listen."""

    def stage(self, what: str, done: int, total: int) -> None:
        """Something before training: so much of it is done."""

    def row(self, frames: int, total: int, row: Row, steps_per_second: float) -> None:
        """A row of metrics was written."""

    def say(self, text: str) -> None:
        """A line that stays on the screen."""


@dataclasses.dataclass(frozen=True)
class Folder:
    """Where the files of a run are."""

    path: Path

    @property
    def recipe(self) -> Path:
        """All settings."""
        return self.path / "recipe.json"

    @property
    def run(self) -> Path:
        """The seeds, and whether the run repeats itself bit for bit."""
        return self.path / "run.json"

    @property
    def card(self) -> Path:
        """What one must know to judge the run."""
        return self.path / "card.json"

    @property
    def metrics(self) -> Path:
        """One row per seed and interval."""
        return self.path / "metrics.csv"

    @property
    def checkpoints(self) -> Path:
        """Everything that a run needs to go on."""
        return self.path / "checkpoints"

    @property
    def snapshots(self) -> Path:
        """The first seed's policy along the way."""
        return self.path / "snapshots"

    @property
    def board(self) -> Path:
        """TensorBoard's files."""
        return self.path / "tensorboard"

    @property
    def curves(self) -> Path:
        """The learning curves."""
        return self.path / "curves.png"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run was asked to do."""

    recipe: Recipe
    seeds: tuple[int, ...]
    deterministic: bool = False


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run stands at its end: the last row, and how long it took in all."""

    plan: Plan
    row: Row
    frames: int
    pretraining_frames: int
    seconds: float


def begin(folder: Folder, plan: Plan) -> None:
    """Makes the folder of a new run; refuses one in which there is something."""
    if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
        raise GobiError(f"the output folder {folder.path} is already in use: give another --out")
    with disk_errors(str(folder.path)):
        folder.path.mkdir(parents=True, exist_ok=True)
        write_whole(folder.recipe, (plan.recipe.to_json() + "\n").encode())
        write_whole(folder.run, to_json({"seeds": plan.seeds, "deterministic": plan.deterministic}))


def planned(folder: Folder) -> Plan:
    """What the run in a folder was asked to do."""
    if not folder.recipe.is_file() or not folder.run.is_file():
        raise GobiError(f"{folder.path} is not the folder of a run: it has no {folder.recipe.name}")
    try:
        asked = json.loads(folder.run.read_text())
        seeds, deterministic = tuple(asked["seeds"]), asked["deterministic"]
    except (ValueError, LookupError, TypeError):
        raise GobiError(f"the file {folder.run} is altered") from None
    return Plan(from_json(folder.recipe.read_text()), seeds, deterministic)


def go(
    folder: Folder,
    plan: Plan,
    listener: Listener | None = None,
    checkpoint: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Outcome:
    """Trains to the end, from the last checkpoint if there is one.

    checkpoint:          the name of an earlier one to go on from.
    checkpoint_seconds:  time between checkpoints. When they are made changes nothing in what is learned.
    """
    return _Run(folder, plan, listener or Listener(), checkpoint_seconds).go(checkpoint)


class _Run:
    """One process's part of a run."""

    def __init__(self, folder: Folder, plan: Plan, listener: Listener, checkpoint_seconds: float):
        self.folder, self.plan, self.recipe = folder, plan, plan.recipe
        self.listener, self.checkpoint_seconds = listener, checkpoint_seconds
        self.grown: list[list[str]] = []
        self.updates, self.seconds = 0, 0.0
        self.last: Row | None = None
        self.stopping = False

    @property
    def frames(self) -> int:
        return self.updates * self.recipe.frames_per_update

    def go(self, checkpoint: str | None) -> Outcome:
        resumed = self._find(checkpoint)
        made = self._world()
        self.trainer = Trainer(self.recipe, made.network if made else None)
        progress = self._restored(resumed) if resumed else self._started()
        self.card = self._card(progress, made)
        self.metrics = MetricsFile(self.folder.metrics, self.trainer.columns)
        self.metrics.truncate_after(self.frames)
        self.board = None
        if Board.installed():
            self.board = Board(self.folder.board, self.plan.seeds, resumed_at=self.frames or None)
        try:
            with _Signals(self):
                self._train(progress)
        finally:
            self.metrics.close()
            if self.board:
                self.board.close()
        assert self.last is not None
        return Outcome(self.plan, self.last, self.frames, self.card.pretraining_frames, self.seconds)

    def _find(self, checkpoint: str | None) -> Path | None:
        place = self.folder.checkpoints
        found = checkpoints.named(place, checkpoint) if checkpoint else checkpoints.latest(place)
        if found is None:
            return None
        facts = checkpoints.facts(found)
        changed = differences(from_json(facts["recipe"]), self.recipe)
        if changed:
            raise GobiError(
                f"{self.folder.recipe} was changed since the checkpoint was made: {'; '.join(changed)}; "
                "put it back, or start a new run"
            )
        if tuple(facts["seeds"]) != self.plan.seeds:
            raise GobiError(f"the checkpoint has the seeds {facts['seeds']}, the run {list(self.plan.seeds)}")
        self.grown, self.updates, self.seconds = facts["grown"], facts["updates"], facts["seconds"]
        self.last = {name: np.asarray(values, np.float32) for name, values in facts["row"].items()}
        return found

    def _world(self) -> world_model.Pretrained | None:
        if not world_model.needed(self.recipe):
            return None
        return world_model.load_or_train(
            self.folder.path, self.recipe, gobi.make(self.recipe.task), self.listener.stage
        )

    def _started(self) -> Progress:
        return self.trainer.start(
            self.plan.seeds, lambda done, total: self.listener.stage("making levels", done, total)
        )

    def _restored(self, path: Path) -> Progress:
        like = self.trainer.shapes(self.plan.seeds, self.grown)
        checkpoints.forget_after(self.folder.checkpoints, self.frames)
        return checkpoints.load(path, like)

    def _card(self, progress: Progress, made: world_model.Pretrained | None) -> card.Card:
        if self.folder.card.exists() and self.updates:
            return card.read(self.folder.card)
        recipe, seeds = self.recipe, self.plan.seeds
        learned = world_model.needed(recipe)
        described: dict[str, Any] = {
            "reward": recipe.reward,
            "recipe": recipe.recipe,
            "recipe_digest": recipe.digest,
            "network": recipe.network,
            "world": (recipe.model if learned else recipe.world) if recipe.imagines else "none",
            "world_size": recipe.model_size if learned else "",
            "policy_parameters": card.parameters(progress.state.policy) // len(seeds),
            "world_parameters": card.parameters(made.network) if made else 0,
            "precision": recipe.precision,
            "seeds": seeds,
            "deterministic": self.plan.deterministic,
            "privileged": assembly.privileges(self.trainer.reward),
            "pretraining_frames": made.frames if made else 0,
        }
        return card.write(self.folder.card, card.begin(recipe.task, **described))

    def _train(self, progress: Progress) -> None:
        saved = time.perf_counter()
        self.listener.stage("compiling", 0, 1)
        while self.updates < self.recipe.updates:
            begun = time.perf_counter()
            progress, row = self.trainer.advance(progress)
            took = time.perf_counter() - begun
            self.updates += self.recipe.updates_per_row
            self.seconds += took
            self._check(row)
            self._log(row, took)
            self._snapshot(progress)
            crowded = self.trainer.crowded(row, self.last)
            if crowded:
                progress = self.trainer.grow(progress, crowded)
                self.grown.append(sorted(crowded))
            self.last = row
            over = self.updates >= self.recipe.updates
            if over or self.stopping or time.perf_counter() - saved > self.checkpoint_seconds:
                self._save(progress, finished=over)
                saved = time.perf_counter()
            if self.stopping and not over:
                raise Stopped

    def _check(self, row: Row) -> None:
        try:
            trainer.check_finite(row, self.plan.seeds, self.frames)
        except GobiError as error:
            kept = checkpoints.available(self.folder.checkpoints)
            good = f"the last good checkpoint is {kept[-1]}" if kept else "there is no checkpoint before that"
            raise GobiError(f"{error}; {good}") from None

    def _log(self, row: Row, took: float) -> None:
        frames = self.recipe.updates_per_row * self.recipe.frames_per_update * len(self.plan.seeds)
        speed = frames / took
        values = trainer.logged(row, self.trainer.columns) | {
            "seed": np.array(self.plan.seeds),
            "frames": self.frames,
            "seconds": self.seconds,
            "steps_per_second": speed,
        }
        self.metrics.append(values)
        if self.board:
            self.board.append(values)
        self.listener.row(self.frames, self.recipe.updates * self.recipe.frames_per_update, row, speed)

    def _snapshot(self, progress: Progress) -> None:
        """Keeps the first seed's policy when one of the evenly spaced marks is passed."""
        marks = self.recipe.snapshots
        before = (self.updates - self.recipe.updates_per_row) * marks // self.recipe.updates
        if marks and self.updates * marks // self.recipe.updates > before:
            policy = jax.tree.map(lambda part: part[0], progress.state.policy)
            place = self.folder.snapshots / f"{self.frames:012d}.safetensors"
            checkpoints.save_weights(place, policy, {"frames": self.frames, "seed": self.plan.seeds[0]})

    def _save(self, progress: Progress, finished: bool) -> None:
        assert self.last is not None
        self.metrics.sync()
        facts = {
            "frames": self.frames,
            "updates": self.updates,
            "seconds": self.seconds,
            "recipe": self.recipe.to_json(),
            "seeds": self.plan.seeds,
            "grown": self.grown,
            "row": self.last,
        }
        checkpoints.save(self.folder.checkpoints, progress, facts)
        looked = self.recipe.imagines and self.recipe.world == "learned"
        self.card = card.write(
            self.folder.card,
            self.card,
            frames=self.frames,
            seconds=round(self.seconds, 3),
            peeks=3 * self.frames if looked else 0,
            finished=card.now() if finished else None,
        )


class _Signals:
    """While training, a first Ctrl-C or SIGTERM asks the run to save and stop; a second ends it at once."""

    def __init__(self, run: _Run):
        self.run = run

    def __enter__(self) -> None:
        self.before: dict[int, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self.before[number] = signal.signal(number, self._ask)
            except ValueError:
                # Not the main thread: whoever runs us there deals with signals.
                return

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.run.stopping = True
        self.run.listener.say("stopping after this interval; again to stop at once, without a checkpoint")
        signal.signal(number, signal.default_int_handler)


def finished(folder: Folder, plan: Plan) -> bool:
    """Whether the run has come to its end."""
    last = checkpoints.latest(folder.checkpoints)
    return last is not None and checkpoints.facts(last)["updates"] >= plan.recipe.updates
