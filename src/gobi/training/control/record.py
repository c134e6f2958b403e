"""The record of a run on a control task: what it writes while it is trained, and where it stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gobi.training import card, checkpoints
from gobi.training.control.replay_files import Piece, ReplayFiles
from gobi.training.control.seat import Program, Seat, held, whole
from gobi.training.folder import Folder, Plan
from gobi.training.record import Record
from gobi.training.trainer import NotFinite, Row

COLUMNS = (
    "seed", "frames", "episodes", "return", "success", "length", "training_return", "bonus", "bonus_share",
    "policy_loss", "value_loss", "entropy", "temperature", "value", "coefficient", "updates", "dropped",
    "seconds", "evaluation_seconds", "steps_per_second",
)  # fmt: skip
"""What is logged; `return`, `success` and `length` are of the episodes of an evaluation."""

OF_LESSONS = ("world/", "codes/")
"""What a world model's lessons tell begins so, and is logged too."""

MUST_BE_FINITE = ("bonus", "value_loss", "policy_loss", "entropy", "temperature", "world/loss")

Saved = dict[str, np.ndarray]
"""An environment, as its worker saves it."""


@dataclasses.dataclass
class Diary:
    """What one seed has done, kept on the host.

    episodes:  that have ended.
    earned:    the task's reward in the episode under way.
    returns:   of the episodes that ended since the last row.
    """

    episodes: int = 0
    earned: float = 0.0
    returns: list[float] = dataclasses.field(default_factory=list)


