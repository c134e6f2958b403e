"""How long training should take here: judged by earlier runs on this device, or by others' elsewhere."""

from __future__ import annotations

import dataclasses
import heapq
import json
import math
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from gobi.errors import GobiError
from gobi.training import metrics
from gobi.training.control.recipe import ControlRecipe
from gobi.training.folder import Run

H200 = {
    "float32": {1: 152_743, 4: 307_953, 16: 434_341},
    "bfloat16": {1: 208_963, 16: 565_170},
}
"""Steps per second of so many agents together, with GoBI and the paper's network, by precision: see
docs/speed.md."""
TWO_CORES = 3_300.0
"""Of all agents together, with GoBI and the compact network on two CPU cores: `gobi train` without a task."""
EVERY_REWARD = {
    "none": 184_713,
    "rnd": 180_422,
    "count": 179_683,
    "icm": 178_422,
    "ngu": 176_657,
    "re3": 175_351,
    "ride": 171_990,
    "e3b": 167_490,
    "noveld": 164_387,
    "gobi": 150_497,
    "ec": 101_975,
}
"""Steps per second with each reward on an H200, one agent, float32, all in one run: see docs/speed.md and
results/training-speed/h200-every-reward.csv. Others, such as GoBI's parts, count as GoBI."""
FULL_EC = 280.0
"""Of EC with its comparator in full size and the compact network, on two busy CPU cores: one agent on
MultiRoom-N7-S8, 16,000 frames. With the small comparator it had 3,600 there, about as many as GoBI, and
without a bonus 11,000; the others were not measured, and all but full-size EC count as GoBI on a CPU."""
CONTROL = {
    ("cpu", "state", "float32"): 230.0,
    ("cpu", "pixels", "float32"): 0.07,
    ("gpu", "pixels", "bfloat16"): 276.0,
}
"""The same on control tasks, by the kind of device, what agents see, and precision. Measured on two busy
cores: RE3 and GoBI over 40,000 and 100,000 frames from the state, a run on each; RAD from pixels, an update
of which takes them half a minute. And GoBI on an H200."""
COMPILING = 30.0
"""Seconds until a pack makes its first step."""
FEWEST_ROWS = 5
"""Of metrics that tell a pace: compiling is part of the first ones."""


@dataclasses.dataclass(frozen=True)
class Earlier:
    """How fast a run was.

    reward, options:     what it was trained with: the reward, and its options as the recipe has them;
    network, precision:  and what else.
    agents:              how many there were side by side in its process.
    steps_per_second:    of all of them together, compiling not included.
    """

    reward: str
    options: str
    network: str
    precision: str
    agents: int
    steps_per_second: float


def earlier(folder: Path) -> list[Earlier]:
    """The runs within a folder that were trained on a device like this one, by their cards and metrics."""
    here, found = jax.devices()[0].device_kind, []
    for file in sorted(folder.rglob("card.json")):
        try:
            card = json.loads(file.read_bytes())
            if card["device"] == here and (pace := _pace(file.with_name("metrics.csv"))):
                agents = len(card["seeds"]) + card.get("beside", 0)
                programs = card["network"], card["precision"]
                found.append(Earlier(card["reward"], _options(file.parent), *programs, agents, pace))
        except (GobiError, ValueError, LookupError, TypeError):
            # Not a run that one can learn from.
            continue
    return found


def _options(folder: Path) -> str:
    """The options of a run's reward; none if its recipe does not tell them."""
    file = folder / "recipe.json"
    return str(json.loads(file.read_bytes()).get("reward_options", "")) if file.is_file() else ""


def _pace(file: Path) -> float | None:
    """The median of the steps per second: whatever else took time is part of a few rows only.

    None if there are too few of them, such as of a run that was stopped at once.
    """
    columns = metrics.read(file)
    first = columns["seed"] == columns["seed"][0]
    speeds = columns["steps_per_second"][first]
    known = speeds[np.isfinite(speeds)]
    return float(np.median(known)) if len(known) >= FEWEST_ROWS else None


def seconds(packs: Sequence[Sequence[Run]], known: Sequence[Earlier], at_once: int = 1) -> float | None:
    """How long packs should take, compiling included, what they have done taken off.

    One after the other; or so many at once, if none slows another down. Each goes to whoever is done first.
    None if nothing like one of them was ever measured.
    """
    speeds = [_speed(pack, known) for pack in packs]
    if None in speeds:
        return None
    busy = [0.0] * at_once
    for pack, speed in zip(packs, speeds, strict=True):
        if speed:
            heapq.heapreplace(busy, busy[0] + COMPILING + _frames(pack) / speed)
    return max(busy)


def source(packs: Sequence[Sequence[Run]], known: Sequence[Earlier]) -> str:
    """Where the guess comes from, in words."""
    device = jax.devices()[0].device_kind
    if all(_alike(pack, known) for pack in packs):
        return f"as fast as earlier runs on this device ({device})"
    if any(_speed(pack, known) is None for pack in packs):
        return f"nothing like it has been trained on this device ({device}) yet"
    elsewhere = "two CPU cores" if jax.default_backend() == "cpu" else "one H200"
    return f"as fast as on {elsewhere}; nothing like it has been trained on this device ({device}) yet"


def _frames(pack: Sequence[Run]) -> int:
    """Frames of all agents that are still to come."""
    left = 0
    for folder, plan in pack:
        names = [path.name for path in folder.checkpoints.glob("*") if path.name.isdecimal()]
        left += (plan.recipe.all_frames - max(map(int, names), default=0)) * len(plan.seeds)
    return left


def _speed(pack: Sequence[Run], known: Sequence[Earlier]) -> float | None:
    """Steps per second of a pack: of the earlier runs that are most like it, or of GoBI's, elsewhere.

    What was measured with another reward counts as many times as this one is faster.
    """
    recipe, agents = pack[0][1].recipe, sum(len(plan.seeds) for _, plan in pack)
    on_control = isinstance(recipe, ControlRecipe)
    mine = 1.0 if on_control else _beside_gobi(recipe.reward, recipe.reward_options)
    alike = _alike(pack, known)
    if alike:
        apart = [abs(math.log(one.agents / agents)) for one in alike]
        nearest = [one for one, far in zip(alike, apart, strict=True) if far == min(apart)]
        theirs = [1.0 if on_control else _beside_gobi(one.reward, one.options) for one in nearest]
        speeds = [mine * one.steps_per_second / its for one, its in zip(nearest, theirs, strict=True)]
        return float(np.median(speeds))
    if isinstance(recipe, ControlRecipe):
        return CONTROL.get((jax.default_backend(), recipe.observations, recipe.precision))
    if jax.default_backend() == "cpu":
        return mine * TWO_CORES
    measured = H200[recipe.precision]
    gobi = np.interp(math.log(agents), [math.log(n) for n in measured], list(measured.values()))
    return mine * float(gobi)


def _beside_gobi(reward: str, options: str) -> float:
    """How many times as fast as with GoBI a grid is trained with a reward on a device of this kind."""
    if jax.default_backend() == "cpu":
        return FULL_EC / TWO_CORES if reward == "ec" and "size=small" not in options else 1.0
    return EVERY_REWARD.get(reward, EVERY_REWARD["gobi"]) / EVERY_REWARD["gobi"]


def _alike(pack: Sequence[Run], known: Sequence[Earlier]) -> list[Earlier]:
    """Earlier runs with the same network in the same precision, of the same reward if there are any."""
    recipe = pack[0][1].recipe
    programs = recipe.network, recipe.precision
    alike = [one for one in known if (one.network, one.precision) == programs]
    return [one for one in alike if one.reward == recipe.reward] or alike
