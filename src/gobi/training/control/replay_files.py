"""The frames of a replay on the disk: each is written once, and a checkpoint names the files that it needs.

A replay of pixels has gigabytes, and a checkpoint comes every few minutes. Frames do not change once they are
in the replay, so that only those that came since the last checkpoint are written, in files of a few thousand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from jaxtyping import Shaped

from gobi.errors import GobiError
from gobi.training.files import checksum, disk_errors, read_checked, write_whole

FRAMES_PER_FILE = 2048
FRAMES = "frames"


@dataclasses.dataclass(frozen=True)
class Piece:
    """A file of frames.

    name:      of the file, in the folder of its seed.
    first:     the number of its first frame, of all that ever came into the replay.
    end:       the number after that of its last one.
    checksum:  of the file.
    """

    name: str
    first: int
    end: int
    checksum: dict[str, Any]


class ReplayFiles:
    """The frames of one seed's replay, a ring of so many slots: frame number i lies in slot i % slots."""

    def __init__(self, folder: Path, slots: int, pieces: Iterable[Piece] = ()):
        """Goes on from the pieces of a checkpoint."""
        self.folder, self.slots = folder, slots
        self.pieces = list(pieces)

    @property
    def written(self) -> int:
        """The number of the first frame that is not on the disk."""
        return self.pieces[-1].end if self.pieces else 0

    def write(self, frames: Shaped[Any, "slots ..."], count: int) -> list[Piece]:
        """Writes the frames that are new, and returns the pieces that hold all that are in the replay.

        frames:  of the whole ring.
        count:   how many ever came into it.
        """
        oldest = max(0, count - self.slots)
        first = max(self.written, oldest)
        with disk_errors(f"the replay {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            while first < count:
                slot = first % self.slots
                end = min(count, first + FRAMES_PER_FILE, first + self.slots - slot)
                self.pieces.append(self._write(np.asarray(frames[slot : slot + end - first]), first, end))
                first = end
        self.pieces = [piece for piece in self.pieces if piece.end > oldest]
        return list(self.pieces)

    def read(
        self, shape: Sequence[int], dtype: Any, count: int, advice: Callable[[Piece], str] = lambda _: ""
    ) -> Shaped[np.ndarray, "slots ..."]:
        """The frames of the whole ring; slots that never held one are 0.

        advice:  ends the error if a piece is not as it was written.
        """
        ring = np.zeros((self.slots, *shape), dtype)
        oldest = max(0, count - self.slots)
        reached = oldest
        for piece in self.pieces:
            content = self._read(piece, advice)
            frames = safetensors.numpy.load(content)[FRAMES]
            numbers = np.arange(piece.first, piece.end)
            # A later frame took the slot of one that is older than the ring is long.
            kept = (numbers >= oldest) & (numbers < count)
            if frames.shape[1:] != tuple(shape) or frames.dtype != dtype or piece.first > reached:
                raise GobiError(f"{self.folder / piece.name} does not hold the frames of this replay")
            ring[numbers[kept] % self.slots] = frames[kept]
            reached = piece.end
        if reached < count:
            raise GobiError(f"{self.folder} lacks the frames from number {reached} on")
        return ring

    def forget(self, needed: Iterable[Piece]) -> None:
        """Removes the files that no checkpoint needs any more."""
        names = {piece.name for piece in needed}
        for path in self.folder.glob("*.safetensors"):
            if path.name not in names:
                path.unlink()

    def _read(self, piece: Piece, advice: Callable[[Piece], str]) -> bytes:
        path = self.folder / piece.name
        try:
            return read_checked(path, piece.checksum)
        except GobiError as error:
            raise GobiError(f"{error}{advice(piece)}") from None

    def _write(self, frames: np.ndarray, first: int, end: int) -> Piece:
        name = f"{first:012d}-{end:012d}.safetensors"
        content = safetensors.numpy.save({FRAMES: np.ascontiguousarray(frames)})
        write_whole(self.folder / name, content)
        return Piece(name, first, end, checksum(content))
