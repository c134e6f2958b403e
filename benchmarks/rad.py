"""Updates per second of RAD from pixels, and where the time goes.

    python benchmarks/rad.py --csv rad.csv
    python benchmarks/rad.py --small

A replay full of frames on the device; every second update is full (actor, temperature and target too), and
sampling and update are one compiled function, as in training. Columns, in milliseconds: `whole` is the mean
of both kinds of update, `critic` and `full` one kind alone; `sample_crop` draws a batch and cuts both
observations out of the replay, compiled by itself, and `update` is `whole` without it. `tf32` is float32 as
JAX multiplies it on a GPU unless told otherwise; on a CPU it is the same as `float32`.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gobi.agents.rad import RAD, Learner, Replay, crops, empty
from gobi.types import Spec

PRECISIONS = ("float32", "tf32", "bfloat16")
EPISODE = 501
"""Frames of an episode."""


@dataclasses.dataclass(frozen=True)
class Size:
    """What is timed."""

    side: int = 100
    crop: int = 84
    hidden: int = 1024
    channels: int = 32
    batch: int = 512
    slots: int = 100_000
    updates: int = 200
    repeats: int = 5


SMALL = Size(side=20, crop=16, hidden=16, channels=4, batch=8, slots=64, updates=4, repeats=2)


def main() -> None:
    """Measures every precision."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS)
    parser.add_argument("--small", action="store_true", help="a few updates of a small network")
    parser.add_argument("--actions", type=int, default=6)
    for field in dataclasses.fields(Size):
        parser.add_argument(f"--{field.name}", type=int, help=f"{field.default} unless told otherwise")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    told = {field.name: getattr(options, field.name) for field in dataclasses.fields(Size)}
    size = dataclasses.replace(
        SMALL if options.small else Size(), **{name: value for name, value in told.items() if value}
    )
    print(f"{jax.devices()[0].device_kind}, batch {size.batch}, {size.side}x{size.side} to {size.crop}")
    spec = Spec("benchmark", (size.side, size.side, 3), "uint8", 0, EPISODE - 1, options.actions)
    replay = jax.block_until_ready(full_replay(size.slots, spec))
    state = jax.jit(lambda key: rad_of("float32", size).init(key, spec))(jax.random.key(0))
    rows = []
    for precision in options.precisions or (("float32", "bfloat16") if options.small else PRECISIONS):
        with jax.default_matmul_precision("highest" if precision == "float32" else "default"):
            rows.append(measure(precision, size, replay, jax.tree.map(jnp.copy, state)))
        print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def full_replay(slots: int, spec: Spec) -> Replay:
    """A replay after so many frames of whole episodes."""
    numbers = np.arange(slots)
    starts = numbers[(numbers + 1) % EPISODE != 0][:-1]

    def listed(values: np.ndarray) -> jax.Array:
        return jnp.full(slots, -1, jnp.int32).at[: len(values)].set(jnp.asarray(values, jnp.int32))

    @jax.jit
    def filled() -> Replay:
        bare = empty(slots, spec)
        # One frame's noise, brighter from slot to slot: random numbers for all of them would take their time.
        noise = jax.random.bits(jax.random.key(0), spec.observation_shape, jnp.uint8)
        shades = jnp.arange(slots, dtype=jnp.uint8)[:, None, None, None]
        return dataclasses.replace(
            bare,
            frames=noise + shades,
            first=jnp.asarray(numbers - numbers % EPISODE, jnp.int32),
            action=jnp.sin(jnp.arange(bare.action.size, dtype=jnp.float32)).reshape(bare.action.shape),
            reward=jnp.cos(jnp.arange(slots, dtype=jnp.float32)),
            starts=listed(starts),
            origins=listed(starts - starts % EPISODE),
            written=jnp.int32(slots),
            transitions=jnp.int32(len(starts)),
        )

    return filled()


def rad_of(precision: str, size: Size) -> RAD:
    """The learner that is timed."""
    return RAD(
        hidden=size.hidden,
        channels=size.channels,
        crop=size.crop,
        precision="bfloat16" if precision == "bfloat16" else "float32",
    )


def measure(precision: str, size: Size, replay: Replay, state: Learner) -> dict[str, Any]:
    """One precision: updates per second, and milliseconds of the parts."""
    rad = rad_of(precision, size)

    @functools.partial(jax.jit, static_argnames="full", donate_argnums=0)
    def update(state, replay, key, full):
        sample_key, update_key = jax.random.split(key)
        drawn = replay.sample(sample_key, size.batch, rad.stack)
        return rad.update(state, update_key, drawn, drawn.reward, full=full, replay=replay)[0]

    @jax.jit
    def sample_crop(replay, key):
        return _sample_crop(rad, replay, key, size.batch)

    begun = time.perf_counter()
    for full in (True, False):
        state = update(state, replay, _key(0), full=full)
    jax.block_until_ready(state)
    compiling = time.perf_counter() - begun
    whole, state = timed(lambda n, state: update(state, replay, _key(n), full=rad.is_full(n)), state, size)
    critic, state = timed(lambda n, state: update(state, replay, _key(n), full=False), state, size)
    full, state = timed(lambda n, state: update(state, replay, _key(n), full=True), state, size)
    drawing, _ = timed(lambda n, _: sample_crop(replay, _key(n)), None, size)
    seconds = {
        "whole": whole,
        "critic": critic,
        "full": full,
        "sample_crop": drawing,
        "update": whole - drawing,
    }
    return {
        "precision": precision,
        "updates_per_second": round(1 / whole, 1),
        **{f"{name}_ms": round(1000 * value, 3) for name, value in seconds.items()},
        "compile_seconds": round(compiling, 1),
    }


def timed(step: Callable[[int, Any], Any], state: Any, size: Size) -> tuple[float, Any]:
    """Seconds of one step, the median of several rounds after one to warm up, and the last state."""
    times = []
    for _ in range(size.repeats + 1):
        begun = time.perf_counter()
        for number in range(size.updates):
            state = step(number, state)
        jax.block_until_ready(state)
        times.append((time.perf_counter() - begun) / size.updates)
    return statistics.median(times[1:]), state


def _sample_crop(rad: RAD, replay: Replay, key: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
    sample_key, before_key, after_key = jax.random.split(key, 3)
    slots = replay.around(replay.sample(sample_key, n, rad.stack).index, rad.stack)
    side = replay.frames.shape[1]
    room = (side - rad.crop, side - rad.crop)
    before = crops.cropped(replay.frames, slots[:, :-1], crops.random_corners(before_key, n, room), rad.crop)
    after = crops.cropped(replay.frames, slots[:, 1:], crops.random_corners(after_key, n, room), rad.crop)
    return before, after


@functools.cache
def _key(number: int) -> jax.Array:
    return jax.random.key(number)


if __name__ == "__main__":
    main()
