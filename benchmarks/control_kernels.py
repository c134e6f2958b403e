"""What a GPU does in each compiled call of training on a control task from pixels, kernel by kernel.

    python benchmarks/control_kernels.py --task dmc/hopper_hop --csv kernels.csv
    python benchmarks/control_kernels.py --small

For a gradient step (`update`), a lesson of the world model (`teach`), the settling of a step with its bonus
(`collect`), and an action (`act`), in milliseconds a call: `host` is what the host needs to hand it over,
`whole` what it takes if nothing else is done, `busy` what the device works for; where `whole` is far above
`busy`, it waits for its host. Then the kernels that take longest, those that differ in a number alone taken
together. Where there is no GPU there are no kernels to list.

At last `update` while another process draws frames of the task without a pause, and what a frame takes
there: graphics and computing take turns on a GPU, and what a frame costs an update is their difference by the
frames drawn meanwhile.
"""

from __future__ import annotations

import argparse
import collections
import csv
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
from control import SMALL, calls, filled
from jax.profiler import ProfileData

from gobi.training.control import assembly, recipes, seat
from gobi.training.control.recipe import ControlRecipe

TRACED = 10
"""Calls in a trace."""
IN_FLIGHT = 4
"""Calls that are handed over before the last is waited for, while frames are drawn."""
SHOWN = 12
"""Kernels of a call that are listed."""
DRAWING = """
import sys, time
from gobi.envs.dmc import Control
env = Control(sys.argv[1], seed=0, size=int(sys.argv[2]))
env.reset()
print("ready", flush=True)
sys.stdin.readline()
begun, frames = time.perf_counter(), 0
while time.perf_counter() - begun < float(sys.argv[3]):
    env.frame()
    frames += 1
print(frames, flush=True)
"""


def main() -> None:
    """Times and traces every call."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="dmc/hopper_hop")
    parser.add_argument("--reward", default="gobi")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--repeats", type=int, default=40, help="calls that are timed")
    parser.add_argument("--seconds", type=float, default=3.0, help="of updates while frames are drawn")
    parser.add_argument("--small", action="store_true", help="a small network and small frames")
    parser.add_argument("--csv", type=Path, help="times and all kernels of all calls")
    options = parser.parse_args()
    recipe = recipes.recipe(
        options.task,
        reward=options.reward,
        precision=options.precision,
        random_steps=100,
        world_prefill=200,
        **(SMALL if options.small else {}),
    )
    rows: list[dict[str, Any]] = []
    found = made(recipe)
    for name, call in found.items():
        host, whole = timed(call, options.repeats)
        kernels = traced(call)
        rows += [
            {"call": name, "kernel": f"({what})", "milliseconds": round(taken, 4), "count": 1}
            for what, taken in (("host", host), ("whole", whole))
        ]
        busy = sum(kernel["milliseconds"] for kernel in kernels)
        count = sum(kernel["count"] for kernel in kernels)
        told = f"  busy {busy:.3f} in {count:.0f} kernels" if kernels else ""
        print(f"{name}: host {host:.3f}  whole {whole:.3f}{told}", flush=True)
        for kernel in kernels[:SHOWN]:
            print(f"    {kernel['milliseconds']:.3f} ms in {kernel['count']:g}: {kernel['kernel']}")
        rows += [{"call": name, **kernel} for kernel in kernels]
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["call", "kernel", "milliseconds", "count"])
            writer.writeheader()
            writer.writerows(rows)
    beside_drawing(recipe, found["update"], options.seconds)


def made(recipe: ControlRecipe) -> dict[str, Callable[[int], Any]]:
    """The compiled calls, on a seat that has some episodes behind it."""
    worker = assembly.worker(recipe, seed=0)
    try:
        program = seat.program(recipe, worker.spec)
        return calls(program, *filled(program, worker))
    finally:
        worker.close()


def timed(call: Callable[[int], Any], repeats: int) -> tuple[float, float]:
    """Milliseconds of a call: until it is handed over, and until it is done; the mean of many."""
    for number in range(4):
        jax.block_until_ready(call(number))
    begun, result = time.perf_counter(), None
    for number in range(repeats):
        result = call(number)
    handed_over = time.perf_counter() - begun
    jax.block_until_ready(result)
    return 1000 * handed_over / repeats, 1000 * (time.perf_counter() - begun) / repeats


def traced(call: Callable[[int], Any]) -> list[dict[str, Any]]:
    """The kernels of a call, the longest first; none where there is no GPU."""
    if jax.default_backend() != "gpu":
        return []
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as place:
        with jax.profiler.trace(place, profiler_options=options):
            jax.block_until_ready([call(number) for number in range(TRACED)])
        (path,) = Path(place).rglob("*.xplane.pb")
        return summed(ProfileData.from_file(str(path)), TRACED)


def summed(trace: Any, calls: int) -> list[dict[str, Any]]:
    """Milliseconds and kernels per call, by the kernels' names without their numbers."""
    times: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    for event in _on_the_device(trace):
        name = re.sub(r"[_.\d]+$", "", event.name[:60])
        times[name] += event.duration_ns
        counts[name] += 1
    return [
        {"kernel": name, "milliseconds": round(total / calls / 1e6, 4), "count": counts[name] / calls}
        for name, total in times.most_common()
    ]


def _on_the_device(trace: Any) -> Iterable[Any]:
    for plane in trace.planes:
        if "GPU" in plane.name:
            for line in plane.lines:
                if "Stream" in (line.name or ""):
                    yield from line.events


def beside_drawing(recipe: ControlRecipe, update: Callable[[int], Any], seconds: float) -> None:
    """Updates alone, and while frames are drawn."""
    alone = paced(update, seconds)
    command = [sys.executable, "-c", DRAWING, recipe.task, str(recipe.image_size), str(seconds)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as drawing:
        assert drawing.stdin is not None
        assert drawing.stdout is not None
        if drawing.stdout.readline() != "ready\n":
            raise SystemExit(f"{recipe.task} cannot be drawn here")
        drawing.stdin.write("\n")
        drawing.stdin.flush()
        beside = paced(update, seconds)
        frame = 1000 * seconds / max(int(drawing.stdout.readline()), 1)
    lost = (beside - alone) * frame / beside
    print(
        f"update alone {alone:.3f}, while frames are drawn {beside:.3f} ms; a frame takes {frame:.3f} ms and "
        f"costs updates {lost:.3f} ms"
    )


def paced(call: Callable[[int], Any], seconds: float) -> float:
    """Milliseconds of a call over so many seconds, few of them on their way at a time."""
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        jax.block_until_ready([call(number) for number in range(calls, calls + IN_FLIGHT)][-1])
        calls += IN_FLIGHT
    return 1000 * (time.perf_counter() - begun) / calls


if __name__ == "__main__":
    main()
