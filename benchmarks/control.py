"""Agent steps per second of training on a control task from pixels, and where the time goes.

    python benchmarks/control.py --task dmc/hopper_hop --minutes 10 --csv control.csv
    python benchmarks/control.py --small

First every part by itself, in milliseconds per agent step: `draw` is a step of the environment's process,
with its frame; `act` (which takes the frame in), `update` and `collect` are the compiled calls of a step,
`collect` with the bonus and what it imagines; `lessons` are the world model's, one in five steps. Then the
shares of that sum: `rendering` is `draw`; `learner` is what acting, updating and storing take without any
bonus; `bonus` is what `update` and `collect` take more with it; `world model` its lessons (what it filters
and imagines is part of the bonus). Then the whole loop of `gobi train`, without evaluations: a step waits for
its action and its frame, all the rest runs meanwhile, so that `whole` may be less than the sum.

`--still 1.4` takes an environment instead that draws nothing and answers after so many milliseconds. On a
GPU that draws as well, the difference is what drawing and computing cost each other.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gobi.envs.dmc import Step, Worker
from gobi.training import run
from gobi.training.control import assembly, loop, recipes, seat
from gobi.training.control.parcel import packed
from gobi.training.control.recipe import ControlRecipe
from gobi.training.folder import Folder, Plan
from gobi.training.stopping import OutOfTime, Stopping

SMALL: dict[str, Any] = {
    "batch": 8,
    "hidden": 16,
    "channels": 4,
    "image_size": 24,
    "crop": 20,
    "capacity": 1000,
    "world_size": "compact",
    "world_batch": 2,
    "world_length": 4,
}
WITHOUT: dict[str, Any] = {"reward": "none", "reward_options": ""}
FILLED = 600
"""Steps in the replay while parts are timed."""


def main() -> None:
    """Measures the parts and the whole."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="dmc/hopper_hop")
    parser.add_argument("--rewards", nargs="+", default=["gobi", "re3", "none"])
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--seeds", type=int, default=1, help="side by side in the whole loop")
    parser.add_argument("--minutes", type=float, default=1.0, help="of the whole loop, for each reward")
    parser.add_argument("--repeats", type=int, default=100, help="calls of each part")
    parser.add_argument("--small", action="store_true", help="a small network and small frames")
    parser.add_argument("--still", type=float, help="milliseconds of a step that draws nothing")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    rows = []
    if options.still is not None:
        real = assembly.worker
        assembly.worker = lambda recipe, seed: Still(real(recipe, seed), options.still / 1000)  # type: ignore
    for reward in options.rewards:
        recipe = recipes.recipe(
            options.task,
            reward=reward,
            precision=options.precision,
            # So that all parts are at work soon.
            random_steps=100,
            world_prefill=200,
            evaluate_every=10**9,
            **(SMALL if options.small else {}),
        )
        row: dict[str, Any] = {"reward": reward, "precision": options.precision, "seeds": options.seeds}
        row |= parts(recipe, options.repeats)
        bare = row if reward == "none" else parts(recipe.changed(**WITHOUT), options.repeats)
        print(f"{reward}: " + ", ".join(f"{name} {share:.0%}" for name, share in shares(row, bare).items()))
        row |= {
            f"share_{name.replace(' ', '_')}": round(share, 3) for name, share in shares(row, bare).items()
        }
        rate = whole(recipe, options.seeds, options.minutes)
        row |= {"whole": round(1000 / rate, 3), "steps_per_second": round(rate * options.seeds, 1)}
        rows.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)


def parts(recipe: ControlRecipe, repeats: int) -> dict[str, float]:
    """Milliseconds per agent step of each part, one seed."""
    worker = assembly.worker(recipe, seed=0)
    try:
        program = seat.program(recipe, worker.spec)
        one, seen = filled(program, worker)
        action = np.zeros(worker.spec.action_size, np.float32)
        drawing = timed(lambda _: worker.step(action), repeats)
    finally:
        worker.close()
    found = {name: timed(call, repeats) for name, call in calls(program, one, seen).items()}
    if program.lessons is not None:
        found["lessons"] = found.pop("teach") * program.lessons.steps / program.lessons.every
    return {name: round(1000 * seconds, 3) for name, seconds in {"draw": drawing, **found}.items()}


