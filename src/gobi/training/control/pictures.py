"""Pictures of what a run's world model sees, expects and imagines, on a stretch of the replay."""

from __future__ import annotations

from pathlib import Path

import jax

from gobi.training.control.seat import Program, Seat
from gobi.training.files import disk_errors
from gobi.worlds.rssm import RSSM
from gobi.worlds.rssm.drawing import picture

DRAWING = 3
"""What a draw is for, beside the purposes of `seat`."""


def draw(folder: Path, program: Program, seat: Seat, frames: int) -> Path:
    """Writes a picture named by the frames that the agent was trained on, and returns where it lies."""
    world, model = program.world(seat), program.model
    assert world is not None
    assert isinstance(model, RSSM)
    assert program.lessons is not None
    key = jax.random.fold_in(jax.random.fold_in(seat.key, DRAWING), frames)
    drawing, looking = jax.random.split(key)
    sequences = seat.replay.tree.sequences(drawing, 1, program.lessons.length)
    path = folder / f"{frames:012d}.png"
    with disk_errors(str(path)):
        picture(path, model, world, sequences.frames[0], sequences.actions[0], looking)
    return path
