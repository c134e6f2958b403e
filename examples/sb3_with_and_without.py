"""Stable-Baselines3's PPO with and without a GoBI bonus on three sparse tasks, all else being equal.

    python examples/sb3_with_and_without.py --task doorkey --bonus gobi --seed 0 --out results/adapters
    python examples/sb3_with_and_without.py --summarise results/adapters

A run writes DIR/TASK-BONUS-SEED/curve.csv and card.json; `--summarise` reads all of them, draws one figure
and prints one table. Needs: pip install 'gobi[sb3,minigrid,plot]'.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import importlib.metadata
import json
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_figure import summarise
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecEnvWrapper, VecNormalize

COLUMNS = ("steps", "return", "success", "length", "episodes", "share", "bonus", "seconds", "bonus_seconds")
CELL_VALUES = (11, 6, 3)
"""How many values each channel of a MiniGrid cell has: object, colour, state."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A task with the settings that both arms share, and the size of the bonus that one of them gets.

    coefficient:  the bonus is multiplied by it.
    decay:        and by (1 - decay) to the power of the frames so far.
    solved:       a mean return of the last 100 episodes that counts as solved.
    initial_spread:  the standard deviation that continuous actions begin with.
    normalise:    whether observations are normalised; rewards always are.
    """

    id: str
    coefficient: float
    decay: float
    solved: float
    steps: int = 300_000
    num_envs: int = 16
    n_steps: int = 128
    batch_size: int = 256
    n_epochs: int = 4
    learning_rate: float = 1e-3
    gamma: float = 0.99
    entropy: float = 0.01
    initial_spread: float = 1.0
    normalise: bool = False


TASKS = {
    "doorkey": Task("MiniGrid-DoorKey-8x8-v0", coefficient=0.002, decay=5e-6, solved=0.9),
    "keycorridor": Task("MiniGrid-KeyCorridorS3R2-v0", coefficient=0.002, decay=5e-6, solved=0.8),
    "mountaincar": Task(
        "MountainCarContinuous-v0",
        coefficient=2.0,
        decay=2e-5,
        solved=90.0,
        n_steps=256,
        learning_rate=3e-4,
        entropy=0.0,
        initial_spread=0.3,
        normalise=True,
    ),
}


class OneHot(BaseFeaturesExtractor):
    """MiniGrid's 7 x 7 cells as one-hot vectors, for an ordinary MLP."""

    def __init__(self, observation_space: gymnasium.Space):
        super().__init__(observation_space, 49 * sum(CELL_VALUES))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """From [n, 3, 7, 7] (Stable-Baselines3 puts channels first) to [n, 980]."""
        channels = [
            torch.nn.functional.one_hot(image[:, channel].long(), values).flatten(1)
            for channel, values in enumerate(CELL_VALUES)
        ]
        return torch.cat(channels, dim=1).float()


class Stopwatch(VecEnvWrapper):
    """Adds up the time that steps of what it wraps take."""

    def __init__(self, venv: VecEnv):
        super().__init__(venv)
        self.seconds = 0.0

    def reset(self) -> Any:
        """Passes it on."""
        return self.venv.reset()

    def step_wait(self) -> Any:
        """Passes it on, in time."""
        start = time.perf_counter()
        stepped = self.venv.step_wait()
        self.seconds += time.perf_counter() - start
        return stepped


class Curve(BaseCallback):
    """Writes a line of the curve after every rollout: the task's own return, never the bonus's."""

    def __init__(self, path: Path, inner: Stopwatch, outer: Stopwatch, minutes: float):
        super().__init__()
        self.most_seconds = 60 * minutes
        self.path, self.inner, self.outer = path, inner, outer
        self.rows: list[tuple[float, ...]] = []
        self.paid, self.paid_steps = np.zeros(2), 0
        self.start = time.perf_counter()

    def _on_training_start(self) -> None:
        self.start = time.perf_counter()

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            self.paid_steps += 1
            self.paid += abs(info.get("intrinsic_reward", 0.0)), abs(info.get("extrinsic_reward", 0.0))
        return time.perf_counter() - self.start < self.most_seconds

    def _on_rollout_end(self) -> None:
        episodes = list(self.model.ep_info_buffer or [])
        returns = np.array([episode["r"] for episode in episodes])
        row = (
            self.num_timesteps,
            float(returns.mean()) if len(returns) else 0.0,
            # In all three tasks an episode's return is positive exactly where its goal was reached.
            float((returns > 0).mean()) if len(returns) else 0.0,
            float(np.mean([episode["l"] for episode in episodes])) if episodes else 0.0,
            len(episodes),
            float(self.paid[0] / max(self.paid.sum(), 1e-12)),
            float(self.paid[0] / self.paid_steps),
            time.perf_counter() - self.start,
            self.outer.seconds - self.inner.seconds,
        )
        self.rows.append(row)
        self.paid[:] = self.paid_steps = 0
        with self.path.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *self.rows])


def make_one(task: Task) -> gymnasium.Env:
    """One environment; `Monitor` lies under the bonus, so its statistics are the task's own."""
    if not task.id.startswith("MiniGrid"):
        return Monitor(gymnasium.make(task.id))
    # Importing it is what makes its environments known to Gymnasium.
    from minigrid.wrappers import ImgObsWrapper

    return Monitor(ImgObsWrapper(gymnasium.make(task.id)))


