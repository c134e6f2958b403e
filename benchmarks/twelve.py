"""The paper's twelve tasks on a laptop: a run for each seed, one core each, and a table of what was reached.

    python benchmarks/twelve.py --out runs/twelve
    python benchmarks/twelve.py --out runs/twelve --tasks KeyCorridorS3R3 --seeds 5 --settings reward=none

Each run is a `gobi train` with the recipe as it is, in a process of its own that keeps to one core; as many
side by side as there are cores given. What is finished is left as it is and what was stopped is gone on with,
so that the same command continues. Reached is: the mean over ten rows of the 100-episode return is above 90 %
of the best known one; first touch: a row is, and 100 episodes have ended.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import numpy as np

from gobi.envs.minigrid import ceilings, registry
from gobi.errors import require
from gobi.training import run
from gobi.training.metrics import read
from gobi.training.recipes import PPO_FRAMES

SHARE, ROWS, EPISODES = 0.9, 10, 100
EVERY = 4
"""Rows of metrics.csv from one row of the kept curves to the next."""
KEPT = ("frames", "return", "success", "length", "entropy", "bonus", "world_exact", "seconds")
COLUMNS: tuple[str, ...] = (
    "task", "seed", "settings", "frames", "reached", "first_touch", "minutes", "return", "success",
    "best_known",
)  # fmt: skip


def main() -> None:
    """Trains what is missing, and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=list(PPO_FRAMES))
    parser.add_argument("--seeds", type=int, default=3, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--settings", nargs="*", default=[], help="FIELD=VALUE, as for gobi train --set")
    parser.add_argument("--cores", type=int, nargs="+", default=sorted(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="only write the table of what there is")
    options = parser.parse_args()
    jobs: Queue[list[str]] = Queue()
    for seed in range(options.first, options.first + options.seeds):
        for task in options.tasks:
            jobs.put(_command(options.out, task, seed, options.settings))
    if not options.table:
        workers = [threading.Thread(target=_work, args=(jobs, core)) for core in options.cores]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    write_table(options.out)
    write_curves(options.out)


def _command(out: Path, task: str, seed: int, settings: list[str]) -> list[str]:
    """What trains one seed, or goes on with it; empty where it is finished."""
    name = "-".join([registry.short(registry.find(task)), *settings, f"s{seed}"])
    folder = run.Folder(out / name)
    if folder.recipe.exists():
        return [] if run.finished(folder, run.planned(folder)) else ["resume", str(folder.path)]
    words = [word for setting in settings for word in ("--set", setting)]
    return ["train", task, "--seed", str(seed), *words, "--out", str(folder.path)]


def _work(jobs: Queue[list[str]], core: int) -> None:
    """One command after the other, on one core."""
    while True:
        try:
            command = jobs.get_nowait()
        except Empty:
            return
        if not command:
            continue
        print(f"core {core}: gobi {' '.join(command)}", flush=True)
        gobi = shutil.which("gobi", path=str(Path(sys.executable).parent)) or "gobi"
        done = subprocess.run(
            [gobi, *command],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, [core]),
        )
        if done.returncode:
            print(
                f"core {core}: gobi {command[-1]} failed:\n{done.stdout[-500:]}{done.stderr[-1500:]}",
                flush=True,
            )


def write_table(out: Path) -> None:
    """A row for each run with metrics, on the screen and in table.csv."""
    rows = [row for path in sorted(out.iterdir()) if (row := _row(run.Folder(path)))]
    for row in rows:
        print("  ".join(f"{name} {row[name]}" for name in COLUMNS))
    with (out / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    print(f"written: {out / 'table.csv'}")


def _row(folder: run.Folder) -> dict[str, str]:
    """What one run reached, in million frames, and the minutes of training until then."""
    if not folder.metrics.exists():
        return {}
    recipe, curve = run.planned(folder).recipe, read(folder.metrics)
    best = ceilings.known()[recipe.task].best_return
    returns, frames = np.nan_to_num(curve["return"]), curve["frames"]
    smooth = np.convolve(returns, np.ones(ROWS) / ROWS, mode="valid")
    sustained = np.flatnonzero(smooth >= SHARE * best)
    touched = np.flatnonzero((returns >= SHARE * best) & (curve["episodes"] >= EPISODES))
    at = ROWS - 1 + sustained[0] if len(sustained) else -1
    return {
        "task": recipe.task,
        "seed": str(run.planned(folder).seeds[0]),
        "settings": "+".join(word for word in folder.path.name.split("-") if "=" in word),
        "frames": f"{frames[-1] / 1e6:.2f}",
        "reached": f"{frames[at] / 1e6:.3f}" if len(sustained) else "",
        "first_touch": f"{frames[touched[0]] / 1e6:.3f}" if len(touched) else "",
        "minutes": f"{curve['seconds'][at] / 60:.2f}" if len(sustained) else "",
        "return": f"{smooth[-1]:.3f}" if len(smooth) else "",
        "success": f"{curve['success'][-1]:.2f}",
        "best_known": f"{best:.3f}",
    }


def write_curves(out: Path) -> None:
    """Every few rows of all runs in one curves.csv, and a picture with a panel for each task."""
    folders = [run.Folder(path) for path in sorted(out.iterdir()) if (path / "metrics.csv").exists()]
    if not folders:
        return
    with (out / "curves.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("run", "command", *KEPT))
        for folder in folders:
            curve, card = read(folder.metrics), json.loads(folder.card.read_text())
            command = card["command"].replace(str(out), "runs/twelve")
            for place in range(EVERY - 1, len(curve["frames"]), EVERY):
                numbers = (f"{curve[name][place]:.5g}" if name in curve else "" for name in KEPT)
                writer.writerow((folder.path.name, command if place < EVERY else "", *numbers))
    draw(folders).savefig(out / "curves.png", dpi=130)
    print(f"written: {out / 'curves.csv'}, {out / 'curves.png'}")


def draw(folders: list[run.Folder]) -> Any:
    """A panel for each task: the return of each seed's last 100 episodes, and the threshold."""
    tasks: dict[str, list[run.Folder]] = {}
    for folder in folders:
        tasks.setdefault(run.planned(folder).recipe.task, []).append(folder)
    known = [task for task in PPO_FRAMES if task in tasks] + [
        task for task in tasks if task not in PPO_FRAMES
    ]
    across = 4
    down = -(-len(known) // across)
    make = require("matplotlib.figure", extra="plot").Figure
    figure = make(figsize=(3.0 * across, 2.2 * down), layout="constrained")
    for place, task in enumerate(known):
        axis = figure.add_subplot(down, across, place + 1)
        for folder in tasks[task]:
            curve = read(folder.metrics)
            unpaid = run.planned(folder).recipe.reward == "none"
            axis.plot(curve["frames"] / 1e6, curve["return"], lw=1, color="0.6" if unpaid else "C0")
        axis.axhline(SHARE * ceilings.known()[task].best_return, color="C3", lw=0.8, ls="--")
        axis.set_title(registry.short(task), fontsize=9)
        axis.set_ylim(0, 1)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("million frames", fontsize=9)
    figure.supylabel("return of the last 100 episodes", fontsize=9)
    return figure


if __name__ == "__main__":
    main()
