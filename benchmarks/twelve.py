"""The paper's twelve tasks on a laptop: a run for each seed, one core each, and a table of what was reached.

    python benchmarks/twelve.py --out runs/twelve
    python benchmarks/twelve.py --out runs/twelve --tasks KeyCorridorS3R3 --seeds 5 --arms base reward=none

Each run is a `gobi train`, in a process of its own that keeps to one core; as many side by side as there are
cores given. An arm is `base`, the recipe as it is, or FIELD=VALUE, several joined by +. What is finished is
left as it is and what was stopped is gone on with, so that the same command continues. Reached is: the mean
over ten rows of the 100-episode return is above 90 % of the best known one; first touch: a row is, and 100
episodes have ended. Frames that the world model was pre-trained on count;
minutes are those of training. With --stop a run is stopped some rows after it has reached that.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import numpy as np

from gobi.envs.minigrid import ceilings, registry
from gobi.errors import require
from gobi.training import run
from gobi.training.metrics import read
from gobi.training.recipes import PPO_FRAMES

TASKS = [later if (later := task.replace("-v0", "-v1")) in registry.TASKS else task for task in PPO_FRAMES]
"""The twelve, easy ones first; of ObstructedMaze version 1 where there is one, in which no key is lost."""
SHARE, ROWS, EPISODES = 0.9, 10, 100
AFTER = 12
"""Rows that a run goes on for with --stop: it should not be a moment's luck."""
EVERY = 4
"""Rows of metrics.csv from one row of the kept curves to the next."""
KEPT = ("frames", "return", "success", "length", "entropy", "bonus", "world_exact", "seconds")
COLUMNS: tuple[str, ...] = (
    "task", "arm", "seed", "frames", "reached", "first_touch", "minutes", "return", "success",
    "best_known",
)  # fmt: skip


