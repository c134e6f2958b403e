"""The control tasks that have a name, and how any other of dm_control's is named."""

from __future__ import annotations

import dataclasses
import re

from gobi.errors import GobiError, MissingExtra, require, unknown

PREFIX = "dmc/"


@dataclasses.dataclass(frozen=True)
class ControlTask:
    """A task of dm_control's suite.

    id:         the name under which `find` finds it.
    domain:     dm_control's name of the body.
    task:       dm_control's name of what it is to do.
    threshold:  rewards of one environment step below this are 0; None leaves them as they are.
    camera:     the number of the camera that makes the frames.
    """

    id: str
    domain: str
    task: str
    threshold: float | None = None
    camera: int = 0


RUN_THRESHOLD = 0.25
"""RE3's two sparse tasks: a walker at 0.8 m/s and upright, a cheetah at 2.5 m/s."""

TASKS: dict[str, ControlTask] = {
    task.id: task
    for task in (
        ControlTask("dmc/pendulum_swingup", "pendulum", "swingup"),
        ControlTask("dmc/hopper_hop", "hopper", "hop"),
        ControlTask("dmc/walker_run_sparse", "walker", "run", RUN_THRESHOLD),
        ControlTask("dmc/cheetah_run_sparse", "cheetah", "run", RUN_THRESHOLD),
        ControlTask("dmc/cartpole_swingup_sparse", "cartpole", "swingup_sparse"),
    )
}
"""The three that the paper names, and the two that its fourth may be."""


@dataclasses.dataclass(frozen=True)
class About:
    """What can be said of a named task without dm_control.

    actions:  how many numbers an action has.
    reward:   what is paid for one environment step.
    paper:    whether the paper names it, as far as one can tell.
    """

    actions: int
    reward: str
    paper: str


MAX_STEPS = 500
"""Agent steps of an episode in each of the five: 1,000 environment steps, two to an action."""

ABOUT: dict[str, About] = {
    "dmc/pendulum_swingup": About(1, "1 while the pole is within 8 degrees of upright", "yes"),
    "dmc/hopper_hop": About(4, "standing x speed, full at 2 m/s", "yes"),
    "dmc/walker_run_sparse": About(6, "walker run's, full at 8 m/s; 0 where it is below 0.25", "yes"),
    "dmc/cheetah_run_sparse": About(6, "speed, full at 10 m/s; 0 where it is below 0.25", "perhaps"),
    "dmc/cartpole_swingup_sparse": About(1, "1 while the pole is upright and the cart central", "perhaps"),
}

CAMERAS = {"quadruped": 2}
"""Where the first camera is not the one that RE3 looked through."""


def find(name: str) -> ControlTask:
    """The task of that name: one of the five, or any of dm_control's; `dmc/` may be left out.

    `DOMAIN_TASK` is dm_control's own task, `DOMAIN_TASK@0.3` the same with rewards below 0.3 set to 0.

    >>> find("hopper_hop").domain
    'hopper'
    >>> find("dmc/walker_run_sparse").threshold
    0.25
    """
    full = PREFIX + name.removeprefix(PREFIX)
    if full in TASKS:
        return TASKS[full]
    plain, at, number = full.removeprefix(PREFIX).partition("@")
    suite = _suite(full)
    if plain not in suite:
        known = [*TASKS, *(PREFIX + one for one in suite)]
        raise unknown("control task", full, dict.fromkeys(known))
    domain, task = suite[plain]
    threshold = _threshold(full, number) if at else None
    return ControlTask(full, domain, task, threshold, CAMERAS.get(domain, 0))


def is_control(name: str) -> bool:
    """Whether the name is one of a control task; asks for nothing to be installed."""
    return name.startswith(PREFIX) or PREFIX + name in TASKS


def short(task_id: str) -> str:
    """A task's id without its prefix, for the names of folders."""
    return task_id.removeprefix(PREFIX)


def _suite(name: str) -> dict[str, tuple[str, str]]:
    """dm_control's own tasks: `DOMAIN_TASK` to domain and task."""
    from gobi.envs.dmc import rendering

    try:
        rendering.choose(needed=False)
        suite = require("dm_control.suite", extra="dmc")
    except MissingExtra as missing:
        raise GobiError(
            f"'{name}' is none of {', '.join(TASKS)}; for dm_control's other tasks {missing}"
        ) from missing
    return {f"{domain}_{task}": (domain, task) for domain, task in suite.ALL_TASKS}


def _threshold(name: str, number: str) -> float:
    if not re.fullmatch(r"\d*\.?\d+", number) or not 0 < float(number) <= 1:
        raise GobiError(f"'{name}': the number after @ is a threshold above 0 and at most 1, got '{number}'")
    return float(number)
