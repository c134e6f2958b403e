"""Steps per second of the whole training loop, where the time goes, and how far that is from the floor.

    python benchmarks/training.py --learners impala ppo --seeds 1 4 --parts --csv training.csv
    python benchmarks/training.py --rewards all

Recipes are those of `gobi train`: on a CPU its small networks, on a card the recipe's own. Each case has a
new process, is compiled there with nothing kept from before, run once to warm up, and timed over `--updates`
updates, several times; the median counts. With `--processes 2` two such processes run at once, each on its
share of the cores, and their steps per second are added up.

The floor is the time that the matrix products of an update would take at the rate of large products on the
same cores. `--parts` times acting, views and bonus, world metrics, learning and episode statistics by
themselves as well, on the same inputs; they need not add up to the whole, since the compiler joins what
stands side by side. `times_none` is the time beside training without a bonus, where the file has that too.

The world model is not trained here: that changes no shape, but a rollout's different states are imagined from
once, and how many there are depends on the policy. With `--csv`, cases that the file has are not measured
again, so that the same command goes on with what was stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import itertools
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from operations import counted, product_rate  # beside this file
from training_parts import PARTS, parts

import gobi
from gobi.cli.terminal import show
from gobi.cli.train import choose
from gobi.envs.minigrid import make_bank
from gobi.rewards.registry import REWARDS
from gobi.training import assembly
from gobi.training import loop as loops
from gobi.training.recipe import Recipe
from gobi.worlds import from_settings

Row = dict[str, Any]

SUMMED = ("cores", "steps_per_second", "peak_mib", "program_mib", "gflops_measured")
"""What processes that run at once have together."""
SHOWN = (
    *("learner", "reward", "seeds", "processes", "steps_per_second", "ms_per_update", "times_none"),
    *("ms_floor", "times_floor", "compile_seconds", "peak_mib"),
)
LONGEST_WAIT = 1800.0
"""Seconds that a process waits for those beside it to be compiled."""


def main() -> None:
    """Measures every combination of the arguments."""
    options = arguments()
    rewards = [*REWARDS, "real"] if options.rewards == ["all"] else options.rewards
    settings = (*options.settings, *([f"network={options.network}"] if options.network else []))
    cases = [
        Case(options.task, learner, reward, seeds, precision, tuple(settings), processes)
        for learner, seeds, processes, precision, reward in itertools.product(
            options.learners, options.seeds, options.processes, options.precisions, rewards
        )
    ]
    rows = read(options.csv)
    known = {tuple(row[name] for name in KEYS) for row in rows}
    for number, case in enumerate(cases, start=1):
        if case.key in known:
            continue
        print(f"{number} of {len(cases)}: {case.in_words}", flush=True)
        try:
            measures = together(case, options.updates, options.repeats, options.parts)
        except Exception as error:
            print(f"failed: {type(error).__name__}: {error}", flush=True)
            continue
        rows.append(case.columns | measures)
        beside_none(rows)
        print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
        write(options.csv, rows)
    keys = [case.key for case in cases]
    tell([row for row in rows if tuple(str(row[name]) for name in KEYS) in keys])


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="MiniGrid-ObstructedMaze-2Dlh-v0")
    parser.add_argument("--learners", nargs="+", default=["impala"])
    parser.add_argument("--rewards", nargs="+", default=["none", "gobi", "real"], help="all: every one")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="side by side in a process")
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1], help="at once, a share of cores each"
    )
    parser.add_argument("--precisions", nargs="+", default=["float32"])
    parser.add_argument("--network", help="of the policy, if not the one that `gobi train` takes here")
    parser.add_argument("--set", nargs="+", default=[], dest="settings", metavar="FIELD=VALUE")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--parts", action="store_true", help="where the time of an update goes")
    parser.add_argument("--csv", type=Path)
    return parser.parse_args()


@dataclasses.dataclass(frozen=True)
class Case:
    """What is timed.

    reward:     an id of `gobi rewards`, or real: GoBI with the simulator as its world.
    seeds:      side by side in each process.
    settings:   further fields of the recipe.
    processes:  how many run at once.
    """

    task: str
    learner: str
    reward: str
    seeds: int
    precision: str
    settings: tuple[str, ...] = ()
    processes: int = 1

    @property
    def recipe(self) -> Recipe:
        """What `gobi train` would do with it on this machine."""
        given = Recipe.read_settings(self.settings)
        world = {"world": "real"} if self.reward == "real" else {}
        reward = "gobi" if self.reward == "real" else self.reward
        named = {"learner": self.learner, "reward": reward, "precision": self.precision, **world}
        recipe = choose(self.task, "gobi", {**named, **given})
        assert isinstance(recipe, Recipe)
        return recipe

    @property
    def columns(self) -> Row:
        """The case as the first columns of its row."""
        return dataclasses.asdict(self) | {"settings": " ".join(self.settings)}

    @property
    def key(self) -> tuple[str, ...]:
        """What tells its row from others in a file."""
        return tuple(str(self.columns[name]) for name in KEYS)

    @property
    def in_words(self) -> str:
        """What is worth saying before it is measured."""
        words = f"{self.task}, {self.learner}, reward {self.reward}, seeds {self.seeds}, {self.precision}"
        return f"{words}, processes {self.processes} {' '.join(self.settings)}".strip()


KEYS = tuple(field.name for field in dataclasses.fields(Case))


def together(case: Case, updates: int, repeats: int, in_parts: bool) -> Row:
    """The case's processes at once, new ones, each on its share of the cores; what they measured."""
    context = multiprocessing.get_context("spawn")
    meeting = context.Barrier(case.processes)
    with contextlib.ExitStack() as stack:
        measuring = [
            stack.enter_context(
                ProcessPoolExecutor(1, context, initializer=settle, initargs=(cores, meeting))
            ).submit(measure, case, updates, repeats, in_parts)
            for cores in shares(case.processes)
        ]
        rows = [process.result() for process in measuring]
    if len(rows) == 1:
        return rows[0]
    return {name: joined(name, [row[name] for row in rows]) for name in rows[0]}


