"""Runs for comparisons, made without training: their curves are straight lines up to a plateau."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from gobi.training.metrics import MetricsFile
from gobi.training.recipe import kind_of

N7, S3 = "MiniGrid-MultiRoom-N7-S8-v0", "MiniGrid-KeyCorridorS3R3-v0"


def make_run(
    folder: Path,
    *,
    task: str = N7,
    reward: str = "gobi",
    recipe: str = "gobi",
    world: str = "copying",
    seeds: tuple[int, ...] = (0, 1, 2, 3),
    solved_at: tuple[float, ...] = (2e6, 2.5e6, 3e6, 3.5e6),
    plateau: float = 0.6,
    frames: float = 8e6,
    pretraining: int = 0,
    settings: dict[str, Any] | None = None,
    card: dict[str, Any] | None = None,
) -> Path:
    """A run of 40 rows in which seed i's return climbs to the plateau at its own frame, and stays there.

    solved_at:  for each seed the frame of the plateau, pre-training not counted; inf stays at 0.
    settings:   of the recipe, where they are not the defaults.
    card:       fields of the card that are to be others; None leaves the card out.
    """
    file = MetricsFile(folder / "metrics.csv")
    for row in range(1, 41):
        at = int(row * frames / 40)
        share = np.minimum(1.0, at / np.array(solved_at[: len(seeds)]))
        values = {"return": plateau * share, "success": share, "seconds": at / 1e5, "frames": at}
        values["steps_per_second"] = 1e5 * len(seeds)
        file.append({**values, "seed": np.array(seeds)})
    file.close()
    made = kind_of(task)(task, recipe, int(frames), reward=reward, **(settings or {}))  # pyright: ignore
    (folder / "recipe.json").write_text(made.to_json())
    best = None if task.startswith("dmc/") else 0.68
    described = {
        "task": task, "task_version": "", "best_return": best, "reward": reward, "recipe": recipe,
        "recipe_digest": made.digest, "world": world, "seeds": seeds, "frames": int(frames),
        "pretraining_frames": pretraining, "privileged": ["panorama"], "device": "cpu",
        "finished": "2030-01-01", "command": "gobi train <b>&", "versions": {"jax": "0.10"},
        "commit": "1c4f986",
    }  # fmt: skip
    (folder / "card.json").write_text(json.dumps({**described, **(card or {})}))
    return folder


def fall(folder: Path, seeds: tuple[int, ...], to: float) -> Path:
    """The same run, in which the last return of these seeds is another."""
    file = folder / "metrics.csv"
    heading, *rows = file.read_text().splitlines()
    places = {name: place for place, name in enumerate(heading.split(","))}
    fields = [row.split(",") for row in rows]
    last = max(float(row[places["frames"]]) for row in fields)
    for row in fields:
        if float(row[places["frames"]]) == last and int(float(row[places["seed"]])) in seeds:
            row[places["return"]] = str(to)
    file.write_text("\n".join([heading, *(",".join(row) for row in fields), ""]))
    return folder


def cut(folder: Path, at: float) -> Path:
    """The same run as if it had been stopped there."""
    file = folder / "metrics.csv"
    heading, *rows = file.read_text().splitlines()
    place = heading.split(",").index("frames")
    kept = [row for row in rows if float(row.split(",")[place]) <= at]
    file.write_text("\n".join([heading, *kept, ""]))
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps({**card, "frames": int(at), "finished": None}))
    return folder
