"""The intrinsic rewards that have a name: what they are, what they read, and how much of them to add."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

from gobi import settings
from gobi.errors import GobiError, unknown
from gobi.rewards import own
from gobi.rewards.count import Count
from gobi.rewards.e3b import E3B
from gobi.rewards.ec import EC
from gobi.rewards.icm import ICM
from gobi.rewards.ngu import NGU
from gobi.rewards.noveld import NovelD
from gobi.rewards.re3 import RE3
from gobi.rewards.reward import Reward
from gobi.rewards.ride import RIDE
from gobi.rewards.rnd import RND


@dataclasses.dataclass(frozen=True)
class Entry:
    """What is known of a reward before it is built.

    summary:      one line on what it pays for.
    make:         its class, whose fields are its options; None where it is composed of a recipe's parts.
    coefficient:  what it is multiplied with, on most tasks.
    elsewhere:    on the others.
    decays:       whether that falls over a run, by the recipe's rho.
    imagines:     whether it needs a world.
    small:        options for a machine without an accelerator.
    """

    summary: str
    make: type[Reward] | None = None
    coefficient: float = 0.01
    elsewhere: Mapping[str, float] = dataclasses.field(default_factory=dict)
    decays: bool = False
    imagines: bool = False
    small: str = ""


REWARDS: dict[str, Entry] = {
    "none": Entry("no bonus: the task's own reward alone", decays=True),
    "gobi": Entry(
        "growth of what was seen or could be predicted in this episode, times lifelong novelty",
        decays=True,
        imagines=True,
    ),
    "r1": Entry("GoBI's episodic factor alone", decays=True, imagines=True),
    "r2": Entry("GoBI with whether there was growth, not how much", decays=True, imagines=True),
    "r3": Entry("GoBI's lifelong factor alone", decays=True),
    "count": Entry("1 / sqrt(how often the observation was met)", Count, coefficient=0.005),
    "rnd": Entry(
        "error at predicting a random network's output", RND, coefficient=0.1, small="network=small"
    ),
    "noveld": Entry(
        "rise of novelty at first visits of this episode",
        NovelD,
        coefficient=0.05,
        small="features=view,network=small,rate=0.001",
    ),
    "ride": Entry(
        "change of controllable features, over the visits in this episode",
        RIDE,
        coefficient=0.5,
        elsewhere={"MiniGrid-KeyCorridorS3R3-v0": 0.1},
        small="network=small",
    ),
    "ec": Entry("steps away from everything in the episode's memory", EC, small="size=small"),
    "icm": Entry("error at predicting controllable features", ICM, coefficient=0.1, small="network=small"),
    "ngu": Entry(
        "distance to the episode's nearest controllable features",
        NGU,
        coefficient=0.005,
        small="network=small",
    ),
    "e3b": Entry("how far features lie outside the episode's ellipsoid", E3B, small="network=small"),
    "re3": Entry("distance to the nearest random features of recent play", RE3),
}
"""By id. `none` first, then the paper's own, then the others."""


def find(name: str) -> Entry:
    """The entry of that name. A file of one's own, FILE.py:CLASS, is not opened for it."""
    if own.is_own(name):
        return Entry(f"a reward of your own, in {own.parse(name).file}")
    if name not in REWARDS:
        raise unknown("reward", name, REWARDS)
    return REWARDS[name]


def options(name: str, text: str) -> dict[str, Any]:
    """The options of a reward, written as alpha=0.4,norm=squared."""
    entry = find(name)
    if not text:
        return {}
    if entry.make is None:
        raise GobiError(f"the reward '{name}' has no options of its own: its parts are fields of the recipe")
    chosen = settings.options(name, text, defaults(name), get_type_hints(entry.make))
    build(name, chosen)
    return chosen


def defaults(name: str) -> dict[str, Any]:
    """The options of a reward that can be written as words, and their defaults."""
    make = find(name).make
    fields = dataclasses.fields(make) if make is not None else ()  # pyright: ignore[reportArgumentType]
    return {field.name: field.default for field in fields if field.metadata.get("static")}


def factor_options(name: str, text: str) -> dict[str, Any]:
    """The options of a reward that is to be a factor of another."""
    if find(name).make is None:
        single = [name for name, entry in REWARDS.items() if entry.make]
        raise GobiError(f"the lifelong factor must be one of {', '.join(single)}, got '{name}'")
    return options(name, text)


def build(name: str, chosen: Mapping[str, Any]) -> Reward:
    """A reward that stands by itself."""
    make = find(name).make
    assert make is not None
    return make(**chosen)


def coefficient(name: str, task: str) -> float:
    """What the paper, or the method's own authors, multiply the reward with on a task."""
    entry = find(name)
    return entry.elsewhere.get(task, entry.coefficient)
