"""The record of a run on a task of Gymnasium's: what it writes while it is trained, and where it stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from gobi.envs.host import Step
from gobi.training import card, checkpoints, trainer
from gobi.training.host.seat import Program, Seat
from gobi.training.record import Record
from gobi.training.trainer import NotFinite, Row

COLUMNS = (
    "seed", "frames", "episodes", "return", "success", "length", "bonus", "bonus_share", "growth", "lifelong",
    "distinct", "world_exact", "world_cells", "world_loss", "world_error", "policy_loss", "value_loss",
    "entropy", "grad_norm", "value_error", "value", "off_policy", "learning_rate", "coefficient", "dropped",
    "seconds", "steps_per_second",
)  # fmt: skip
"""What is logged; `return`, `success` and `length` are means over a seed's last 100 finished episodes."""

COLUMN_OF = trainer.COLUMN_OF | {"world/loss": "world_loss", "world/error": "world_error"}
KEPT = 100
"""Means are over this many of the last finished episodes."""


@dataclasses.dataclass
class Diary:
    """What one seed has done, kept on the host.

    episodes:   that have ended.
    returns:    of the last of them; likewise their lengths, whether they were solved (None: not told), and
                their gains, the rewards above 0 alone.
    """

    episodes: int = 0
    returns: list[float] = dataclasses.field(default_factory=list)
    lengths: list[int] = dataclasses.field(default_factory=list)
    successes: list[float | None] = dataclasses.field(default_factory=list)
    gains: list[float] = dataclasses.field(default_factory=list)

    def begin(self, lanes: int) -> None:
        """Episodes begin in all lanes."""
        self.earned, self.gained, self.steps = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes, np.int64)

    def add(self, step: Step) -> None:
        """One step of every lane."""
        self.earned += step.reward
        self.gained += np.maximum(step.reward, 0)
        self.steps += step.real
        for lane in np.flatnonzero(step.done & step.real):
            self.episodes += 1
            solved = step.success[lane]
            self.returns.append(float(self.earned[lane]))
            self.gains.append(float(self.gained[lane]))
            self.lengths.append(int(self.steps[lane]))
            self.successes.append(None if np.isnan(solved) else float(solved))
        self.earned[step.done], self.gained[step.done], self.steps[step.done] = 0.0, 0.0, 0
        for kept in (self.returns, self.lengths, self.successes, self.gains):
            del kept[:-KEPT]

    def means(self) -> dict[str, float]:
        """Over the last episodes; not a number before the first, or where success is not told."""
        told = [solved for solved in self.successes if solved is not None]
        kept = {"return": self.returns, "length": self.lengths, "success": told}
        kept |= {"gain": self.gains, "rewarded": [float(gain > 0) for gain in self.gains]}
        means = {name: float(np.mean(values)) if values else np.nan for name, values in kept.items()}
        return means | {"episodes": float(self.episodes)}


class HostRecord(Record):
    """The files of a run on a task of Gymnasium's.

    updates:  how many there have been.
    grown:    which memories were given more room, in turn.
    diaries:  one for each seed.
    resumed:  how often the run was taken up again: its environments then begin other episodes.
    """

    def stand_at(self, facts: dict[str, Any]) -> None:
        """By updates."""
        self.updates: int = facts.get("updates", 0)
        self.grown: list[list[str]] = facts.get("grown", [])
        self.resumed: int = facts["resumed"] + 1 if facts else 0
        self.diaries = [Diary(**told) for told in facts.get("diaries", [{}] * len(self.plan.seeds))]

    @property
    def frames(self) -> int:
        """Environment steps of each seed so far."""
        return self.updates * self.recipe.frames_per_update

    def open(self, program: Program, first: Seat) -> None:
        """Opens the files to write into. `first` is any of the seats."""
        logs = (*program.reward.logs, *program.learner.logs)
        more = tuple(name for name in logs if name not in COLUMNS)
        self.describe(COLUMNS + more, lambda: self._described(first), beside=0)

    def restored(self, program: Program) -> list[Seat]:
        """What the checkpoint holds; later ones are forgotten."""
        assert self.checkpoint is not None
        like = [program.shapes(self.grown)] * len(self.plan.seeds)
        seats = checkpoints.load(self.checkpoint, {"seats": like})["seats"]
        # Only now: if the checkpoint is damaged, a later one is what can be gone on from.
        checkpoints.forget_after(self.folder.checkpoints, self.frames)
        return seats

    def log(self, told: Sequence[dict[str, float]], updates: int, took: float) -> Row:
        """Adds a row, of what so many updates of each seed told; refuses what is not a number."""
        rows = [{**one, **diary.means()} for one, diary in zip(told, self.diaries, strict=True)]
        row = {
            COLUMN_OF.get(name, name): np.array([one[name] for one in rows], np.float32) for name in rows[0]
        }
        frames = updates * self.recipe.frames_per_update
        try:
            trainer.check_finite(row, self.plan.seeds, self.frames + frames)
        except NotFinite as error:
            raise self.kept(error) from None
        self.updates += updates
        self.append(row, trainer.logged(row, self.columns), took, frames)
        return row

    def save(self, seats: Sequence[Seat], finished: bool) -> None:
        """Writes a checkpoint, and brings the card up to date."""
        facts = {
            "updates": self.updates,
            "grown": self.grown,
            "resumed": self.resumed,
            "diaries": [dataclasses.asdict(diary) for diary in self.diaries],
        }
        self.keep({"seats": list(seats)}, facts, finished)

    def _described(self, first: Seat) -> dict[str, Any]:
        recipe = self.recipe
        imagines = recipe.imagines
        return {
            "reward": recipe.reward,
            "recipe": recipe.recipe,
            "recipe_digest": recipe.digest,
            "network": f"{recipe.network} {recipe.units}",
            "world": "online" if imagines else "none",
            "world_size": "compact" if imagines else "",
            "policy_parameters": card.parameters(first.policy),
            "world_parameters": card.parameters(_world(first.reward)) if imagines else 0,
            "precision": "float32",
            "seeds": self.plan.seeds,
            "deterministic": self.plan.deterministic,
            "privileged": (),
            "pretraining_pairs": 0,
            "pretraining_seconds": 0.0,
            "versions": card.versions("gymnasium"),
        }


def _world(state: Any) -> Any:
    """The network of the world model in a reward's state; None where there is none."""
    parts = state if isinstance(state, tuple) else (state,)
    worlds = [part.world for part in parts if hasattr(part, "world")]
    return [getattr(world, "network", None) for world in worlds]
