"""Ours beside what a user would pick instead on a laptop: frames and minutes until a task is learned.

    pip install -e '.[sb3,minigrid]' sb3-contrib
    python benchmarks/laptop_peers.py --seeds 3 --frames 1e6 --out runs/laptop-peers

The learners: `gobi train --learner ppo` with GoBI (gobi) and without a bonus (gobi-none), as it trains on
this machine; and on Farama's environments Stable-Baselines3's PPO with the RL Zoo's settings for MiniGrid
(sb3), with our numbers and one-hot cells (sb3-same), and sb3-contrib's RecurrentPPO with the same (sb3-lstm).

The task must be one that a learner without a bonus can find. On DoorKey-8x8 random actions reach the goal in
2.8 % of the episodes (45 of 1,602); on MultiRoom-N4-S5 in none of 12,800.

Each run is a process of its own, one after the other, with the machine to itself. Its time begins before
Python does: imports, pre-training and compiling, with nothing kept from before, are in the minutes, and the
frames of pre-training in the frames; steps per second are those after the first row. A task is learned when
the mean over ten rows of the mean return of the last 100 episodes is 90 % of the best known one; there a run
ends. Rows with fewer episodes count 0. Learning rates that fall do so over `--frames`.

Finished runs are not made again: the same command goes on with what was stopped, and prints the table.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import importlib.metadata
import json
import multiprocessing
import os
import platform
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

SHARE, ROWS, EPISODES = 0.9, 10, 100
OURS = {"gobi": "gobi", "gobi-none": "none"}
"""Our learners, and the reward of each."""
LEARNERS = (*OURS, "sb3", "sb3-same", "sb3-lstm")
COLUMNS = ("frames", "return", "episodes", "seconds")
PACKAGES = ("gobi", "jax", "stable_baselines3", "sb3_contrib", "torch", "gymnasium", "minigrid", "numpy")
TELL_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class Job:
    """One run.

    frames:      at most.
    spacing:     frames between two rows: those of our own run, for all learners.
    threshold:   the return that the task counts as learned with.
    to_the_end:  go on after that.
    threads:     of torch; 0 leaves them to it.
    """

    learner: str
    task: str
    seed: int
    frames: int
    spacing: int
    threshold: float
    to_the_end: bool
    threads: int
    out: Path

    @property
    def folder(self) -> Path:
        """Its files."""
        return self.out / f"{self.learner}-{self.seed}"

    @property
    def card(self) -> Path:
        """What came of it; there once it is finished."""
        return self.folder / "peer.json"


class Curve:
    """The curve of a run as it goes on, in a file; tells how far it is, and when it is over.

    begun:   the moment, as `time.time` has it, at which the run's process was started.
    before:  frames before the first update.
    """

    def __init__(self, job: Job, begun: float):
        self.job, self.begun, self.before = job, begun, 0
        self.rows: list[tuple[int, float, int, float]] = []
        self.told = self.due = 0.0
        with (job.folder / "curve.csv").open("w", newline="") as file:
            csv.writer(file).writerow(COLUMNS)

    def add(self, frames: int, mean_return: float, episodes: int) -> None:
        """A row, unless the one before is too near."""
        if frames < self.due:
            return
        self.due = (frames // self.job.spacing + 1) * self.job.spacing
        row = (frames + self.before, mean_return, episodes, time.time() - self.begun)
        self.rows.append(row)
        with (self.job.folder / "curve.csv").open("a", newline="") as file:
            csv.writer(file).writerow(row)
        if row[-1] - self.told > TELL_SECONDS:
            self.told = row[-1]
            print(f"  {row[0]:,} frames, return {mean_return:.3f}, {row[-1]:.0f} s", flush=True)

    @property
    def reached(self) -> tuple[int, float] | None:
        """Frames and seconds at which the task was learned."""
        returns = [mean if episodes >= EPISODES else 0.0 for _, mean, episodes, _ in self.rows]
        if len(returns) < ROWS:
            return None
        above = np.flatnonzero(np.convolve(returns, np.ones(ROWS) / ROWS, mode="valid") >= self.job.threshold)
        row = self.rows[ROWS - 1 + above[0]] if len(above) else None
        return row and (row[0], row[-1])

    @property
    def over(self) -> bool:
        """Whether the run has nothing left to show."""
        return self.reached is not None and not self.job.to_the_end

    @property
    def steps_per_second(self) -> float:
        """After the first row, before which programs are compiled."""
        (first, *_, begun), (last, *_, ended) = self.rows[0], self.rows[-1]
        return (last - first) / max(ended - begun, 1e-9)


def main() -> None:
    """Makes the runs that are not there yet, and prints the table."""
    options = arguments()
    frames = [int(each) for each in options.frames]
    frames = frames * len(options.learners) if len(frames) == 1 else frames
    jobs = [
        job
        for seed in range(options.seeds)
        for learner, most in zip(options.learners, frames, strict=True)
        for job in [planned(options, learner, seed, most)]
    ]
    context = multiprocessing.get_context("spawn")
    for number, job in enumerate(jobs, start=1):
        if job.card.exists():
            continue
        print(f"{number} of {len(jobs)}: {job.learner}, seed {job.seed}, {job.frames:,} frames", flush=True)
        # Its times are of one piece, or none.
        shutil.rmtree(job.folder, ignore_errors=True)
        job.folder.mkdir(parents=True)
        process = context.Process(target=train, args=(job, time.time()))
        process.start()
        process.join()
        if process.exitcode:
            print(f"failed, with exit code {process.exitcode}", flush=True)
    tell(options.out, [json.loads(job.card.read_text()) for job in jobs if job.card.exists()])


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="MiniGrid-DoorKey-8x8-v0")
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=LEARNERS)
    parser.add_argument(
        "--frames", type=float, nargs="+", default=[1e6], help="at most: one for all learners, or one each"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--to-the-end", action="store_true", help="go on when the task is learned")
    parser.add_argument("--torch-threads", type=int, default=1, help="0: as many as torch takes")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def planned(options: argparse.Namespace, learner: str, seed: int, frames: int) -> Job:
    """A run, with rows as far apart as our own would have them."""
    from gobi.envs.minigrid import ceilings, registry

    task = registry.find(options.task)
    rows = recipe(task, "gobi", frames)
    return Job(
        learner=learner,
        task=task,
        seed=seed,
        frames=frames,
        spacing=rows.updates_per_row * rows.frames_per_update,
        threshold=SHARE * ceilings.known()[task].best_return,
        to_the_end=options.to_the_end,
        threads=options.torch_threads,
        out=options.out,
    )


def recipe(task: str, reward: str, frames: int) -> Any:
    """What `gobi train TASK --learner ppo` does on this machine."""
    from gobi.cli.train import choose

    return choose(task, "gobi", {"learner": "ppo", "reward": reward, "frames": frames})


def train(job: Job, begun: float) -> None:
    """Of a new process: the run, and its card."""
    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    curve = Curve(job, begun)
    if job.learner in OURS:
        settings = train_ours(job, curve)
    else:
        import sb3_peer  # beside this file

        settings = sb3_peer.train(job.learner, job.task, job.seed, job.frames, curve, job.threads)
    reached = curve.reached or (None, None)
    card = {
        **{name: value for name, value in dataclasses.asdict(job).items() if name != "out"},
        "reached_frames": reached[0],
        "reached_seconds": reached[1],
        "frames_made": curve.rows[-1][0],
        "frames_before": curve.before,
        "seconds": curve.rows[-1][-1],
        "seconds_to_first_row": curve.rows[0][-1],
        "steps_per_second": curve.steps_per_second,
        "last_return": float(np.mean([row[1] for row in curve.rows[-ROWS:]])),
        "settings": settings,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions(),
    }
    job.card.write_text(json.dumps(card, indent=2) + "\n")


def train_ours(job: Job, curve: Curve) -> dict[str, Any]:
    """The run of a learner of ours; returns its recipe."""
    from gobi.training import card, run

    class Rows(run.Listener):
        """Hands the rows of the metrics to the curve."""

        def row(self, frames, total, row, steps_per_second) -> None:
            del total, steps_per_second
            if not curve.rows:
                curve.before = card.read(folder.card).pretraining_frames
            curve.add(frames, float(np.nan_to_num(row["return"][0])), int(row["episodes"][0]))

    class UntilLearned(run.Stopping):
        """Stops once the curve is over."""

        def why(self) -> run.Stopped | None:
            return run.Stopped() if curve.over else super().why()

    plan = run.Plan(recipe(job.task, OURS[job.learner], job.frames), (job.seed,), False)
    folder = run.Folder(job.folder / "run")
    run.begin(folder, plan)
    stopping = UntilLearned(print)
    try:
        run.go(folder, plan, Rows(), stopping=stopping)
    except run.Stopped:
        if stopping.asked:
            raise
    return json.loads(plan.recipe.to_json())


def versions() -> dict[str, str]:
    """The packages that are installed here, of those that matter."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def tell(out: Path, cards: Sequence[dict[str, Any]]) -> None:
    """Writes a row for each run, and prints one for each learner, its seeds beside each other."""
    from gobi.cli.terminal import show

    if not cards:
        return
    names = [name for name in cards[0] if name not in ("settings", "versions")]
    with (out / "runs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(cards)
    rows = []
    for learner in LEARNERS:
        mine = [card for card in cards if card["learner"] == learner]
        if mine:
            rows.append(
                [
                    learner,
                    f"{mine[0]['frames'] / 1e6:g}",
                    f"{np.mean([card['steps_per_second'] for card in mine]):,.0f}",
                    f"{np.mean([card['seconds_to_first_row'] for card in mine]):.0f}",
                    each(mine, "reached_frames", 1e6),
                    each(mine, "reached_seconds", 60),
                    each(mine, "seconds", 60),
                    each(mine, "last_return", 1),
                ]
            )
    headings = (
        *("learner", "million frames at most", "steps/s", "seconds to first row"),
        *("million frames to learn", "minutes to learn", "minutes in all", "return at the end"),
    )
    print(
        f"\n{cards[0]['task']}, learned at a return of {cards[0]['threshold']:.3f}; one number for each seed"
    )
    show(rows, headings, headings[1:4])


def each(cards: Sequence[dict[str, Any]], name: str, unit: float) -> str:
    """One number for each seed; a dash for those that never came so far."""
    return "  ".join("-" if card[name] is None else f"{card[name] / unit:.2f}" for card in cards)


if __name__ == "__main__":
    main()
