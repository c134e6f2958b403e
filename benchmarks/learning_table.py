"""The table of learning results in the README, from the curves that are kept in `results/`.

    python benchmarks/learning_table.py results/minigrid-gobi

For each run: the frames and minutes after which the mean return of a seed's last 100 episodes first reached a
threshold, at worst and at best over the seeds; pre-training is counted in the frames.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from gobi.training import metrics


def main() -> None:
    """Prints a Markdown row for every run in a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--share", type=float, default=0.9, help="of the best known return")
    parser.add_argument("--threshold", type=float, help="instead: a return")
    options = parser.parse_args()
    names = ("task", "run", "seeds", "at the end", "best known", "reached", "million frames")
    print(f"| {' | '.join(names)} | minutes |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for file in sorted(options.folder.rglob("metrics.csv")):
        card = json.loads((file.parent / "card.json").read_text())
        threshold = options.threshold or options.share * card["best_return"]
        print(row(metrics.read(file), card, threshold, file.parent.name))


def row(columns: dict[str, np.ndarray], card: dict[str, Any], threshold: float, name: str) -> str:
    """One run. A seed that never reached the threshold makes the worst of them a dash."""
    frames, minutes, last = [], [], []
    for seed in card["seeds"]:
        mine = columns["seed"] == seed
        returns = np.nan_to_num(columns["return"][mine])
        last.append(returns[-1])
        # Before that only short episodes have ended, which on these tasks are the solved ones.
        enough = columns["episodes"][mine] >= 100
        reached = np.flatnonzero((returns >= threshold) & enough)
        if len(reached):
            frames.append((columns["frames"][mine][reached[0]] + card["pretraining_frames"]) / 1e6)
            minutes.append(columns["seconds"][mine][reached[0]] / 60)
    everybody = len(frames) == len(card["seeds"])
    return (
        f"| {card['task']} | {name} | {len(card['seeds'])} "
        f"| {min(last):.3f} to {max(last):.3f} | {card['best_return']:.3f} "
        f"| {threshold:.3f} by {len(frames)} | {span(frames, everybody)} | {span(minutes, everybody)} |"
    )


def span(values: list[float], everybody: bool) -> str:
    """From the first seed to the last."""
    if not values:
        return "-"
    return f"{min(values):.1f} to {max(values):.1f}" if everybody else f"{min(values):.1f} to never"


if __name__ == "__main__":
    main()
