"""How long explorers that nothing pays for it keep the pendulum upright: RE3's beside GoBI's.

    python benchmarks/upright.py results/control-pendulum [--picture docs/images/upright.png]

reads runs on dmc/pendulum_swingup with --extrinsic 0, whose return is the number of steps upright, and prints
the table of docs/rewards/control.md with permutation tests.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from gobi.analysis.chance import permutation_p
from gobi.errors import require
from gobi.training import metrics

EARLY = 20_000
"""Frames in which the task is learned with RE3, if it is paid for."""
FIRST = 10_000
TURNING = 1000 * 16 / 360
"""Of 1,000 steps, those within 8 degrees of upright if it turns evenly."""
ROWS = {
    f"evaluation at {FIRST:,} frames": lambda run: run["return"][run["frames"] == FIRST][0],
    f"best training interval by {EARLY:,}": lambda run: np.max(
        run["training_return"][run["frames"] <= EARLY]
    ),
    "best training interval": lambda run: np.max(run["training_return"]),
    "evaluation at the end": lambda run: run["return"][-1],
}


def main() -> None:
    """Prints a line for each row of the table."""
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    reader.add_argument("folder", type=Path, help="where the runs lie")
    reader.add_argument("--picture", type=Path, help="draws what they do in training, too")
    runs: dict[str, list[dict[str, np.ndarray]]] = {"re3": [], "gobi": []}
    asked = reader.parse_args()
    for file in sorted(asked.folder.glob("*/recipe.json")):
        recipe = json.loads(file.read_text())
        if recipe["extrinsic"] == 0:
            runs[recipe["reward"]].append(metrics.read(file.with_name("metrics.csv")))
    for name, of in ROWS.items():
        ours, theirs = (np.array([of(run) for run in runs[reward]]) for reward in ("re3", "gobi"))
        print(f"{name}: RE3 {_range(ours)}; GoBI {_range(theirs)}; p = {permutation_p([ours], [theirs]):.2g}")
    if asked.picture:
        _draw(runs, asked.picture)


def _draw(runs: dict[str, list[dict[str, np.ndarray]]], path: Path) -> None:
    """A panel for each, a line for each seed, and their median."""
    plt = require("matplotlib.pyplot", extra="plot")
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True, layout="constrained")
    for panel, (reward, name) in zip(panels, (("re3", "RE3"), ("gobi", "GoBI")), strict=True):
        frames = runs[reward][0]["frames"] / 1000
        lines = np.array([run["training_return"] for run in runs[reward]])
        panel.plot(frames, lines.T, color="C0", alpha=0.35, linewidth=1)
        panel.plot(frames, np.median(lines, axis=0), color="C0", linewidth=2.5, label="median")
        panel.axhline(TURNING, color="0.4", linestyle=":", label="turning evenly")
        panel.set_title(f"{name} alone, no reward of the task", fontsize=10)
        panel.set_xlabel("thousand frames")
    panels[0].set_ylabel("steps upright of 1,000")
    panels[1].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def _range(values: np.ndarray) -> str:
    return f"{values.min():.0f} to {values.max():.0f}, median {np.median(values):.0f} ({len(values)} seeds)"


if __name__ == "__main__":
    main()
