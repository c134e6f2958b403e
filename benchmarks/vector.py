"""Steps per second of `gobi.vector` and of Gymnasium's vectors of Farama's `minigrid`, in one run.

    python benchmarks/vector.py                                       # 1, 16 and 256 environments
    python benchmarks/vector.py --task ObstructedMaze-Full-v1 --num-envs 16 1024

Random actions, given as a loop on the host gives them. Ended episodes start again on new levels, whose making
is part of what is timed. "gobi.vector" hands out NumPy arrays each step; "to jax" leaves them on the device,
and only the last one is waited for. Every row is the best of several runs, so that a noisy neighbour does not
count.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib.metadata
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import numpy as np
import tyro
from minigrid.wrappers import ImgObsWrapper
from rich.console import Console
from rich.table import Table

import gobi
from gobi.envs.minigrid import oracle, registry

SYNC, ASYNC = "SyncVectorEnv", "AsyncVectorEnv"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    task: str = "MiniGrid-KeyCorridorS3R3-v0"
    """The task to run."""
    num_envs: tuple[int, ...] = (1, 16, 256)
    """Numbers of environments side by side."""
    seconds: float = 1.0
    """How long a run takes, about."""
    repeats: int = 3
    """Runs per row; the best one counts."""
    most_processes: int = 64
    """AsyncVectorEnv starts a process for every environment: left out where there are more."""
    csv: str = ""
    """Also write the table to this file."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement."""

    what: str
    num_envs: int
    steps_per_second: float
    step_us: float
    start_s: float


@dataclasses.dataclass
class Contender:
    """An environment that is ready to be measured."""

    what: str
    num_envs: int
    env: Any
    start_s: float
    best: float = float("inf")

    @property
    def row(self) -> Row:
        """The best run so far."""
        return Row(self.what, self.num_envs, self.num_envs / self.best, self.best * 1e6, self.start_s)


def started(what: str, num_envs: int, made: Callable[[], Any]) -> Contender:
    """Makes an environment and plays its first step, compilation included."""
    start = time.perf_counter()
    env = made()
    env.reset(seed=0)
    np.asarray(env.step(np.zeros(num_envs, np.int64))[0])
    return Contender(what, num_envs, env, time.perf_counter() - start)


def run(env: Any, actions: np.ndarray, seconds: float) -> float:
    """Seconds for a step of all environments, on average over a run of so many seconds."""
    start, count, outputs = time.perf_counter(), 0, None
    while time.perf_counter() - start < seconds:
        for _ in range(8):
            outputs = env.step(actions[count % len(actions)])
            count += 1
    # A step that stays on the device may still be under way.
    np.asarray(outputs[0] if outputs else None)
    return (time.perf_counter() - start) / count


def farama(task: str, num_envs: int, kind: str) -> Any:
    """Gymnasium's vector environment over Farama's."""

    def one() -> Any:
        return ImgObsWrapper(oracle.new_farama(gobi.make(task)))

    return getattr(gymnasium.vector, kind)([one] * num_envs)


def contenders(settings: Settings) -> list[Contender]:
    """All that is measured. Farama's come first: a process must not be forked once JAX runs threads."""
    task, found = registry.find(settings.task), []
    for kind in (ASYNC, SYNC):
        for count in settings.num_envs:
            if kind == SYNC or count <= settings.most_processes:
                found.append(started(kind, count, lambda c=count, k=kind: farama(task, c, k)))
    for what, to in (("gobi.vector", "numpy"), ("gobi.vector, to jax", "jax")):
        for count in settings.num_envs:
            found.append(started(what, count, lambda c=count, t=to: gobi.vector(task, c, to=t)))
    return found


def rows(settings: Settings) -> list[Row]:
    """All measurements, in rounds: what else the machine does meanwhile hits everybody alike."""
    found = contenders(settings)
    for _ in range(settings.repeats):
        for one in found:
            actions = np.random.default_rng(0).integers(0, 7, (1024, one.num_envs))
            one.best = min(one.best, run(one.env, actions, settings.seconds))
    for one in found:
        one.env.close()
    return [one.row for one in found]


def show(console: Console, found: list[Row], settings: Settings) -> None:
    """Prints the table, each rate also as a multiple of SyncVectorEnv's with as many environments."""
    versions = f"gymnasium {gymnasium.__version__}, minigrid {importlib.metadata.version('minigrid')}"
    device = f"{jax.devices()[0].device_kind}, {os.cpu_count()} cores"
    table = Table(title=f"{registry.find(settings.task)}: gobi {gobi.__version__}, {versions}, {device}")
    for name in ("environments", "what", "steps per second", "x Sync", "a step, us", "start, s"):
        table.add_column(name, justify="left" if name == "what" else "right")
    base = {row.num_envs: row.steps_per_second for row in found if row.what == SYNC}
    for row in sorted(found, key=lambda row: row.num_envs):
        table.add_row(
            f"{row.num_envs:,}",
            row.what,
            f"{row.steps_per_second:,.0f}",
            f"{row.steps_per_second / base[row.num_envs]:.2f}",
            f"{row.step_us:,.0f}",
            f"{row.start_s:.1f}",
        )
    console.print(table)


def main(settings: Settings) -> None:
    """Measures and prints one table."""
    console = Console(width=120)
    found = rows(settings)
    show(console, found, settings)
    if settings.csv:
        path = pathlib.Path(settings.csv)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in dataclasses.fields(Row)])
            writer.writeheader()
            writer.writerows(dataclasses.asdict(row) for row in found)
        console.print(f"written to {path}")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
