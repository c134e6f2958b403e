"""Metrics of a run: a CSV file with one row per seed and log step; TensorBoard files beside it if wanted."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import jax
import numpy as np

from gobi.errors import GobiError, require, unknown
from gobi.training.files import disk_errors, write_whole

COLUMNS = (
    "seed", "frames", "episodes", "return", "success", "length", "bonus", "bonus_share", "growth", "lifelong",
    "distinct", "rooms", "cells", "doors", "reachable_share", "world_exact", "world_cells", "policy_loss",
    "value_loss", "entropy", "grad_norm", "value_error", "learning_rate", "coefficient", "dropped",
    "levels_repeated", "seconds", "steps_per_second",
)  # fmt: skip
"""What is logged; `return`, `success` and `length` are means over a seed's last 100 finished episodes."""

TIMINGS = ("seconds", "evaluation_seconds", "steps_per_second")
"""The only columns that may differ between two runs of the same recipe and seed."""

WHOLE = ("seed", "frames")
"""The columns that say which row it is: whole numbers, never empty."""


class MetricsFile:
    """A CSV file that grows. What was appended outlasts the process; after `sync`, a power cut too."""

    def __init__(self, path: Path, columns: Sequence[str] = COLUMNS) -> None:
        """Opens the file, new or to go on with it; a last line that was not written to its end is dropped."""
        self.path = path
        self.columns = tuple(columns)
        header, lines = _lines(path) if path.exists() else ((), [])
        if header and header != self.columns:
            raise GobiError(f"{path} has other columns: {_first_difference(header, self.columns)}")
        self._rewrite(lines)

    def append(self, values: Mapping[str, Any]) -> None:
        """Adds one row for each seed and hands them to the system.

        values:  by column, one value for each seed or one for all. `seed` and `frames` must be there; other
                 columns may be left out and then stay empty, as do values that are NaN.
        """
        for name in values:
            if name not in self.columns:
                raise unknown("metric", name, self.columns)
        rows = by_seed(values)
        with disk_errors(str(self.path)):
            self._file.write("".join(_line(row.get(name) for name in self.columns) for row in rows))
            self._file.flush()

    def truncate_after(self, frames: int) -> None:
        """Drops the rows with more frames, for a run that goes on from a checkpoint."""
        self._file.close()
        place = self.columns.index("frames")
        self._rewrite([line for line in _lines(self.path)[1] if int(line.split(",")[place]) <= frames])

    def sync(self) -> None:
        """Waits until all that was appended is on the disk."""
        with disk_errors(str(self.path)):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _rewrite(self, lines: list[str]) -> None:
        """The header and these lines become the whole file, which is then open for more."""
        with disk_errors(str(self.path)):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = (_line(self.columns) + "".join(lines)).encode()
            if not self.path.exists() or self.path.read_bytes() != content:
                write_whole(self.path, content)
            self._file: TextIO = self.path.open("a", encoding="utf-8", newline="")


class Board:
    """TensorBoard files, one folder per seed, with the same rows as the CSV file."""

    def __init__(self, folder: Path, seeds: Iterable[int], resumed_at: int | None = None) -> None:
        """Opens them; what an earlier process wrote beyond the frames `resumed_at` is hidden."""
        module = require("tensorboardX", extra="tensorboard")
        # The names of the files tell only the second; the suffix keeps a quick resume from replacing one.
        options = (
            {} if resumed_at is None else {"purge_step": resumed_at + 1, "filename_suffix": f".{resumed_at}"}
        )
        self._writers = {
            seed: module.SummaryWriter(str(folder / f"seed-{seed}"), **options) for seed in seeds
        }

    @staticmethod
    def installed() -> bool:
        """Whether the extra that this needs is there."""
        return importlib.util.find_spec("tensorboardX") is not None

    def append(self, values: Mapping[str, Any]) -> None:
        """Adds a point to each curve of each seed; takes what `MetricsFile.append` takes."""
        for row in by_seed(values):
            for name in (name for name in row if name not in WHOLE and not _empty(row[name])):
                self._writers[row["seed"]].add_scalar(name, row[name], row["frames"])

    def close(self) -> None:
        """Writes what is left and closes the files."""
        for writer in self._writers.values():
            writer.close()


