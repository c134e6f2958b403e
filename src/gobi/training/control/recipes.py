"""The named recipes for control: the paper as written, and ours; from pixels, and from the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gobi import settings
from gobi.envs.dmc.tasks import find
from gobi.errors import unknown
from gobi.rewards.control import registry
from gobi.training.control.recipe import ControlRecipe

FRAMES = 500_000
"""Where RE3's published curves end, on every task."""

STEPS_AHEAD = {"dmc/pendulum_swingup": 3}
"""The paper's k; 1 on the others."""

STATE: dict[str, Any] = {
    "reward": "re3",
    "frames": 100_000,
    "batch": 128,
    "hidden": 256,
    "learning_rate": 1e-3,
    "capacity": 25_000,
    "precision": "float32",
}
"""From the state, two cores of a laptop learn in minutes: small networks, which stand a higher learning rate.
RE3 measures the distance of each replayed step to all that the replay holds, hence fewer of both."""

NOT_YET: dict[str, Any] = {"paid": "sampled"}
"""Of rewards that learn from what is replayed: what they pay is not known before."""

IMAGINED_STATE: dict[str, Any] = {"world_rate": 1e-3, "world_batch": 32, "world_length": 9}
"""Lessons of a world of state vectors: 256 steps of the replay in each."""

STATE_OPTIONS = "bits=16"
"""Of 500 states of random play these give some 50 codes on Cartpole, 70 on Pendulum, 150 to 210 on others.
With the 50 bits that there are for pictures nearly all states of tasks of many numbers differ."""


def recipe(task: str, name: str = "gobi", **changes: Any) -> ControlRecipe:
    """A whole recipe by the task's name and the recipe's, some fields changed.

    >>> recipe("hopper_hop").coefficient
    0.05
    >>> recipe("pendulum_swingup", observations="state").reward
    're3'
    """
    if name not in NAMES:
        raise unknown("recipe for control tasks", name, NAMES)
    whole = NAMES[name](find(task).id)
    from_state = changes.get("observations") == "state"
    changes = {**STATE, **changes} if from_state else changes
    reward = changes.get("reward", whole.reward)
    if from_state and registry.find(reward).imagines:
        changes = {**IMAGINED_STATE, **changes}
    usual = _options_for(whole, reward, changes.get("lifelong", whole.lifelong), from_state)
    options = {name: settings.beside(text, changes.get(name)) for name, text in usual.items()}
    fitting = {} if registry.known_when_made(reward, changes.get("lifelong", whole.lifelong)) else NOT_YET
    return whole.changed(**{**fitting, **changes, **options})


def _options_for(whole: ControlRecipe, reward: str, lifelong: str, from_state: bool) -> dict[str, str]:
    """The options that a recipe has for the rewards that were chosen: those of others are none of theirs.

    Options that are given stay beside them; "" takes them away.
    """
    said = {whole.lifelong: whole.lifelong_options}
    own = said.get(reward, "")
    if registry.find(reward).imagines:
        own = settings.beside(STATE_OPTIONS if from_state else "", whole.reward_options or None)
    return {"reward_options": own, "lifelong_options": said.get(lifelong, "")}


def on_a_cpu(whole: ControlRecipe, **given: Any) -> ControlRecipe:
    """What suits a CPU, which has no bfloat16, but for what was given; from the state there is none."""
    if whole.observations == "state":
        return whole
    return whole.changed(**{"precision": "float32", "world_precision": "float32", **given})


def ours(task: str) -> ControlRecipe:
    """RE3's code and the paper's numbers; where the paper is silent, what each field's default says."""
    return ControlRecipe(
        task=task,
        recipe="gobi",
        frames=FRAMES,
        coefficient=registry.coefficient("gobi", task),
        decay=registry.decay("gobi", task),
        steps=STEPS_AHEAD.get(task, 1),
        # On a GPU several times as fast as float32, and RE3's curve on Pendulum Swingup is met with it.
        precision="bfloat16",
    )


def as_written(task: str) -> ControlRecipe:
    """The paper's text where RE3's code does otherwise.

    log(d + 1), growth paid where it is left, and the whole reward stored as the step is made.
    """
    return ours(task).changed(
        recipe="as_written",
        reward_options="credit=departure,untrained=imagine",
        lifelong_options="form=log",
        paid="made",
        world_lessons="together",
        precision="float32",
    )


NAMES: dict[str, Callable[[str], ControlRecipe]] = {"gobi": ours, "as_written": as_written}
"""The recipes, ours first: it is the default."""
