"""What the memories cost per rollout as they fill: flat is the point.

    python benchmarks/memory.py --csv memory.csv                          # to ten million codes: for a GPU
    python benchmarks/memory.py --counted 100000 400000 --steps 0 1000    # seconds on a laptop

A rollout is 100 steps of 32 environments with 7 codes each. The episodic set is timed as an episode gets
longer, the lifelong counts (one code per step) as more different codes are in the table; tables are sized
once, for the last row. Half of the codes that come have come before (none where an episode has only begun).
Each row is the best of several runs, and a run is a series of calls on changing codes with one wait for the
device at its end; memories are donated, as in training.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import tyro
from rich.console import Console
from rich.table import Table

import gobi
from gobi.memory import counts, episodic, exact

FILLING = 2**16


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    counted: tuple[int, ...] = tuple(million * 1_000_000 for million in range(1, 11))
    """Different codes in the lifelong counts."""
    steps: tuple[int, ...] = (0, 500, 1000, 2000, 4000, 8000)
    """Lengths of the episode so far, in steps."""
    unroll: int = 100
    """Steps in a rollout."""
    envs: int = 32
    """Environments side by side."""
    codes: int = 7
    """Codes per step in the episodic set."""
    calls: int = 10
    """Rollouts in a run."""
    repeats: int = 5
    """Runs per row; the best one counts."""
    csv: str = ""
    """Also write the table to this file."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement."""

    memory: str
    filled: int
    slots: int
    load: float
    ms_per_rollout: float
    dropped: int


def numbered(numbers: jax.Array) -> jax.Array:
    """Codes for numbers."""
    return exact(numbers, ndim=0)


def best_time(call: Callable[[Any, Any], tuple[Any, Any]], memory: Any, batches: list, settings: Settings):
    """Milliseconds per call in the best run over the batches, and the memory afterwards."""
    best, per_run = float("inf"), settings.calls
    for run in range(settings.repeats + 1):
        chosen = batches[run * per_run : (run + 1) * per_run]
        jax.block_until_ready((memory, chosen))
        start = time.perf_counter()
        answer = None
        for batch in chosen:
            memory, answer = call(memory, batch)
        jax.block_until_ready((memory, answer))
        # The first run compiles.
        best = min(best, time.perf_counter() - start) if run else best
    return best / per_run * 1e3, memory


def half_known(key: jax.Array, shape: tuple[int, ...], known: int, fresh: int, number: int) -> jax.Array:
    """Numbers of which half, at random, are below `known`; the others begin at `fresh` and come only once."""
    which, old = jax.random.split(jax.random.fold_in(key, number))
    size = functools.reduce(int.__mul__, shape)
    new = jnp.uint32(fresh) + jnp.uint32(number * size) + jnp.arange(size, dtype=jnp.uint32).reshape(shape)
    draws = jax.random.randint(old, shape, 0, max(known, 1), jnp.int32).astype(jnp.uint32)
    return jnp.where(jax.random.bernoulli(which, 0.5, shape) | (known == 0), new, draws)


def lifelong_rows(settings: Settings) -> list[Row]:
    """The lifelong counts with more and more codes in them."""
    batch = settings.unroll * settings.envs
    timed = (settings.repeats + 1) * settings.calls
    memory = counts.empty(max(settings.counted) + timed * batch * len(settings.counted))

    @functools.partial(jax.jit, donate_argnums=0)
    def add(memory, codes):
        return counts.add(memory, codes, jnp.ones(codes.shape[0], bool))

    rows, filled = [], 0
    for row, target in enumerate(sorted(settings.counted)):
        while filled < target:
            numbers = jnp.arange(filled, filled + FILLING, dtype=jnp.uint32)
            memory, _ = add(memory, numbered(numbers))
            filled += FILLING
        key, fresh = jax.random.key(row), 2**31 + row * timed * batch
        batches = [numbered(half_known(key, (batch,), filled, fresh, number)) for number in range(timed)]
        used = int(memory.used)
        ms, memory = best_time(add, memory, batches, settings)
        rows.append(
            Row("lifelong", used, memory.num_slots, float(memory.load), ms, int(jnp.sum(memory.dropped)))
        )
    return rows


def episodic_rows(settings: Settings) -> list[Row]:
    """The episodic set with longer and longer episodes."""
    shape = (settings.unroll, settings.envs, settings.codes)
    timed = (settings.repeats + 1) * settings.calls
    # Each row times on its own copy of the episode so far, so that timing does not lengthen it.
    capacity = (max(settings.steps) + settings.unroll * timed) * settings.codes

    @functools.partial(jax.jit, donate_argnums=0)
    def insert(memory, codes):
        return episodic.insert(memory, codes, jnp.ones(shape, bool), jnp.zeros(shape[:2], bool))

    def whole(number: int) -> jax.Array:
        size = settings.unroll * settings.codes
        numbers = number * size + jnp.arange(size, dtype=jnp.uint32).reshape(
            settings.unroll, 1, settings.codes
        )
        return numbered(jnp.broadcast_to(numbers, shape))

    rows, memory, length = [], episodic.empty(settings.envs, capacity), 0
    for row, steps in enumerate(sorted(settings.steps)):
        while length < steps:
            memory, _ = insert(memory, whole(length // settings.unroll))
            length += settings.unroll
        known, key = length * settings.codes, jax.random.key(row)
        batches = [numbered(half_known(key, shape, known, 2**31, number)) for number in range(timed)]
        ms, after = best_time(insert, jax.tree.map(jnp.copy, memory), batches, settings)
        rows.append(Row("episodic", length, after.num_slots, float(after.load), ms, int(after.dropped)))
    return rows


def show(rows: list[Row]) -> None:
    """Prints the table."""
    device = jax.devices()[0]
    table = Table(title=f"gobi {gobi.__version__}, jax {jax.__version__}, {device.device_kind}")
    for name in ("memory", "codes, or steps so far", "slots", "load", "ms per rollout", "dropped"):
        table.add_column(name, justify="left" if name == "memory" else "right")
    for row in rows:
        table.add_row(
            row.memory,
            f"{row.filled:,}",
            f"{row.slots:,}",
            f"{row.load:.2f}",
            f"{row.ms_per_rollout:.3f}",
            f"{row.dropped:,}",
        )
    Console(width=110).print(table)


def main(settings: Settings) -> None:
    """Measures both memories and prints one table."""
    rows = [*episodic_rows(settings), *lifelong_rows(settings)]
    show(rows)
    if settings.csv:
        with open(settings.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(field.name for field in dataclasses.fields(Row)), "device"])
            writer.writerows([*dataclasses.astuple(row), jax.devices()[0].device_kind] for row in rows)


if __name__ == "__main__":
    main(tyro.cli(Settings))
