"""How fast the environments step: ours, Farama's `minigrid`, and the peers that are installed, in one run.

    python benchmarks/env_throughput.py                        # the paper's twelve tasks
    python benchmarks/env_throughput.py --tasks KeyCorridorS6R3 --lanes 32 2048

Random actions, the agent's view, rewards and the restart of ended episodes are part of what is timed. Our
lanes restart from a bank that is not refilled meanwhile: the note says how many of the levels were distinct,
and the rows "gobi levels" how fast new ones are made. The others make a new level
at each restart. Every row is the best of several runs, so that a noisy neighbour does not count.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib.metadata
import pathlib
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import peers
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

import gobi
from gobi.envs.minigrid import PAPER_TASKS, Stepper, make_bank, oracle, refill, registry
from gobi.envs.minigrid.bank import queue

UNROLL = 100


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    tasks: tuple[str, ...] = PAPER_TASKS
    """Tasks to run."""
    lanes: tuple[int, ...] = (32, 2048, 8192, 32768)
    """Numbers of environments side by side."""
    bank: int = 4096
    """Levels in the bank."""
    repeats: int = 5
    """Rollouts per row; the best one counts."""
    farama_steps: int = 1000
    """Steps in a run of Farama's environment; 0 leaves it out."""
    peers: bool = True
    """Also run NAVIX, XLand-MiniGrid and EnvPool where they are installed and have the task."""
    csv: str = ""
    """Also write the table to this file."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement."""

    task: str
    what: str
    lanes: int
    steps_per_second: float
    rollout_ms: float
    compile_s: float
    note: str = ""


def best_time(run: Callable[[int], object], repeats: int) -> tuple[float, float]:
    """Seconds of the first call (with compilation) and of the best later one."""
    start = time.perf_counter()
    jax.block_until_ready(run(0))
    first = time.perf_counter() - start
    times = []
    for number in range(1, repeats + 1):
        start = time.perf_counter()
        jax.block_until_ready(run(number))
        times.append(time.perf_counter() - start)
    return first, min(times)


def ours(task: str, lanes: int, bank, settings: Settings) -> Row:
    """Our stepper: the observations of the whole rollout are stored, as a learner needs them."""
    env = gobi.make(task)
    stepper = Stepper(env, lanes)
    state = [jax.jit(stepper.reset)(bank)[0]]

    @jax.jit
    def rollout(bank, lanes_now, key):
        actions = jax.random.randint(key, (UNROLL, lanes), 0, env.spec.num_actions, jnp.int32)

        def step(carry, action):
            carry, out = stepper.step(bank, carry, action)
            return carry, (out.observation, out.reward, out.terminated, out.truncated)

        return jax.lax.scan(step, lanes_now, actions)

    def run(number: int):
        state[0], out = rollout(bank, state[0], jax.random.key(number))
        return out

    first, best = best_time(run, settings.repeats)
    place = state[0].queue
    note = f"{int(place.distinct):,} distinct levels of {int(place.taken):,}"
    return Row(task, "gobi", lanes, lanes * UNROLL / best, best * 1e3, first - best, note)


def our_bank(task: str, settings: Settings):
    """The bank for a task, and a row with how fast it is refilled."""
    env = gobi.make(task)
    start = time.perf_counter()
    bank = jax.block_until_ready(make_bank(env, 0, settings.bank))
    filled = time.perf_counter() - start
    again = jax.jit(lambda bank, place: refill(env, bank, place))
    empty = dataclasses.replace(queue(bank), fresh=jnp.int32(0))
    start = time.perf_counter()
    jax.block_until_ready(again(bank, empty))
    compiling = time.perf_counter() - start
    made, start = 0, time.perf_counter()
    while made < 64 or time.perf_counter() - start < 1.0:
        bank, place = again(bank, empty)
        made += int(place.fresh)
    rate = made / (time.perf_counter() - start)
    note = f"{int(bank.fresh):,} levels filled in {filled:.1f} s"
    return bank, Row(task, "gobi levels", bank.capacity, rate, 0.0, compiling, note)


def farama(task: str, settings: Settings) -> Row:
    """Farama's environment in one process, reset when an episode ends."""
    env = oracle.new_farama(gobi.make(task))
    env.reset(seed=0)
    random = np.random.default_rng(0)

    def run(number: int) -> None:
        del number
        for action in random.integers(0, env.action_space.n, settings.farama_steps):
            *_, terminated, truncated, _ = env.step(int(action))
            if terminated or truncated:
                env.reset()

    _, best = best_time(run, settings.repeats)
    version = importlib.metadata.version("minigrid")
    return Row(task, f"minigrid {version}", 1, settings.farama_steps / best, 0.0, 0.0)


def peer_rows(task: str, settings: Settings) -> list[Row]:
    """The installed peers that have this task under the same name."""
    rows = []
    for peer in peers.installed():
        for lanes in settings.lanes:
            run = peer.rollout(task, lanes, UNROLL)
            if run is None:
                break
            first, best = best_time(run, settings.repeats)
            rows.append(
                Row(task, peer.name, lanes, lanes * UNROLL / best, best * 1e3, first - best, peer.note)
            )
    return rows


def show(console: Console, rows: list[Row]) -> None:
    """Prints the table, each rate also as a multiple of Farama's on the same task."""
    device = jax.devices()[0]
    table = Table(title=f"gobi {gobi.__version__}, jax {jax.__version__}, {device.device_kind}")
    for name in ("task", "what", "lanes", "per second", "x Farama", "100 steps, ms", "compile, s", "note"):
        table.add_column(name, justify="left" if name in ("task", "what", "note") else "right")
    base = {row.task: row.steps_per_second for row in rows if row.what.startswith("minigrid")}
    for row in rows:
        is_steps = row.what != "gobi levels"
        ratio = row.steps_per_second / base[row.task] if is_steps and row.task in base else 0.0
        table.add_row(
            row.task.removeprefix("MiniGrid-"),
            row.what,
            f"{row.lanes:,}",
            f"{row.steps_per_second:,.0f}",
            f"{ratio:,.0f}" if ratio else "",
            f"{row.rollout_ms:.2f}" if row.rollout_ms else "",
            f"{row.compile_s:.1f}" if row.compile_s else "",
            row.note,
        )
    console.print(table)


def main(settings: Settings) -> None:
    """Measures every task and prints one table."""
    console = Console(width=150)
    rows: list[Row] = []
    for name in track(
        [registry.find(task) for task in settings.tasks], "measuring", console=Console(stderr=True)
    ):
        if settings.farama_steps:
            rows.append(farama(name, settings))
        bank, row = our_bank(name, settings)
        rows.append(row)
        rows.extend(ours(name, lanes, bank, settings) for lanes in settings.lanes)
        if settings.peers:
            rows.extend(peer_rows(name, settings))
    show(console, rows)
    if settings.csv:
        path = pathlib.Path(settings.csv)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in dataclasses.fields(Row)])
            writer.writeheader()
            writer.writerows(dataclasses.asdict(row) for row in rows)
        console.print(f"written to {path}")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
