"""The named recipes: the paper as written, the paper as coded, and ours, for every task."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from gobi import settings
from gobi.envs.minigrid import registry
from gobi.errors import unknown
from gobi.rewards import registry as rewards
from gobi.training.recipe import Recipe


@dataclasses.dataclass(frozen=True)
class Schedule:
    """What differs from task to task.

    decay:   the paper's rho (its table of hyper-parameters).
    frames:  for how long we train; the learning rate falls over all of it.
    slower:  our own rho, where the paper's leaves hardly any bonus by the time that the task is learned.
    """

    decay: float
    frames: int
    slower: float | None = None


M = 1_000_000
SCHEDULES: dict[str, Schedule] = {
    "MiniGrid-MultiRoom-N6-v0": Schedule(8e-7, 6 * M),
    "MiniGrid-MultiRoom-N7-S8-v0": Schedule(6e-7, 8 * M),
    "MiniGrid-MultiRoom-N12-S10-v0": Schedule(8e-7, 6 * M),
    "MiniGrid-KeyCorridorS3R3-v0": Schedule(1.5e-6, 8 * M, slower=6e-7),
    "MiniGrid-KeyCorridorS4R3-v0": Schedule(5e-7, 12 * M),
    "MiniGrid-KeyCorridorS5R3-v0": Schedule(5e-7, 12 * M),
    "MiniGrid-KeyCorridorS6R3-v0": Schedule(3e-7, 16 * M),
    "MiniGrid-ObstructedMaze-2Dlh-v0": Schedule(3e-7, 16 * M),
    "MiniGrid-ObstructedMaze-2Dlhb-v0": Schedule(2e-7, 24 * M),
    "MiniGrid-ObstructedMaze-1Q-v0": Schedule(2e-7, 24 * M),
    "MiniGrid-ObstructedMaze-2Q-v0": Schedule(2e-7, 24 * M),
    "MiniGrid-ObstructedMaze-Full-v0": Schedule(5e-8, 70 * M),
}
"""The twelve. Of the authors' frames only those of N7-S8 are known: 8M, which is 4.8 / rho. The others' are
4.8 / rho too, but for KeyCorridor, where we take longer, and Full, which the paper solves within 70M."""

PPO_FRAMES: dict[str, int] = {
    "MiniGrid-MultiRoom-N6-v0": 300_000,
    "MiniGrid-MultiRoom-N7-S8-v0": 300_000,
    "MiniGrid-KeyCorridorS3R3-v0": 500_000,
    "MiniGrid-MultiRoom-N12-S10-v0": 1 * M,
    "MiniGrid-KeyCorridorS4R3-v0": 2 * M,
    "MiniGrid-ObstructedMaze-2Dlh-v0": 2 * M,
    "MiniGrid-KeyCorridorS5R3-v0": 3 * M,
    "MiniGrid-ObstructedMaze-2Dlhb-v0": 4 * M,
    "MiniGrid-ObstructedMaze-1Q-v0": 3 * M,
    "MiniGrid-KeyCorridorS6R3-v0": 5 * M,
    "MiniGrid-ObstructedMaze-2Q-v0": 10 * M,
    "MiniGrid-ObstructedMaze-Full-v0": 20 * M,
}
"""How long PPO trains on the twelve: all that differs between them."""

OTHER = Schedule(2e-6, 2 * M)
"""Tasks that are not in the paper: small ones."""
OTHER_PPO_FRAMES = 500_000


def recipe(task: str, name: str = "gobi", **changes: Any) -> Recipe:
    """A whole recipe by the task's name and the recipe's, some fields changed.

    Ours learns with PPO unless another learner is asked for, the paper's with IMPALA. With IMPALA another
    reward brings its own coefficient along, and no decay if its authors had none.

    >>> recipe("KeyCorridorS3R3", "as_written").credit
    'departure'
    """
    if name not in NAMES:
        raise unknown("recipe", name, NAMES)
    whole = NAMES[name](registry.find(task))
    if changes.get("learner", "ppo" if name == "gobi" else "impala") == "ppo":
        return with_ppo(whole, **{**(_PAID_WITH_PPO if name == "gobi" else {}), **changes})
    return whole.changed(**{**_paying(whole, changes.get("reward")), **changes})


_PAID_WITH_PPO: dict[str, Any] = {"erase_movable": True, "erase_carried": False, "counts": "shared"}
"""What ours pays with PPO, on all tasks alike. Paid for where things lie, an agent moves them about for ever;
not paid for having one in its hands, it is slow to pick it up; with counts of its own, each environment is
paid once more for what the others have often seen."""


def _paying(recipe: Recipe, reward: str | None) -> dict[str, Any]:
    """What the named reward wants to be changed in a recipe that was written for another."""
    if reward is None or reward == recipe.reward:
        return {}
    decay = {} if rewards.find(reward).decays else {"decay": 0.0}
    return {"coefficient": rewards.coefficient(reward, recipe.task), **decay}


def schedule(task: str) -> Schedule:
    """The task's own, or that of the paper's task of the same shape."""
    return SCHEDULES.get(_alike(task)) or OTHER


def _alike(task: str) -> str:
    """The paper's task of the same shape: v0 for v1, without another start, without noise."""
    alike = task.replace("-v1", "-v0").replace("gobi/", "MiniGrid-")
    return alike.replace("-middle", "").replace("-noisy", "")


