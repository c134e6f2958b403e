"""The runs of sb3_with_and_without.py as one figure and one table."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

Run = tuple[dict[str, Any], dict[str, np.ndarray]]
"""A run's card, and the columns of its curve."""


def summarise(out: Path, tasks: dict[str, str]) -> str:
    """Draws all runs of a folder into DIR/curves.png, and returns a table of them.

    tasks:  what each task is called in Gymnasium, in the order in which they are shown.
    """
    runs = [
        (json.loads(path.read_text()), read_curve(path.parent)) for path in sorted(out.glob("*/card.json"))
    ]
    if not runs:
        raise SystemExit(f"no runs in {out}")
    draw(runs, tasks, out / "curves.png")
    rows = [
        "| task | bonus | seeds | return | success | steps to solved | steps/s | bonus, us/step |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task in tasks:
        for bonus in sorted({card["bonus"] for card, _ in runs}, reverse=True):
            cards = [card for card, _ in runs if (card["task"], card["bonus"]) == (task, bonus)]
            if cards:
                rows.append(table_row(tasks[task], bonus, cards))
    return "\n".join(rows)


def table_row(task: str, bonus: str, cards: list[dict[str, Any]]) -> str:
    """Each seed's final numbers side by side: three of them are too few for anything else."""

    def each(values: list[Any]) -> str:
        return " / ".join("never" if value is None else f"{value:,.6g}" for value in values)

    return " | ".join(
        [
            f"| {task}",
            bonus,
            each([card["seed"] for card in cards]),
            each([round(card["final"]["return"], 2) for card in cards]),
            each([round(card["final"]["success"], 2) for card in cards]),
            each([card["steps_to_solved"] for card in cards]),
            f"{np.mean([card['steps_per_second'] for card in cards]):,.0f}",
            f"{np.mean([card['bonus_microseconds_per_step'] for card in cards]):,.0f} |",
        ]
    )


def read_curve(folder: Path) -> dict[str, np.ndarray]:
    """The columns of a run's curve."""
    with (folder / "curve.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def draw(runs: list[Run], tasks: dict[str, str], path: Path) -> None:
    """A panel for each task: every seed as a thin line, the mean of its arm as a thick one."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    shown = [task for task in tasks if any(card["task"] == task for card, _ in runs)]
    figure, axes = plt.subplots(1, len(shown), figsize=(4.2 * len(shown), 3.2), squeeze=False)
    for axis, task in zip(axes[0], shown, strict=True):
        for bonus, colour in (("none", "tab:grey"), ("gobi", "tab:blue")):
            curves = [curve for card, curve in runs if (card["task"], card["bonus"]) == (task, bonus)]
            for curve in curves:
                axis.plot(curve["steps"] / 1000, curve["return"], color=colour, alpha=0.35, linewidth=0.8)
            if curves:
                steps = min((curve["steps"] for curve in curves), key=len)
                mean = np.mean([curve["return"][: len(steps)] for curve in curves], axis=0)
                label = "PPO" if bonus == "none" else f"PPO + {bonus}"
                axis.plot(steps / 1000, mean, color=colour, linewidth=2, label=label)
        axis.set_title(tasks[task], fontsize=9)
        axis.set_xlabel("thousand steps")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("return, last 100 episodes")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
