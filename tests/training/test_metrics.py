"""The metrics file: what is appended is read back to the bit, and a resumed run's file is a whole run's."""

from __future__ import annotations

import csv
import sys
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gobi.errors import GobiError
from gobi.training import metrics
from gobi.training.metrics import COLUMNS, Board, MetricsFile


@pytest.fixture
def filled(tmp_path):
    """A file of two seeds and five log steps."""
    file = MetricsFile(tmp_path / "metrics.csv")
    for step in range(1, 6):
        append_step(file, step)
    file.close()
    return file.path


def append_step(file: MetricsFile, step: int, seconds: float = 0.0) -> None:
    values = {"seed": [0, 1], "frames": step * 3200, "return": np.float32([step / 7, np.nan])}
    file.append({**values, "seconds": seconds})


def test_there_is_one_row_per_seed_and_step_and_the_columns_are_the_agreed_ones(filled):
    with filled.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["seed"], row["frames"]) for row in rows[:3]] == [("0", "3200"), ("1", "3200"), ("0", "6400")]


def test_nan_and_what_is_left_out_are_empty_fields_and_read_as_nan(filled):
    first, second = filled.read_text().splitlines()[1:3]
    assert first.startswith("0,3200,,0.1428")
    assert second.startswith("1,3200,,,")
    columns = metrics.read(filled)
    assert np.isnan(columns["return"][1::2]).all()
    assert np.isnan(columns["bonus"]).all()
    assert columns["frames"].dtype == columns["seed"].dtype == np.int64


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20))
def test_floats_come_back_with_the_same_bits(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("run") / "metrics.csv"
    file = MetricsFile(path, ("seed", "frames", "return"))
    file.append(
        {"seed": np.arange(len(values)), "frames": 70_000_001, "return": jnp.array(values, jnp.float32)}
    )
    file.close()
    columns = metrics.read(path)
    assert columns["return"].astype(np.float32).tobytes() == np.float32(values).tobytes()
    assert (columns["frames"] == 70_000_001).all()


def test_what_was_appended_is_in_the_file_before_it_is_closed(tmp_path):
    file = MetricsFile(tmp_path / "metrics.csv")
    append_step(file, 1)
    file.sync()
    assert len(metrics.read(file.path)["seed"]) == 2
    file.close()


def test_a_file_cut_back_and_continued_is_the_file_of_a_run_that_never_stopped(filled, tmp_path):
    whole = filled.read_bytes()
    resumed = MetricsFile(filled)
    resumed.truncate_after(2 * 3200)
    assert set(metrics.read(filled)["frames"].tolist()) == {3200, 6400}
    for step in range(3, 6):
        append_step(resumed, step)
    resumed.close()
    assert filled.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]


def test_a_run_that_starts_again_at_0_keeps_only_the_header(filled):
    file = MetricsFile(filled)
    file.truncate_after(0)
    file.close()
    assert filled.read_text() == ",".join(COLUMNS) + "\n"


def test_a_file_cut_at_any_byte_can_be_read_and_continued(filled):
    whole = filled.read_bytes()
    for kept in range(0, len(whole), 17):
        filled.write_bytes(whole[:kept])
        rows = max(0, whole[:kept].count(b"\n") - 1)
        assert len(metrics.read(filled).get("seed", ())) == rows
        file = MetricsFile(filled)
        append_step(file, 9)
        file.close()
        assert len(metrics.read(filled)["seed"]) == rows + 2


def test_damage_inside_the_file_is_told_with_its_line(filled):
    lines = filled.read_text().splitlines(keepends=True)
    for broken in (lines[2][:9] + "\n", lines[2].replace("3200", "32x0"), "\0" * 30 + "\n"):
        filled.write_text("".join([*lines[:2], broken, *lines[3:]]))
        with pytest.raises(GobiError, match=r"metrics\.csv is damaged in line 3"):
            metrics.read(filled)
    filled.write_text("".join([*lines[:2], lines[2].replace(",,,", ",,0.x,", 1), *lines[3:]]))
    with pytest.raises(GobiError, match="is damaged: could not convert"):
        metrics.read(filled)


def test_a_file_with_other_columns_is_not_continued(filled):
    before = filled.read_bytes()
    with pytest.raises(GobiError, match="has other columns: 'episodes' and 'return'"):
        MetricsFile(filled, ("seed", "frames", "return"))
    assert filled.read_bytes() == before


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": [0, 1], "frames": 1, "retrun": 0.0}, "unknown metric 'retrun'; did you mean return"),
        ({"seed": [0, 1]}, "metrics must say their frames"),
        ({"seed": [0, 1], "frames": np.float32(3e7)}, "frames must be whole numbers, got float32"),
        (
            {"seed": [0, 1], "frames": 1, "return": np.zeros(3)},
            r"return has shape \(3,\), but there are 2 seeds",
        ),
    ],
)
def test_rows_that_make_no_sense_are_refused_and_nothing_is_written(filled, values, message):
    before = filled.read_bytes()
    file = MetricsFile(filled)
    with pytest.raises(GobiError, match=message):
        file.append(values)
    file.close()
    assert filled.read_bytes() == before


def test_two_runs_compare_equal_but_for_their_timings(tmp_path):
    paths = []
    for name, seconds, steps in (("a", 1.0, 3), ("b", 2.0, 3), ("c", 1.0, 4)):
        file = MetricsFile(tmp_path / name / "metrics.csv")
        for step in range(1, steps + 1):
            append_step(file, step, seconds)
        file.close()
        paths.append(file.path)
    assert metrics.compare(paths[0], paths[1]) == []
    assert metrics.compare(paths[0], paths[1], ignore=())[0] == "line 2, seconds: 1.0 and 2.0"
    assert metrics.compare(paths[0], paths[2]) == ["rows: 6 and 8"]
    paths[1].write_text(paths[1].read_text().replace("0.14285715", "0.14285717"))
    (difference,) = metrics.compare(paths[0], paths[1])
    assert difference.startswith("line 2, return: 0.14285715")


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(GobiError, match="no metrics at"):
        metrics.read(tmp_path / "metrics.csv")


# TensorBoard


class FakeWriter:
    made: list[FakeWriter]

    def __init__(self, folder: str, purge_step: int | None = None, filename_suffix: str = "") -> None:
        self.folder, self.purge_step, self.points, self.closed = folder, purge_step, [], False
        FakeWriter.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.points.append((name, value, step))

    def close(self) -> None:
        self.closed = True


def test_the_board_has_a_folder_per_seed_and_a_point_per_value_that_is_there(tmp_path, monkeypatch):
    FakeWriter.made = []
    module = ModuleType("tensorboardX")
    monkeypatch.setattr(module, "SummaryWriter", FakeWriter, raising=False)
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    board = Board(tmp_path, seeds=[3, 4], resumed_at=6400)
    board.append({"seed": [3, 4], "frames": 9600, "return": np.float32([0.5, np.nan]), "success": 1.0})
    board.close()
    three, four = FakeWriter.made
    assert (three.folder, four.folder) == (str(tmp_path / "seed-3"), str(tmp_path / "seed-4"))
    assert three.points == [("return", 0.5, 9600), ("success", 1.0, 9600)]
    assert four.points == [("success", 1.0, 9600)]
    assert three.closed
    assert three.purge_step == 6401


def test_without_the_extra_the_board_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(GobiError, match=r"gobi\[tensorboard\]"):
        Board(tmp_path, seeds=[0])
    assert not Board.installed()
