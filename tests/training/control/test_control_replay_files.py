"""The frames of a replay on the disk: each is written once, and the ring comes back as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gobi.errors import GobiError
from gobi.training.control import replay_files
from gobi.training.control.replay_files import ReplayFiles


class Ring:
    """A replay of frames that hold their own number."""

    def __init__(self, slots: int):
        self.frames, self.count = np.zeros((slots, 2), np.int32), 0

    def add(self, count: int) -> None:
        for _ in range(count):
            self.frames[self.count % len(self.frames)] = self.count
            self.count += 1


@settings(max_examples=30, deadline=None)
@given(
    slots=st.integers(4, 12),
    per_file=st.integers(1, 7),
    intervals=st.lists(st.integers(0, 30), min_size=1, max_size=6),
)
def test_the_ring_comes_back_however_often_it_was_saved(tmp_path_factory, slots, per_file, intervals):
    folder = tmp_path_factory.mktemp("replay")
    ring, files = Ring(slots), ReplayFiles(folder, slots)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_files, "FRAMES_PER_FILE", per_file)
        for added in intervals:
            ring.add(added)
            pieces = files.write(ring.frames, ring.count)
            files.forget(pieces)
            again = ReplayFiles(folder, slots, pieces).read((2,), "int32", ring.count)
            np.testing.assert_array_equal(again, ring.frames)
    # Nothing lies about that is not needed, and what is needed is little more than the ring.
    assert {path.name for path in folder.iterdir()} == {piece.name for piece in pieces}
    assert sum(piece.end - piece.first for piece in pieces) < slots + per_file


def test_a_frame_is_written_once(tmp_path):
    ring, files = Ring(100), ReplayFiles(tmp_path, 100)
    ring.add(10)
    (first,) = files.write(ring.frames, ring.count)
    before = (tmp_path / first.name).stat()
    ring.add(5)
    kept, new = files.write(ring.frames, ring.count)
    assert (kept, new.first, new.end) == (first, 10, 15)
    assert (tmp_path / first.name).stat().st_mtime_ns == before.st_mtime_ns
    assert files.write(ring.frames, ring.count) == [first, new]


def test_pieces_of_another_replay_are_refused(tmp_path):
    ring, files = Ring(100), ReplayFiles(tmp_path, 100)
    ring.add(10)
    first = files.write(ring.frames, ring.count)
    ring.add(5)
    both = files.write(ring.frames, ring.count)
    with pytest.raises(GobiError, match="lacks the frames from number 10 on"):
        ReplayFiles(tmp_path, 100, first).read((2,), "int32", 15)
    with pytest.raises(GobiError, match="does not hold the frames of this replay"):
        ReplayFiles(tmp_path, 100, both[1:]).read((2,), "int32", 15)
    with pytest.raises(GobiError, match="does not hold the frames of this replay"):
        ReplayFiles(tmp_path, 100, both).read((3,), "int32", 15)
    with pytest.raises(GobiError, match="does not hold the frames of this replay"):
        ReplayFiles(tmp_path, 100, both).read((2,), "uint8", 15)
    (tmp_path / both[1].name).unlink()
    with pytest.raises(GobiError, match="is missing"):
        ReplayFiles(tmp_path, 100, both).read((2,), "int32", 15)