def main() -> None:
    """Trains what is missing, and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--arms", nargs="+", default=["base"], help="base, or FIELD=VALUE joined by +")
    parser.add_argument("--stop", action="store_true", help="stop runs soon after they have reached it")
    parser.add_argument("--cores", type=int, nargs="+", default=sorted(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="only write the table of what there is")
    parser.add_argument("--draw", action="store_true", help="only draw the curves.csv that is there")
    options = parser.parse_args()
    if options.draw:
        draw(options.out / "curves.csv", options.out / "curves.png")
        return
    jobs: Queue[list[str]] = Queue()
    for seed in range(options.first, options.first + options.seeds):
        for task in options.tasks:
            for arm in options.arms:
                jobs.put(_command(options.out, task, seed, arm, options.stop))
    if not options.table:
        workers = [threading.Thread(target=_work, args=(jobs, core, options.stop)) for core in options.cores]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    rows = write_table(options.out)
    write_summary(options.out, rows)
    write_curves(options.out)


def _command(out: Path, task: str, seed: int, arm: str, stop: bool) -> list[str]:
    """What trains one seed, or goes on with it; empty where there is nothing left to do."""
    settings = [] if arm == "base" else arm.split("+")
    name = f"{registry.short(registry.find(task))}{'' if arm == 'base' else f'-{arm}'}-s{seed}"
    folder = run.Folder(out / name)
    if folder.recipe.exists():
        done = run.finished(folder, run.planned(folder)) or (stop and _reached_for(folder) >= AFTER)
        return [] if done else ["resume", str(folder.path)]
    words = [word for setting in settings for word in ("--set", setting)]
    return ["train", task, "--seed", str(seed), *words, "--out", str(folder.path)]


def _work(jobs: Queue[list[str]], core: int, stop: bool) -> None:
    """One command after the other, on one core."""
    while True:
        try:
            command = jobs.get_nowait()
        except Empty:
            return
        if command:
            _train(command, core, stop)


def _train(command: list[str], core: int, stop: bool) -> None:
    """One run, until it ends or, with `stop`, has reached what it should for some rows."""
    folder = run.Folder(Path(command[-1]))
    print(f"core {core}: gobi {' '.join(command)}", flush=True)
    gobi = shutil.which("gobi", path=str(Path(sys.executable).parent)) or "gobi"
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [gobi, *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, [core]),
        )
        stopped = False
        while process.poll() is None:
            time.sleep(1.0)
            if stop and not stopped and _reached_for(folder) >= AFTER:
                process.send_signal(signal.SIGTERM)
                stopped = True
        if process.returncode and not stopped:
            output.seek(0)
            print(f"core {core}: gobi {command[-1]} failed:\n{output.read()[-2000:]}", flush=True)


def _reached_for(folder: run.Folder) -> int:
    """Rows since the smoothed return reached the threshold; 0 if it has not."""
    if not folder.metrics.exists():
        return 0
    curve = read(folder.metrics)
    at = _sustained(curve, run.planned(folder).recipe.task)
    return 0 if at is None else len(curve["frames"]) - at


def _sustained(curve: dict[str, Any], task: str) -> int | None:
    """The first row at which the mean over ten rows is above the threshold."""
    if len(curve["frames"]) < ROWS:
        return None
    smooth = np.convolve(np.nan_to_num(curve["return"]), np.ones(ROWS) / ROWS, mode="valid")
    above = np.flatnonzero(smooth >= SHARE * ceilings.known()[task].best_return)
    return ROWS - 1 + int(above[0]) if len(above) else None


def write_table(out: Path) -> list[dict[str, str]]:
    """A row for each run with metrics, on the screen and in table.csv."""
    rows = [row for path in sorted(out.iterdir()) if (row := _row(run.Folder(path)))]
    for row in rows:
        print("  ".join(f"{name} {row[name]}" for name in COLUMNS))
    with (out / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    print(f"written: {out / 'table.csv'}")
    return rows


def write_summary(out: Path, rows: list[dict[str, str]]) -> None:
    """A row for each task and arm in summary.md: how many seeds reached it, and between which frames."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault((row["task"], row["arm"]), []).append(row)
    order = sorted(groups, key=lambda it: (TASKS.index(it[0]) if it[0] in TASKS else len(TASKS), it))
    lines = [
        "| task | arm | reached | million frames | minutes, one core | first touch | trained to |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for task, arm in order:
        group = groups[task, arm]
        reached = [row for row in group if row["reached"]]
        lines.append(
            f"| {registry.short(task)} | {arm} | {len(reached)} of {len(group)} "
            f"| {_span(reached, 'reached')} | {_span(reached, 'minutes')} "
            f"| {_span([row for row in group if row['first_touch']], 'first_touch')} "
            f"| {_span(group, 'frames')} |"
        )
    (out / "summary.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    print(f"written: {out / 'summary.md'}")


def _span(rows: list[dict[str, str]], name: str) -> str:
    """The smallest and the largest of a column."""
    values = sorted(float(row[name]) for row in rows)
    if not values:
        return ""
    least, most = f"{values[0]:.2f}", f"{values[-1]:.2f}"
    return least if least == most else f"{least} to {most}"


def _row(folder: run.Folder) -> dict[str, str]:
    """What one run reached, in million frames, and the minutes of training until then."""
    if not folder.metrics.exists():
        return {}
    recipe, curve = run.planned(folder).recipe, read(folder.metrics)
    best = ceilings.known()[recipe.task].best_return
    returns, frames = np.nan_to_num(curve["return"]), curve["frames"] + _before(folder)
    if not len(frames):
        return {}
    at = _sustained(curve, recipe.task)
    touched = np.flatnonzero((returns >= SHARE * best) & (curve["episodes"] >= EPISODES))
    return {
        "task": recipe.task,
        "seed": str(run.planned(folder).seeds[0]),
        "arm": folder.path.name.removeprefix(registry.short(recipe.task)).rpartition("-s")[0][1:] or "base",
        "frames": f"{frames[-1] / 1e6:.2f}",
        "reached": "" if at is None else f"{frames[at] / 1e6:.3f}",
        "first_touch": f"{frames[touched[0]] / 1e6:.3f}" if len(touched) else "",
        "minutes": "" if at is None else f"{curve['seconds'][at] / 60:.2f}",
        "return": f"{np.mean(returns[-ROWS:]):.3f}",
        "success": f"{curve['success'][-1]:.2f}",
        "best_known": f"{best:.3f}",
    }


def _before(folder: run.Folder) -> int:
    """Frames that the world model was pre-trained on."""
    return json.loads(folder.card.read_text()).get("pretraining_frames") or 0


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
            curve["frames"] = curve["frames"] + _before(folder)
            command = card["command"].replace(str(out), "runs/twelve")
            for place in range(EVERY - 1, len(curve["frames"]), EVERY):
                numbers = (f"{curve[name][place]:.5g}" if name in curve else "" for name in KEPT)
                writer.writerow((folder.path.name, command if place < EVERY else "", *numbers))
    print(f"written: {out / 'curves.csv'}")
    draw(out / "curves.csv", out / "curves.png")


def draw(curves: Path, picture: Path) -> None:
    """A panel for each task of a curves.csv: the return of each seed's last 100 episodes, and the threshold.

    Blue is the recipe, grey no bonus, orange other settings; runs of another learner are left out.
    """
    runs: dict[str, list[dict[str, str]]] = {}
    with curves.open(newline="") as file:
        for row in csv.DictReader(file):
            runs.setdefault(row["run"], []).append(row)
    tasks: dict[str, list[str]] = {}
    for name, rows in runs.items():
        task = registry.find(rows[0]["command"].split()[2])
        if "learner=" not in name:
            tasks.setdefault(task, []).append(name)
    known = [task for task in TASKS if task in tasks] + [task for task in tasks if task not in TASKS]
    across = 4
    down = -(-len(known) // across)
    make = require("matplotlib.figure", extra="plot").Figure
    figure = make(figsize=(3.0 * across, 2.2 * down), layout="constrained")
    for place, task in enumerate(known):
        axis = figure.add_subplot(down, across, place + 1)
        for name in tasks[task]:
            frames = [float(row["frames"]) / 1e6 for row in runs[name]]
            returns = [float(row["return"] or "nan") for row in runs[name]]
            settings = "=" in name
            axis.plot(frames, returns, lw=1, color="0.6" if "=none" in name else "C1" if settings else "C0")
        axis.axhline(SHARE * ceilings.known()[task].best_return, color="C3", lw=0.8, ls="--")
        axis.set_title(registry.short(task), fontsize=9)
        axis.set_ylim(0, 1)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("million frames, pre-training included", fontsize=9)
    figure.supylabel("return of the last 100 episodes", fontsize=9)
    figure.savefig(picture, dpi=130)
    print(f"written: {picture}")


if __name__ == "__main__":
    main()