def calls(program: seat.Program, one: seat.Seat, seen: Step) -> dict[str, Callable[[int], Any]]:
    """The compiled calls of a step, each by a number; all that any of them does is done to the same seat."""
    held, reached = [one], packed(seen)
    action = np.zeros(program.spec.action_size, np.float32)

    def keep(change: Callable[[seat.Seat, int], seat.Seat]) -> Callable[[int], Any]:
        def call(number: int) -> Any:
            held[0] = change(held[0], number)
            return held[0]

        return call

    found = {
        "act": keep(lambda it, n: program.see_and_act(it, packed(seen))[0]),
        "update": keep(lambda it, n: program.update(it, n)),
        "collect": keep(lambda it, n: program.collect(it, it.view, action, reached)),
    }
    if program.lessons is not None:
        found["teach"] = keep(lambda it, n: program.teach(it, n))
    return found


def shares(row: dict[str, Any], bare: dict[str, Any]) -> dict[str, float]:
    """Of the time of all parts of a step, one after the other; `bare` is the same without a bonus."""
    calls = ("act", "update", "collect")
    learner = sum(min(row[name], bare[name]) for name in calls)
    found = {
        "rendering": row["draw"],
        "learner": learner,
        "world model": row.get("lessons", 0.0),
        "bonus": sum(row[name] for name in calls) - learner,
    }
    return {name: value / sum(found.values()) for name, value in found.items()}


def filled(program: seat.Program, worker: Any) -> tuple[seat.Seat, Step]:
    """A seat whose replay holds some episodes, and the step that they are all made of."""
    seen = worker.reset()
    one = program.begin(program.see_first(program.start(0), seen), seen)
    for step in range(FILLED):
        over = step % program.spec.max_steps == program.spec.max_steps - 1
        action = np.zeros(program.spec.action_size, np.float32)
        one = program.collect(one, one.view, action, packed(Step(seen, 0.0, False, over)))
        one = program.begin(one, seen) if over else one
    return one, Step(seen, 0.0, False, False)


def timed(call: Callable[[int], Any], repeats: int) -> float:
    """Seconds of a call, the mean of many; the first two compile."""
    for number in range(2):
        jax.block_until_ready(call(number))
    begun = time.perf_counter()
    result = None
    for number in range(repeats):
        result = call(number)
    jax.block_until_ready(result)
    return (time.perf_counter() - begun) / repeats


class Still:
    """Stands for an environment's process: nothing moves, and a step takes a given time."""

    def __init__(self, real: Worker, seconds: float):
        self.spec, self.first, self.seconds, self.steps = real.spec, real.reset(), seconds, 0
        real.close()

    def reset(self) -> np.ndarray:
        """The only frame."""
        return self.first

    def send(self, action: np.ndarray) -> None:
        """The time begins."""
        del action
        self.steps += 1
        self.until = time.perf_counter() + self.seconds

    def receive(self) -> Step:
        """The only frame, when the time has passed."""
        # To sleep would take longer than that.
        while time.perf_counter() < self.until:
            pass
        return Step(self.first, 0.0, False, self.steps % self.spec.max_steps == 0)

    def step(self, action: np.ndarray) -> Step:
        """Both."""
        self.send(action)
        return self.receive()

    def save(self) -> dict[str, np.ndarray]:
        """There is nothing to keep."""
        return {}

    def close(self) -> None:
        """There is nothing to end."""


class Clock(run.Listener):
    """Notes when how many frames were done."""

    def __init__(self):
        self.marks: list[tuple[float, int]] = []

    def row(self, frames, total, row, steps_per_second):
        """One word on how far it is."""
        del total, row, steps_per_second
        self.marks.append((time.perf_counter(), frames))


def whole(recipe: ControlRecipe, seeds: int, minutes: float) -> float:
    """Agent steps per second of each seed in the loop of training, after the world's first lessons."""
    plan, clock = Plan(recipe, tuple(range(seeds))), Clock()
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(Path(place) / "run")
        run.begin(folder, plan)
        try:
            stopping = Stopping(print, until=time.monotonic() + 60 * minutes)
            loop.go(folder, plan, clock, checkpoint_seconds=1e9, stopping=stopping)
        except OutOfTime:
            pass
    warm = recipe.action_repeat * (max(recipe.random_steps, recipe.world_prefill) + 100)
    marks = [mark for mark in clock.marks if mark[1] >= warm]
    if len(marks) < 2:
        raise SystemExit(f"too short: fewer than {warm} frames in {minutes} minutes")
    (begun, first), (ended, last) = marks[0], marks[-1]
    return (last - first) / recipe.action_repeat / (ended - begun)


if __name__ == "__main__":
    main()
