"""PPO's settings, one difference at a time: every arm and seed of a task is trained side by side, as a pack.

    python benchmarks/ppo_study.py --tasks MultiRoom-N7-S8 --frames 6e5 --seeds 4 --out runs/ppo-study \
        --arms base extrinsic=1 extrinsic=10 entropy_cost=0.01 discount=0.995

An arm is `base`, or FIELD=VALUE of the recipe, several joined by +. Arms that differ in numbers only share
one compiled program. Each arm is a run folder; at the end a table with the frames until the mean over ten
rows of the 100-episode return is above 90 % of the best known one for the first time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import jax
import numpy as np

from gobi.envs.minigrid import ceilings
from gobi.training import pack, recipes, run
from gobi.training.metrics import read

SHARE, ROWS = 0.9, 10


class Told(pack.Listener):
    """Prints now and then how far a pack is."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def row(self, frames, total, row, steps_per_second) -> None:
        """A line every half minute."""
        if time.perf_counter() - self.last > 30:
            self.last = time.perf_counter()
            print(
                f"  {frames:,} of {total:,}, return {row['return'].mean():.3f}, {steps_per_second:,.0f}/s",
                flush=True,
            )


def main() -> None:
    """Trains every arm on every task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument(
        "--frames", type=float, nargs="+", required=True, help="one for all tasks, or one each"
    )
    parser.add_argument("--arms", nargs="+", default=["base"])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    frames = options.frames * len(options.tasks) if len(options.frames) == 1 else options.frames
    for task, budget in zip(options.tasks, frames, strict=True):
        runs = [_run(task, arm, int(budget), options.seeds, options.out) for arm in options.arms]
        for together in pack.packs(runs, most=256):
            begun = time.perf_counter()
            pack.go(together, Told())
            agents = sum(len(plan.seeds) for _, plan in together)
            print(
                f"{task}: {agents} agents, {time.perf_counter() - begun:.0f} s on {jax.devices()[0]}",
                flush=True,
            )
        for folder, plan in runs:
            print(f"{task:24s} {folder.path.name:40s} {summary(folder, plan)}", flush=True)


def _run(task: str, arm: str, frames: int, seeds: int, out: Path):
    words = [] if arm == "base" else arm.split("+")
    recipe = recipes.recipe(task)
    changes = type(recipe).read_settings(words)
    recipe = recipes.compact(recipe, **{"learner": "ppo", "frames": frames, **changes})
    folder, plan = run.Folder(out / f"{task}--{arm}"), run.Plan(recipe, tuple(range(seeds)), False)
    if not folder.recipe.exists():
        run.begin(folder, plan)
    return folder, plan


def summary(folder: run.Folder, plan: run.Plan) -> str:
    """Million frames until the smoothed return reaches the threshold, and the last one; of each seed."""
    best = ceilings.known()[plan.recipe.task].best_return
    curves = read(folder.metrics)
    reached, last = [], []
    for seed in plan.seeds:
        mine = curves["seed"] == seed
        frames, returns = curves["frames"][mine], np.nan_to_num(curves["return"][mine])
        smooth = np.convolve(returns, np.ones(ROWS) / ROWS, mode="valid")
        above = np.flatnonzero(smooth >= SHARE * best)
        reached.append(f"{frames[ROWS - 1 + above[0]] / 1e6:.2f}" if len(above) else "-")
        last.append(smooth[-1])
    return f"reached {' '.join(reached)}   last {' '.join(f'{value:.2f}' for value in last)} of {best:.3f}"


if __name__ == "__main__":
    main()
