"""Stable-Baselines3's PPO on Farama's MiniGrid, for `laptop_peers.py`: environments, settings, model."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium
import minigrid  # noqa: F401  (importing it is what makes its environments known)
import numpy as np
import torch
from minigrid.wrappers import ImgObsWrapper
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

CELL_VALUES = (11, 6, 3)
"""How many values each channel of a MiniGrid cell has: object, colour, state."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a model is trained with, besides Stable-Baselines3's defaults.

    recurrent:  sb3-contrib's RecurrentPPO, one LSTM of 128 units for policy and value.
    falling:    the learning rate falls to zero over the run.
    normalise:  observations and rewards by their running deviation.
    one_hot:    cells as one-hot vectors instead of numbers.
    """

    recurrent: bool = False
    num_envs: int = 8
    n_steps: int = 128
    batch_size: int = 64
    n_epochs: int = 10
    learning_rate: float = 2.5e-4
    falling: bool = False
    gae_lambda: float = 0.95
    gamma: float = 0.99
    clip_range: float = 0.2
    ent_coef: float = 0.0
    max_grad_norm: float = 0.5
    normalise: bool = True
    one_hot: bool = False


OURS = Settings(
    num_envs=16,
    batch_size=512,
    n_epochs=4,
    learning_rate=1e-3,
    falling=True,
    ent_coef=0.03,
    normalise=False,
    one_hot=True,
)

PEERS: dict[str, Settings] = {
    "sb3": Settings(),
    "sb3-same": OURS,
    "sb3-lstm": dataclasses.replace(OURS, recurrent=True),
}
"""The RL Zoo's settings for MiniGrid; the numbers of `gobi train --learner ppo` where both have them; and the
same with a memory, for which the Zoo has none."""


class Curve(Protocol):
    """What is told of a run, and asks it to stop."""

    @property
    def over(self) -> bool:
        """Whether it has gone on for long enough."""
        ...

    def add(self, frames: int, mean_return: float, episodes: int) -> None:
        """A row: frames so far, mean return of the last 100 episodes, and how many have ended."""
        ...


class OneHot(BaseFeaturesExtractor):
    """Flat numbers of 7 x 7 cells as one-hot vectors."""

    def __init__(self, observation_space: gymnasium.Space):
        super().__init__(observation_space, 49 * sum(CELL_VALUES))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """From [n, 147] to [n, 980]."""
        cells = numbers.long().view(len(numbers), -1, len(CELL_VALUES))
        channels = [
            torch.nn.functional.one_hot(cells[..., channel], values).flatten(1)
            for channel, values in enumerate(CELL_VALUES)
        ]
        return torch.cat(channels, dim=1).float()


class Rows(BaseCallback):
    """Hands the task's own returns to a curve after every rollout."""

    def __init__(self, curve: Curve):
        super().__init__()
        self.curve, self.episodes = curve, 0

    def _on_step(self) -> bool:
        self.episodes += sum("episode" in info for info in self.locals["infos"])
        return not self.curve.over

    def _on_rollout_end(self) -> None:
        returns = [episode["r"] for episode in self.model.ep_info_buffer or []]
        self.curve.add(self.num_timesteps, float(np.mean(returns)) if returns else 0.0, self.episodes)


def train(name: str, task: str, seed: int, frames: int, curve: Curve, threads: int) -> dict[str, Any]:
    """Trains one model; returns its settings.

    threads:  of torch; 0 leaves them to it.
    """
    if threads:
        torch.set_num_threads(threads)
    settings = PEERS[name]
    model(settings, environments(settings, task), seed).learn(frames, callback=Rows(curve))
    return dataclasses.asdict(settings) | {"torch_threads": torch.get_num_threads()}


def environments(settings: Settings, task: str) -> VecEnv:
    """The vector environment. `Monitor` lies within, so that returns are the task's."""

    def make() -> gymnasium.Env:
        return Monitor(gymnasium.wrappers.FlattenObservation(ImgObsWrapper(gymnasium.make(task))))

    venv = DummyVecEnv([make] * settings.num_envs)
    return VecNormalize(venv, gamma=settings.gamma) if settings.normalise else venv


def model(settings: Settings, venv: VecEnv, seed: int) -> PPO:
    """PPO, with a memory or without."""
    cells = {"features_extractor_class": OneHot} if settings.one_hot else {}
    memory = {"lstm_hidden_size": 128, "shared_lstm": True, "enable_critic_lstm": False}
    learner: Any = importlib.import_module("sb3_contrib").RecurrentPPO if settings.recurrent else PPO
    return learner(
        "MlpLstmPolicy" if settings.recurrent else "MlpPolicy",
        venv,
        learning_rate=rate(settings),
        n_steps=settings.n_steps,
        batch_size=settings.batch_size,
        n_epochs=settings.n_epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip_range,
        ent_coef=settings.ent_coef,
        max_grad_norm=settings.max_grad_norm,
        policy_kwargs={**cells, **(memory if settings.recurrent else {})},
        # Environments get the seeds from here on: those of two runs shall not overlap.
        seed=1000 * seed,
        device="cpu",
    )


def rate(settings: Settings) -> float | Callable[[float], float]:
    """The learning rate, of the share of the run that is left if it falls."""
    return (lambda left: settings.learning_rate * left) if settings.falling else settings.learning_rate