class ControlRecord(Record):
    """The files of a run on a control task.

    steps:    agent steps so far.
    updates:  gradient steps so far.
    lessons:  of the world model.
    passed:   seconds since the last row.
    actions:  what each seed does next; none before the first step.
    diaries:  one for each seed.
    """

    def __init__(self, folder: Folder, plan: Plan, checkpoint: Path | None):
        self.files: list[ReplayFiles] = []
        self.passed = 0.0
        super().__init__(folder, plan, checkpoint)

    def stand_at(self, facts: dict[str, Any]) -> None:
        """By agent steps."""
        self.steps: int = facts.get("steps", 0)
        self.updates: int = facts.get("updates", 0)
        self.lessons: int = facts.get("lessons", 0)
        self.passed: float = facts.get("passed", 0.0)
        self.actions = [np.asarray(action, np.float32) for action in facts.get("actions", [])]
        seeds = len(self.plan.seeds)
        self.diaries = [Diary(**told) for told in facts.get("diaries", [{}] * seeds)]
        self.pieces = [[Piece(**one) for one in mine] for mine in facts.get("replay", [[]] * seeds)]

    @property
    def frames(self) -> int:
        """Environment steps of each seed so far."""
        return self.steps * self.recipe.action_repeat

    def open(self, program: Program, first: Seat) -> None:
        """Opens the files to write into. `first` is any of the seats."""
        lessons = sorted(name for name in program.metrics if name.startswith(OF_LESSONS))
        logs = (*program.reward.logs, *lessons)
        more = tuple(name for name in dict.fromkeys(logs) if name not in COLUMNS)
        self.describe(COLUMNS + more, lambda: self._described(program, first), beside=0)
        self.files = self._files(program)

    def restored(self, program: Program, like: Saved) -> tuple[list[Seat], list[Saved]]:
        """What the checkpoint holds; later ones are forgotten."""
        assert self.checkpoint is not None
        seat, seats = _without_frames(program.shapes()), len(self.plan.seeds)
        tree = checkpoints.load(self.checkpoint, {"seats": [seat] * seats, "environments": [like] * seats})
        shape, dtype = program.spec.observation_shape, program.spec.observation_dtype
        found = []
        for place, files in enumerate(self._files(program)):
            seat = tree["seats"][place]
            frames = files.read(shape, dtype, int(seat.replay.written), self._advice(place))
            found.append(held(_with_frames(seat, jnp.asarray(frames))))
        # Only now: if anything is damaged, a later checkpoint is what can be gone on from.
        checkpoints.forget_after(self.folder.checkpoints, self.frames)
        return found, tree["environments"]

    def check(self, told: Iterable[dict[str, float]]) -> None:
        """Refuses to go on with what is not a number, and names what can be gone back to."""
        for seed, metrics in zip(self.plan.seeds, told, strict=True):
            for name in MUST_BE_FINITE:
                value = metrics.get(name, 0.0)
                if not np.isfinite(value):
                    what = f"the {name.replace('_', ' ')} became {value} before frame {self.frames:,}"
                    raise self.kept(NotFinite(f"seed {seed}: {what}"))

    def log(self, row: Row, frames: int, evaluated: float) -> None:
        """Adds a row, of so many frames, whose evaluation took so many seconds."""
        values = {name: row[name] for name in row if name in self.columns}
        values["evaluation_seconds"] = np.asarray(evaluated)
        self.append(row, values, self.passed, frames)
        self.passed = 0.0
        for diary in self.diaries:
            diary.returns.clear()

    def save(self, seats: Sequence[Seat], environments: Sequence[Saved], finished: bool) -> None:
        """Writes the new frames, then a checkpoint that names them, and removes what none needs any more."""
        pieces, seats = [], [whole(seat) for seat in seats]
        for seat, files in zip(seats, self.files, strict=True):
            pieces.append(files.write(seat.replay.frames, int(seat.replay.written)))
        facts = {
            "steps": self.steps,
            "updates": self.updates,
            "lessons": self.lessons,
            "passed": self.passed,
            "actions": [action.tolist() for action in self.actions],
            "diaries": [dataclasses.asdict(diary) for diary in self.diaries],
            "replay": [[dataclasses.asdict(piece) for piece in mine] for mine in pieces],
        }
        tree = {"seats": [_without_frames(seat) for seat in seats], "environments": list(environments)}
        self.keep(tree, facts, finished)
        self._forget()

    def _files(self, program: Program) -> list[ReplayFiles]:
        return [
            ReplayFiles(self.folder.replay / f"seed-{seed}", program.slots, pieces)
            for seed, pieces in zip(self.plan.seeds, self.pieces, strict=True)
        ]

    def _advice(self, place: int) -> Callable[[Piece], str]:
        """How to go on without a piece of a seed's replay."""

        def advice(piece: Piece) -> str:
            assert self.checkpoint is not None
            earlier = checkpoints.before(self.checkpoint)
            needed = checkpoints.facts(earlier)["replay"][place] if earlier else []
            if piece.name in {one["name"] for one in needed}:
                return f"; the checkpoint before, {earlier}, needs it too"
            return checkpoints.advice(self.checkpoint)

        return advice

    def _forget(self) -> None:
        kept = checkpoints.available(self.folder.checkpoints)
        needed = [checkpoints.facts(path)["replay"] for path in kept]
        for place, files in enumerate(self.files):
            files.forget(Piece(**piece) for replays in needed for piece in replays[place])

    def _described(self, program: Program, first: Seat) -> dict[str, Any]:
        recipe = self.recipe
        world, pixels = program.world(first), recipe.observations == "pixels"
        return {
            "reward": recipe.reward,
            "recipe": recipe.recipe,
            "recipe_digest": recipe.digest,
            "network": recipe.network,
            "world": ("rssm" if pixels else "state") if world is not None else "none",
            "world_size": recipe.world_size if world is not None and pixels else "",
            "policy_parameters": card.parameters(first.learner.tree.actor),
            "world_parameters": card.parameters(world.network) if world is not None else 0,
            "precision": recipe.precision,
            "seeds": self.plan.seeds,
            "deterministic": self.plan.deterministic,
            "privileged": () if pixels else ("state",),
            "pretraining_pairs": 0,
            "pretraining_seconds": 0.0,
            "versions": card.versions("dm_control", "mujoco"),
        }


def _without_frames(seat: Seat) -> Seat:
    """A seat as a checkpoint holds it: frames have files of their own."""
    replay = eqx.tree_at(lambda replay: replay.frames, seat.replay, None)
    return dataclasses.replace(seat, replay=replay)


def _with_frames(seat: Seat, frames: jax.Array) -> Seat:
    replay = eqx.tree_at(lambda replay: replay.frames, seat.replay, frames, is_leaf=lambda leaf: leaf is None)
    return dataclasses.replace(seat, replay=replay)