def read(path: Path) -> dict[str, np.ndarray]:
    """The columns of a metrics file: `seed` and `frames` as int64, others as float64, NaN where empty."""
    header, lines = _lines(path)
    fields = [line.rstrip("\n").split(",") for line in lines]
    kinds = [np.int64 if name in WHOLE else np.float64 for name in header]
    try:
        return {
            name: np.array([kind(row[place] or "nan") for row in fields], kind)
            for place, (name, kind) in enumerate(zip(header, kinds, strict=True))
        }
    except ValueError as error:
        raise GobiError(f"{path} is damaged: {error}") from None


def compare(path_a: Path, path_b: Path, ignore: Sequence[str] = TIMINGS) -> list[str]:
    """Where two metrics files differ, bit for bit, one line for each field; nothing if they do not."""
    (header_a, lines_a), (header_b, lines_b) = _lines(path_a), _lines(path_b)
    if header_a != header_b:
        return [f"columns: {_first_difference(header_a, header_b)}"]
    found = [f"rows: {len(lines_a)} and {len(lines_b)}"] if len(lines_a) != len(lines_b) else []
    for number, (a, b) in enumerate(zip(lines_a, lines_b, strict=False), start=2):
        fields = zip(header_a, a.rstrip("\n").split(","), b.rstrip("\n").split(","), strict=True)
        differing = [(name, x, y) for name, x, y in fields if x != y and name not in ignore]
        found += [f"line {number}, {name}: {x or 'empty'} and {y or 'empty'}" for name, x, y in differing]
    return found


def by_seed(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row of plain numbers for each seed, from values that are one for each seed or one for all."""
    arrays = {name: np.asarray(value) for name, value in jax.device_get(dict(values)).items()}
    for name in WHOLE:
        if name not in arrays:
            raise GobiError(f"metrics must say their {name}")
        if not np.issubdtype(arrays[name].dtype, np.integer):
            raise GobiError(f"the metric {name} must be whole numbers, got {arrays[name].dtype}")
    seeds = np.atleast_1d(arrays["seed"]).shape
    for name, array in arrays.items():
        if array.shape not in ((), seeds):
            raise GobiError(f"the metric {name} has shape {array.shape}, but there are {seeds[0]} seeds")
    lists = {name: np.broadcast_to(array, seeds).tolist() for name, array in arrays.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _lines(path: Path) -> tuple[tuple[str, ...], list[str]]:
    """The header and the whole lines of a file; the last may have been cut off when the process ended."""
    if not path.is_file():
        raise GobiError(f"no metrics at {path}")
    *whole, _cut_off = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    if not whole:
        return (), []
    header = tuple(whole[0].split(","))
    if not set(WHOLE) <= set(header):
        raise GobiError(f"{path} is not a metrics file: it has no columns {' and '.join(WHOLE)}")
    places = [header.index(name) for name in WHOLE]
    for number, line in enumerate(whole[1:], start=2):
        fields = line.split(",")
        if len(fields) != len(header) or not all(fields[place].isdecimal() for place in places):
            raise GobiError(f"{path} is damaged in line {number}")
    return header, [line + "\n" for line in whole[1:]]


def _line(fields: Iterable[Any]) -> str:
    return ",".join(map(_text, fields)) + "\n"


def _text(field: Any) -> str:
    if _empty(field):
        return ""
    if isinstance(field, bool):
        return str(int(field))
    if isinstance(field, float) and float(np.float32(field)) == field:
        # The shortest text that reads as the same float32: half as long as that for the same float64.
        return str(np.float32(field))
    return str(field)


def _empty(field: Any) -> bool:
    return field is None or (isinstance(field, float) and math.isnan(field))


def _first_difference(a: Sequence[str], b: Sequence[str]) -> str:
    for x, y in zip(a, b, strict=False):
        if x != y:
            return f"'{x}' and '{y}'"
    return f"{len(a)} and {len(b)} of them"
