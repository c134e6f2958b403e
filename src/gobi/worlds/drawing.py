"""Pictures of predicted against real views. Needs the extra `plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, Key, UInt8

from gobi.envs.minigrid import cells
from gobi.envs.minigrid.rules import ACTION_NAMES
from gobi.errors import GobiError, require
from gobi.worlds.collecting import Transitions
from gobi.worlds.erasure import Erase
from gobi.worlds.network import FRONT, Network
from gobi.worlds.pretraining import targets
from gobi.worlds.reporting import predictions

COLOURS = np.array(
    [[255, 60, 60], [60, 200, 60], [70, 110, 255], [150, 60, 210], [240, 220, 40], [130, 130, 130]]
)
"""Red, green, blue, purple, yellow, grey."""
BACKGROUNDS = {cells.UNSEEN: (35, 35, 35), cells.EMPTY: (235, 235, 235), cells.WALL: (130, 130, 130)}
LETTERS = {cells.KEY: "key", cells.BALL: "ball", cells.BOX: "box", cells.GOAL: "goal", cells.LAVA: "lava"}
DOORS = ("open", "shut", "lock")


def picture(
    path: Path | str,
    network: Network,
    data: Transitions,
    key: Key[Array, ""],
    count: int = 6,
    erase_targets: Erase = False,
) -> None:
    """Writes a PNG with a few moves that change the view: what was seen, predicted, and what really came.

    Wrong cells have a red frame. Each action that changes views has its turn.
    """
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise GobiError(f"cannot write '{path}': the name must end in .png")
    figure_module = require("matplotlib.figure", extra="plot")
    chosen = data[_changing(data, count)]
    predicted, _, _ = predictions(network, chosen, key, erase_targets)
    real = np.asarray(targets(network, chosen, erase_targets))
    figure = figure_module.Figure(figsize=(2.2 * len(chosen), 7), layout="constrained")
    axes = figure.subplots(3, len(chosen), squeeze=False)
    for column in range(len(chosen)):
        before, guess, truth = chosen.panorama[column, FRONT], predicted[column, -1], real[column, -1]
        wrong = np.any(guess != truth, axis=-1)
        _draw(axes[0, column], before, ACTION_NAMES[chosen.action[column]])
        _draw(axes[1, column], guess, f"{wrong.sum()} wrong" if wrong.any() else "exact", wrong)
        _draw(axes[2, column], truth, "")
    for axis, name in zip(axes[:, 0], ("seen", "predicted", "real"), strict=True):
        axis.set_ylabel(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


def cell_colours(view: UInt8[np.ndarray, "7 7 3"]) -> Float[np.ndarray, "7 7 3"]:
    """Red, green and blue of each cell: what stands there in its own colour, floor and walls in theirs."""
    shown = COLOURS[np.minimum(view[..., 1], len(COLOURS) - 1)]
    for kind, colour in BACKGROUNDS.items():
        shown = np.where(view[..., :1] == kind, np.array(colour), shown)
    return shown / 255


def _changing(data: Transitions, count: int) -> Int[np.ndarray, " chosen"]:
    """Rows whose view changes, action after action in turn."""
    changed = np.any(data.panorama[:, FRONT] != data.after[:, FRONT], axis=(1, 2, 3))
    if not changed.any():
        raise GobiError("no move in the data changes the view: there is nothing to draw")
    turns = [np.flatnonzero(changed & (data.action == action)) for action in range(len(ACTION_NAMES))]
    dealt = [rows[turn] for turn in range(count) for rows in turns if turn < len(rows)]
    return np.array(dealt[:count])


def _draw(
    axis: Any, view: UInt8[np.ndarray, "7 7 3"], title: str, wrong: Bool[np.ndarray, "7 7"] | None = None
) -> None:
    """One view, the agent's place at the bottom in the middle."""
    axis.imshow(cell_colours(view).swapaxes(0, 1))
    axis.set_title(title, fontsize=9)
    axis.set_xticks([])
    axis.set_yticks([])
    for x, y in np.ndindex(7, 7):
        word = _word(view[x, y])
        if word:
            axis.text(x, y, word, ha="center", va="center", fontsize=5)
        if wrong is not None and wrong[x, y]:
            outline = dict(fill=False, edgecolor="red", linewidth=2)
            patches = require("matplotlib.patches", extra="plot")
            axis.add_patch(patches.Rectangle((x - 0.5, y - 0.5), 1, 1, **outline))


def _word(cell: Integer[np.ndarray, "3"]) -> str:
    kind, _, state = (int(number) for number in cell)
    return DOORS[min(state, 2)] if kind == cells.DOOR else LETTERS.get(kind, "")