def as_written(task: str) -> Recipe:
    """The paper's text and Algorithm 1, where the public code does otherwise."""
    times = schedule(task)
    return Recipe(
        task=task,
        recipe="as_written",
        frames=times.frames,
        decay=times.decay,
        decay_by="episodes",
        clip=0.0,
        credit="departure",
        imagined_actions=7,
        counts="shared",
        model="written",
        world_mode="finetuned",
        pretrain_epochs=80,
        pretrain_rate=5e-4,
        finetune_rate=5e-4,
        pretrain_schedule="constant",
        network="paper",
        learning_rate_decay="none",
    )


def as_coded(task: str) -> Recipe:
    """The public code, less its accidents."""
    times = schedule(task)
    return Recipe(
        task=task,
        recipe="as_coded",
        frames=times.frames,
        decay=times.decay,
        erase_movable="ObstructedMaze" in task,
        skip_executed=True,
        model="coded",
        model_noise=True,
        pretrain_epochs=80,
        pretrain_rate=5e-4,
        pretrain_schedule="constant",
        network="coded",
    )


def ours(task: str) -> Recipe:
    """What works best for us: the code's choices, and a deterministic model that reads cells as classes."""
    times = schedule(task)
    return Recipe(
        task=task,
        recipe="gobi",
        frames=times.frames,
        decay=times.slower or times.decay,
        erase_movable="ObstructedMaze" in task,
    )


def compact(recipe: Recipe, **changes: Any) -> Recipe:
    """The same for a machine without an accelerator: a small policy and a small world model.

    Small networks stand a higher learning rate, and shorter unrolls make more of every frame. Options of the
    reward that make it small stay beside others that are given; "" takes them away.
    """
    learner = changes.get("learner", recipe.learner)
    if learner != recipe.learner:
        recipe = _named(recipe, learner)
    reward = changes.get("reward", recipe.reward)
    options = settings.beside(rewards.find(reward).small, changes.pop("reward_options", None))
    return recipe.changed(
        **{
            **_paying(recipe, reward),
            "reward_options": options,
            "network": "compact",
            "model_size": "compact",
            "unroll": 20,
            "learning_rate": 1e-3,
            "count_room": 2**20,
            "pretrain_rate": 2e-3,
            "pretrain_epochs": 5,
            **(ppo_settings(_PPO_COMPACT, changes) if learner == "ppo" else {}),
            **changes,
        }
    )


def _named(whole: Recipe, learner: str) -> Recipe:
    """The recipe of the same name with another learner."""
    return recipe(whole.task, whole.recipe, learner=learner)


def with_ppo(recipe: Recipe, **changes: Any) -> Recipe:
    """The same with PPO: one set of numbers for every task and reward, and no decay of the bonus.

    The bonus is divided by the deviation of its discounted sum and has a value of its own, so that its size
    does not depend on the reward or the task.
    """
    frames = {"frames": PPO_FRAMES.get(_alike(recipe.task), OTHER_PPO_FRAMES)}
    return recipe.changed(**{**ppo_settings(PPO_SETTINGS, changes), **frames, **changes})


def ppo_settings(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """PPO's settings, where other environments or another reward are asked for.

    There are as many minibatches as the environments can be split into.
    """
    envs = changes.get("num_envs", settings["num_envs"])
    # Without a bonus its value is noise, which must not be scaled up into the policy.
    unpaid = {"coefficient": 0.0} if changes.get("reward") == "none" else {}
    # The entropy's weight falls with the learning rate, or not at all.
    steady = {"entropy_decay": "none"} if changes.get("learning_rate_decay") == "none" else {}
    # A rollout must fit; returns are compared with the task's own value, and count where the task does.
    chosen = {**settings, **changes}
    imitated = settings.get("imitation_rows") and chosen["values"] == "two" and chosen["extrinsic"] > 0
    rows = {"imitation_rows": max(settings["imitation_rows"], envs) if imitated else 0}
    return {**settings, **unpaid, **steady, **rows, "minibatches": math.gcd(settings["minibatches"], envs)}


PPO_SETTINGS: dict[str, Any] = {
    "learner": "ppo",
    "core": "mingru",
    "num_envs": 16,
    "unroll": 128,
    "epochs": 4,
    "minibatches": 4,
    "learning_rate": 2e-3,
    "max_grad_norm": 0.5,
    "entropy_cost": 0.06,
    "entropy_decay": "linear",
    "values": "two",
    "scale_bonus": True,
    "coefficient": 1.0,
    "decay": 0.0,
    "extrinsic": 5.0,
    "clip": 0.0,
    "discount": 0.997,
    "imitation_rows": 256,
    "imitation_cost": 0.3,
}

_PPO_COMPACT = {**PPO_SETTINGS, "model_size": "narrow", "pretrain_frames": 50_000, "pretrain_epochs": 10}
"""Ten rounds through 50,000 frames make as good a model as five through 100,000, in fewer frames."""


def quick(**changes: Any) -> Recipe:
    """What `gobi train` does when it is told nothing: a task that two CPU cores solve in a few minutes."""
    task = "MiniGrid-MultiRoom-N4-S5-v1"
    return compact(recipe(task, "gobi"), **{"frames": 120_000, **changes})


NAMES: dict[str, Callable[[str], Recipe]] = {"gobi": ours, "as_coded": as_coded, "as_written": as_written}
"""The recipes, ours first: it is the default."""
