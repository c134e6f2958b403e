"""The named recipes for Gymnasium's tasks: ours."""

from __future__ import annotations

from typing import Any

from gobi.envs import host
from gobi.errors import GobiError, unknown
from gobi.rewards import registry
from gobi.training.host.recipe import HostRecipe
from gobi.training.recipes import ppo_settings

NAMES = ("gobi",)
FRAMES = 500_000


def recipe(task: str, name: str = "gobi", **changes: Any) -> HostRecipe:
    """A whole recipe by the task's name and the recipe's, some fields changed.

    With IMPALA another reward brings its own coefficient along.

    >>> recipe("gym/CartPole-v1", reward="rnd", learner="impala").coefficient
    0.1
    """
    if name not in NAMES:
        raise unknown("recipe for Gymnasium's tasks", name, NAMES)
    if not host.is_host(task) or task == host.PREFIX:
        raise GobiError(f"a task of Gymnasium's is written {host.PREFIX}ID, got '{task}'")
    reward = changes.get("reward", "gobi")
    fitting = ppo_settings(PPO_SETTINGS, changes)
    if changes.get("learner", LEARNER) != "ppo":
        fitting = {"learner": "impala", "coefficient": registry.coefficient(reward, task)}
    return HostRecipe(task=task, recipe=name, **{"frames": FRAMES, **fitting, **changes})


LEARNER = "ppo"
"""By default."""

PPO_SETTINGS: dict[str, Any] = {
    "learner": "ppo",
    "core": "mingru",
    "num_envs": 16,
    "unroll": 128,
    "epochs": 4,
    "minibatches": 4,
    "learning_rate": 1e-3,
    "max_grad_norm": 0.5,
    "entropy_cost": 0.01,
    "values": "two",
    "scale_bonus": True,
    "scale_advantages": True,
    "scale_rewards": True,
    "coefficient": 1.0,
    "extrinsic": 2.0,
}
"""One set of numbers for every task and reward: bonus and rewards are scaled by their own returns."""
