"""What a bonus costs in a loop on the host: microseconds per step of all environments, beside the plain loop.

    python benchmarks/adapters.py                              # count, rnd and gobi, 8 and 64 environments
    python benchmarks/adapters.py --num-envs 16 --rewards count --environment MiniGrid-Empty-8x8-v0

The plain loop steps the environment with random actions; the others do the same inside of
`gobi.adapters.gymnasium.IntrinsicReward`. By default the environment is Farama's DoorKey-8x8 (Gymnasium's
SyncVectorEnv), whose views are read as they are. `step` is the median of single calls, and `with lessons` the
mean of whole rollouts, in which rewards with networks learn once. Compiling is not in them: the first rollout
is not timed. Needs the extra `minigrid`.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import gymnasium
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from gobi.adapters.gymnasium import IntrinsicReward


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    environment: str = "MiniGrid-DoorKey-8x8-v0"
    """An environment of Gymnasium's registry."""
    num_envs: tuple[int, ...] = (8, 64)
    """Parallel environments."""
    rewards: tuple[str, ...] = ("count", "rnd", "gobi")
    """Which bonuses."""
    steps: int = 512
    """Timed calls of `step`, in whole rollouts."""
    learn_every: int = 128
    """Steps of a rollout."""


def main(settings: Settings) -> None:
    """Prints a table."""
    import minigrid  # noqa: F401  (registers its environments)

    table = Table("environments", "bonus", "step, us", "ratio", "with lessons, us", "ratio", "frames/s")
    for num_envs in settings.num_envs:
        plain = timed(made(settings, num_envs), settings)
        rows = {"none at all": plain}
        for name in settings.rewards:
            env = IntrinsicReward(made(settings, num_envs), name, learn_every=settings.learn_every)
            rows[name] = timed(env, settings)
        for name, (step, mean) in rows.items():
            ratios = f"{step / plain[0]:.2f}", f"{mean / plain[1]:.2f}"
            rate = f"{num_envs / mean * 1e6:,.0f}"
            table.add_row(str(num_envs), name, f"{step:.0f}", ratios[0], f"{mean:.0f}", ratios[1], rate)
    Console().print(table)


def made(settings: Settings, num_envs: int) -> Any:
    """The environments."""
    return gymnasium.make_vec(settings.environment, num_envs=num_envs, vectorization_mode="sync")


def timed(env: Any, settings: Settings) -> tuple[float, float]:
    """Microseconds of a step: the median of single ones, and the mean over whole rollouts."""
    env.reset(seed=0)
    env.action_space.seed(0)
    drawn = [env.action_space.sample() for _ in range(settings.learn_every)]
    took = []
    for number in range(settings.learn_every + settings.steps // settings.learn_every * settings.learn_every):
        begun = time.perf_counter()
        env.step(drawn[number % len(drawn)])
        took.append(time.perf_counter() - begun)
    took = np.array(took[settings.learn_every :]) * 1e6
    return float(np.median(took)), float(took.mean())


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