def make(task: Task, bonus: str, seed: int) -> tuple[VecEnv, Stopwatch, Stopwatch]:
    """The vector environment, with the bonus or without, and the clocks on either side of the bonus."""
    inner = outer = Stopwatch(DummyVecEnv([lambda: make_one(task)] * task.num_envs))
    if bonus != "none":
        from gobi.adapters.stable_baselines3 import IntrinsicVecEnv

        outer = Stopwatch(
            IntrinsicVecEnv(inner, bonus, coefficient=task.coefficient, decay=task.decay, seed=seed)
        )
    # Outside of the bonus: rewards are divided by the spread of returns, bonus and all, in both arms.
    return VecNormalize(outer, norm_obs=task.normalise, gamma=task.gamma), inner, outer


def learner(task: Task, venv: VecEnv, seed: int) -> PPO:
    """PPO, with the task's settings."""
    grid = {"features_extractor_class": OneHot, "normalize_images": False}
    return PPO(
        "MlpPolicy",
        venv,
        learning_rate=task.learning_rate,
        n_steps=task.n_steps,
        batch_size=task.batch_size,
        n_epochs=task.n_epochs,
        gamma=task.gamma,
        ent_coef=task.entropy,
        policy_kwargs=(grid if task.id.startswith("MiniGrid") else {})
        | {"log_std_init": float(np.log(task.initial_spread))},
        # Environments get the seeds from here on: those of two runs shall not overlap.
        seed=1000 * seed,
        device="cpu",
    )


def run(name: str, task: Task, bonus: str, seed: int, out: Path, minutes: float = 600.0) -> Path:
    """One run; returns its folder."""
    folder = out / f"{name}-{bonus}-{seed}"
    folder.mkdir(parents=True, exist_ok=False)
    venv, inner, outer = make(task, bonus, seed)
    curve = Curve(folder / "curve.csv", inner, outer, minutes)
    model = learner(task, venv, seed)
    model.learn(task.steps, callback=curve)
    (folder / "card.json").write_text(json.dumps(card(name, task, bonus, seed, curve), indent=2) + "\n")
    return folder


def card(name: str, task: Task, bonus: str, seed: int, curve: Curve) -> dict[str, Any]:
    """What was run, with what, how long it took and where it ended."""
    last = dict(zip(COLUMNS, curve.rows[-1], strict=True))
    # The first rollout compiles; the cost of a step is that of all later ones.
    first = dict(zip(COLUMNS, curve.rows[0], strict=True))
    later = max(last["steps"] - first["steps"], 1)
    packages = ("gobi", "stable_baselines3", "torch", "jax", "gymnasium", "minigrid", "numpy")
    return {
        "task": name,
        "bonus": bonus,
        "seed": seed,
        "command": shlex.join(["python", *sys.argv]),
        "settings": dataclasses.asdict(task),
        "versions": {package: importlib.metadata.version(package) for package in packages},
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} torch thread(s)",
        "seconds": round(last["seconds"], 1),
        "steps_per_second": round(last["steps"] / last["seconds"]),
        "bonus_seconds_first_rollout": round(first["bonus_seconds"], 2),
        "bonus_microseconds_per_step": round(
            1e6 * (last["bonus_seconds"] - first["bonus_seconds"]) / later, 1
        ),
        "final": {key: round(last[key], 4) for key in ("steps", "return", "success", "length")},
        "steps_to_solved": steps_to_solved(curve.rows, task.solved),
    }


def steps_to_solved(rows: list[tuple[float, ...]], solved: float) -> float | None:
    """When the mean return was first as high as that: of 100 episodes, since short ones end first."""
    steps, returns, episodes = (COLUMNS.index(name) for name in ("steps", "return", "episodes"))
    return next((row[steps] for row in rows if row[episodes] >= 100 and row[returns] >= solved), None)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=TASKS, help="which of the three tasks")
    parser.add_argument("--bonus", choices=("gobi", "none"), default="gobi")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--steps", type=int, help="of all environments together; default: the task's own number"
    )
    parser.add_argument("--coefficient", type=float, help="of the bonus; default: the task's own")
    parser.add_argument("--decay", type=float, help="of the bonus; default: the task's own")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so many, with what there is")
    parser.add_argument("--out", type=Path, default=Path("sb3_runs"), help="folder of all runs")
    parser.add_argument("--summarise", type=Path, metavar="DIR", help="draw and tabulate the runs in there")
    arguments = parser.parse_args()
    if arguments.summarise:
        print(summarise(arguments.summarise, {name: task.id for name, task in TASKS.items()}))
        return
    if arguments.task is None:
        parser.error("--task is needed, or --summarise")
    torch.set_num_threads(1)
    given = {"steps": arguments.steps, "coefficient": arguments.coefficient, "decay": arguments.decay}
    asked = {name: value for name, value in given.items() if value is not None}
    task = dataclasses.replace(TASKS[arguments.task], **asked)
    folder = run(arguments.task, task, arguments.bonus, arguments.seed, arguments.out, arguments.minutes)
    print((folder / "card.json").read_text(), end="")


if __name__ == "__main__":
    main()