def joined(name: str, values: Sequence[Any]) -> Any:
    """One value of the processes that ran at once: what they have together, or the mean; words are alike."""
    if not all(isinstance(value, int | float) for value in values):
        return values[0]
    return round(sum(values), 1) if name in SUMMED else round(statistics.mean(values), 2)


def shares(processes: int) -> list[frozenset[int] | None]:
    """The cores of each process; None leaves it free to use what it finds."""
    if processes == 1:
        return [None]
    cores = usable_cores()
    if processes > len(cores):
        sys.exit(f"{processes} processes need a core each, and there are {len(cores)}")
    return [frozenset(cores[number::processes]) for number in range(processes)]


_MEETING: list[Any] = []
"""Of a measuring process: where it waits for those beside it."""


def usable_cores() -> list[int]:
    """The cores that this process may use; all of them where a system has no such choice."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def settle(cores: frozenset[int] | None, meeting: Any) -> None:
    """Of a new process: its cores, before anything counts them; programs compiled before are not taken up."""
    if cores:
        os.sched_setaffinity(0, cores)
    jax.config.update("jax_enable_compilation_cache", False)
    _MEETING.append(meeting)


def measure(case: Case, updates: int, repeats: int, in_parts: bool) -> Row:
    """Of a measuring process: the case. One that fails does not keep the others waiting."""
    try:
        return measured(case, updates, repeats, in_parts, lambda: _MEETING[0].wait(LONGEST_WAIT))
    except BaseException:
        _MEETING[0].abort()
        raise


def measured(
    case: Case, updates: int, repeats: int, in_parts: bool, meet: Callable[[], object] = lambda: None
) -> Row:
    """Steps per second in total, milliseconds per update, memory, the floor, and the parts if asked for.

    meet:  waits until those beside this one are as far.
    """
    loop, (reward, knobs, bank, state) = begin(case)
    begun = time.perf_counter()
    run = jax.jit(several(loop, updates), donate_argnums=3)
    compiled = run.lower(reward, knobs, bank, state).compile()
    compiling = time.perf_counter() - begun
    meet()
    times = []
    for _ in range(repeats + 1):
        begun = time.perf_counter()
        state, metrics = compiled(reward, knobs, bank, state)
        jax.block_until_ready(metrics)
        times.append(time.perf_counter() - begun)
    each = statistics.median(times[1:]) / updates
    row: Row = {
        "device": jax.devices()[0].device_kind,
        "cores": len(usable_cores()),
        "frames_per_update": case.seeds * loop.frames_per_update,
        "steps_per_second": round(case.seeds * loop.frames_per_update / each),
        "ms_per_update": round(1000 * each, 2),
        "compile_seconds": round(compiling, 1),
        "peak_mib": round(peak_memory() / 2**20),
        "program_mib": round(program_memory(compiled) / 2**20),
    }
    meet()
    rate = product_rate(jnp.dtype(case.precision))
    operations = counted(several(loop, 1), reward, knobs, bank, state)
    row |= {
        "gflop_per_update": round(operations / 1e9, 3),
        "gflops_measured": round(rate / 1e9, 1),
        "ms_floor": round(1000 * operations / rate, 2),
        "times_floor": round(each * rate / operations, 1) if operations else "",
    }
    if in_parts:
        meet()
        row |= parts(loop, reward, knobs, bank, state, rate)
    return row


def begin(case: Case) -> tuple[loops.Loop, tuple[Any, ...]]:
    """The loop, and reward, knobs, bank and state for it."""
    env, recipe = gobi.make(case.task), case.recipe
    network = None
    if recipe.imagines and recipe.world == "learned":
        network = from_settings(assembly.model_settings(recipe), jax.random.key(0))
    reward = assembly.reward(recipe, env, network)
    loop, knobs = loops.loop(env, recipe), loops.knobs(recipe)
    banks = [make_bank(env, seed, recipe.bank) for seed in range(case.seeds)]
    bank = jax.tree.map(lambda *parts: jnp.stack(parts), *banks)
    keys = jax.vmap(jax.random.key)(jnp.arange(case.seeds))
    state = jax.jit(jax.vmap(lambda bank, key: loop.init(reward, bank, key)))(bank, keys)
    return loop, (reward, knobs, bank, state)


def several(loop: loops.Loop, updates: int) -> Callable[..., Any]:
    """Some updates of all seeds as one function of reward, knobs, bank and state."""

    def run(reward, knobs, bank, state):
        if updates == 1:
            return jax.vmap(lambda bank, state: loop.update(reward, knobs, bank, state))(bank, state)
        return jax.vmap(lambda bank, state: loop.updates(reward, knobs, bank, state, updates))(bank, state)

    return run


def peak_memory() -> int:
    """The most bytes so far: on the device where that says so, else of this process, compiling included."""
    if on_device := jax.devices()[0].memory_stats():
        return on_device["peak_bytes_in_use"]
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss of a process begins with what its parent had.
        (most,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(most.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def program_memory(compiled: Any) -> int:
    """Bytes that a compiled program works with: its inputs, outputs, and what lies between."""
    found = compiled.memory_analysis()
    sizes = found.argument_size_in_bytes, found.output_size_in_bytes, found.temp_size_in_bytes
    return sum(sizes) - found.alias_size_in_bytes


def read(path: Path | None) -> list[Row]:
    """The rows of a file, if there is one."""
    if path is None or not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path | None, rows: Sequence[Row]) -> None:
    """All rows; fields that a row has not stay empty."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list({name: None for row in rows for name in row}))
        writer.writeheader()
        writer.writerows(rows)


def beside_none(rows: Sequence[Row]) -> None:
    """Adds how much longer each takes than the same without a bonus."""

    def alike(row: Row) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in KEYS if name != "reward")

    bare = {alike(row): float(row["ms_per_update"]) for row in rows if row["reward"] == "none"}
    for row in rows:
        if alike(row) in bare:
            row["times_none"] = round(float(row["ms_per_update"]) / bare[alike(row)], 2)


def tell(rows: Sequence[Row]) -> None:
    """The tables: of whole updates, and of their parts."""
    if not rows:
        return
    print()
    show([[str(row.get(name, "")) for name in SHOWN] for row in rows], SHOWN, SHOWN[2:])
    names = [f"{kind}_{part}" for part in PARTS for kind in ("ms", "floor")]
    in_parts = [row for row in rows if row.get(names[0], "") != ""]
    if in_parts:
        print("\nmilliseconds of an update's parts, and of their products alone at the measured rate")
        columns = (*SHOWN[:4], *names)
        show([[str(row[name]) for name in columns] for row in in_parts], columns, columns[2:])


if __name__ == "__main__":
    main()
