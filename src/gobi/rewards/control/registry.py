"""The intrinsic rewards for control tasks that have a name, and how much of each to add on which task."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

from gobi import settings
from gobi.errors import GobiError, unknown
from gobi.rewards.control.gobi import Normalised, Replayed
from gobi.rewards.control.icm import ICM
from gobi.rewards.control.lessons import ControlReward, Lessons, Nothing
from gobi.rewards.control.re3 import RE3
from gobi.rewards.control.reachability import PICTURE_OPTIONS, Reachability
from gobi.rewards.control.rnd import RND


@dataclasses.dataclass(frozen=True)
class Entry:
    """What is known of a reward before it is built.

    summary:   one line on what it pays for.
    make:      its class, whose fields are its options.
    imagines:  whether it needs a world.
    factor:    whether it can be the lifelong factor of gobi.
    learns:    whether it learns from the batches that it pays.
    """

    summary: str
    make: type[ControlReward]
    imagines: bool = False
    factor: bool = False
    learns: bool = False


REWARDS: dict[str, Entry] = {
    "none": Entry("no bonus: the task's own reward alone", Nothing),
    "gobi": Entry(
        "growth of what was seen or could be predicted in this episode, times lifelong novelty",
        Reachability,
        imagines=True,
    ),
    "r1": Entry("GoBI's episodic factor alone", Reachability, imagines=True),
    "re3": Entry("distance to the nearest random features of the replay", RE3, factor=True),
    "icm": Entry("error at predicting controllable features", ICM, factor=True, learns=True),
    "rnd": Entry("error at predicting a random network's output", RND, factor=True, learns=True),
}
"""By id. `none` first, then the paper's own, then the others."""

COEFFICIENT, DECAY = 0.05, 1e-5
"""Of RE3's code on most tasks: the bonus is multiplied with COEFFICIENT (1 - DECAY)^step, by agent steps."""
COEFFICIENTS: Mapping[str, float] = {"dmc/pendulum_swingup": 0.25}
DECAYS: Mapping[str, float] = {"dmc/walker_run_sparse": 2.5e-5}
"""On the others."""

LESSONS = Lessons()
"""When a world model learns, unless a recipe says otherwise."""

GIVEN = frozenset({"capacity", "schedule"})
"""Fields that follow from the rest of a recipe, and are no options."""


def find(name: str) -> Entry:
    """The entry of that name."""
    if name not in REWARDS:
        raise unknown("reward for control tasks", name, REWARDS)
    return REWARDS[name]


def defaults(name: str) -> dict[str, Any]:
    """The options of a reward that can be written as words, and their defaults. Those of gobi are r1's."""
    fields = dataclasses.fields(find(name).make)  # pyright: ignore[reportArgumentType]
    return {
        field.name: field.default
        for field in fields
        if field.metadata.get("static") and field.name not in GIVEN
    }


def options(name: str, text: str) -> dict[str, Any]:
    """The options of a reward, written as k=5,form=log."""
    make = find(name).make
    if not text:
        return {}
    if not defaults(name):
        raise GobiError(f"the reward '{name}' has no options")
    chosen = settings.options(name, text, defaults(name), get_type_hints(make))
    # Made once for its own checks; the world plays no part in them.
    make(**chosen, **({"world": None} if find(name).imagines else {}))
    return chosen


def factor_options(name: str, text: str) -> dict[str, Any]:
    """The options of a reward that is to be gobi's lifelong factor."""
    if not find(name).factor:
        single = [name for name, entry in REWARDS.items() if entry.factor]
        raise GobiError(f"the lifelong factor must be one of {', '.join(single)}, got '{name}'")
    return options(name, text)


def build(
    name: str,
    chosen: Mapping[str, Any] | None = None,
    lifelong: str = "re3",
    lifelong_chosen: Mapping[str, Any] | None = None,
    world: Any = None,
    slots: int = 100_000,
    lessons: Lessons = LESSONS,
    normalised: Normalised = "lifelong",
) -> ControlReward:
    """A reward by name.

    chosen:           its options.
    lifelong:         gobi's lifelong factor, and `lifelong_chosen` the options of that.
    world:            the world model of gobi and r1.
    slots:            slots of the replay.
    lessons:          when that world learns.
    normalised:       what of gobi is divided by its running deviation, see `Replayed`.
    """
    entry, chosen = find(name), dict(chosen or {})
    if not entry.imagines:
        if "capacity" in (field.name for field in dataclasses.fields(entry.make)):  # pyright: ignore[reportArgumentType]
            chosen["capacity"] = slots
        return entry.make(**chosen)
    if world is None:
        raise GobiError(f"the reward '{name}' imagines: it needs a world model")
    reachability = Reachability(world, schedule=lessons, **chosen)
    if name == "r1":
        return reachability
    factor_options(lifelong, "")
    return Replayed(reachability, build(lifelong, lifelong_chosen, slots=slots), normalised)


def check_observations(name: str, text: str, observations: str) -> None:
    """Refuses options of pictures where there are none. observations: `pixels` or `state`."""
    if observations == "pixels" or not find(name).imagines:
        return
    for option, value in options(name, text).items():
        if value != PICTURE_OPTIONS.get(option, value):
            raise GobiError(f"the option {option}={value} is for pictures: train with --observations pixels")


def known_when_made(name: str, lifelong: str) -> bool:
    """Whether a reward, gobi with this lifelong factor, can be worked out as the step is made."""
    return not find(lifelong if name == "gobi" else name).learns


def coefficient(name: str, task: str) -> float:
    """What the bonus is multiplied with at first: RE3's values, for all; those of others are not public."""
    find(name)
    return COEFFICIENTS.get(task, COEFFICIENT)


def decay(name: str, task: str) -> float:
    """The share that the coefficient loses with each step of the agent."""
    find(name)
    return DECAYS.get(task, DECAY)
