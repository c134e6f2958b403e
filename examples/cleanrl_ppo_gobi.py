"""PPO with a GoBI bonus in one file: Gymnasium's vector environments, PyTorch, and two lines of gobi.

    python examples/cleanrl_ppo_gobi.py --env-id MiniGrid-DoorKey-6x6-v0 --bonus gobi

The two lines are marked. The bonus is in the reward before advantages are computed, so it is discounted and
bootstrapped as everything else is. Needs: pip install 'gobi[gymnasium,minigrid]' torch.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium.vector import AutoresetMode
from minigrid.wrappers import ImgObsWrapper
from torch import nn

from gobi.adapters.gymnasium import IntrinsicReward  # 1

CELL_VALUES = (11, 6, 3)
"""How many values each channel of a MiniGrid cell has: object, colour, state."""


@dataclasses.dataclass
class Args:
    """What can be set."""

    env_id: str = "MiniGrid-DoorKey-6x6-v0"
    """A MiniGrid task."""
    bonus: str = "gobi"
    """An id of `gobi rewards`, path/file.py:Class, or none."""
    coefficient: float = 0.001
    """What the bonus is multiplied with."""
    decay: float = 5e-6
    """And by (1 - decay) to the power of the frames so far."""
    total_steps: int = 200_000
    num_envs: int = 16
    num_steps: int = 128
    learning_rate: float = 1e-3
    epochs: int = 4
    minibatches: int = 8
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    seed: int = 0


class Agent(nn.Module):
    """A policy and a value over one-hot cells."""

    def __init__(self, actions: int):
        super().__init__()
        inputs = 49 * sum(CELL_VALUES)
        self.actor = nn.Sequential(
            _layer(inputs, 64), nn.Tanh(), _layer(64, 64), nn.Tanh(), _layer(64, actions, 0.01)
        )
        self.critic = nn.Sequential(
            _layer(inputs, 64), nn.Tanh(), _layer(64, 64), nn.Tanh(), _layer(64, 1, 1.0)
        )

    def forward(self, image: torch.Tensor) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        """The policy at observations [n, 7, 7, 3], and their values [n]."""
        channels = [
            nn.functional.one_hot(image[..., channel].long(), values).flatten(1)
            for channel, values in enumerate(CELL_VALUES)
        ]
        cells = torch.cat(channels, dim=1).float()
        return torch.distributions.Categorical(logits=self.actor(cells)), self.critic(cells).squeeze(1)


def _layer(inputs: int, outputs: int, scale: float = 2**0.5) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, scale)
    nn.init.zeros_(layer.bias)
    return layer


class Tally:
    """Returns of the last 100 episodes, by the task's own reward."""

    def __init__(self, num_envs: int):
        self.running = np.zeros(num_envs)
        self.returns: deque[float] = deque(maxlen=100)

    def add(self, reward: np.ndarray, done: np.ndarray) -> None:
        """One step of all environments."""
        self.running += reward
        self.returns.extend(self.running[done])
        self.running[done] = 0


def make(args: Args) -> IntrinsicReward:
    """The environments, with the bonus on them."""
    env = gymnasium.make_vec(
        args.env_id,
        args.num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        wrappers=[ImgObsWrapper],
    )
    return IntrinsicReward(
        env, args.bonus, coefficient=args.coefficient, decay=args.decay, seed=args.seed
    )  # 2


@torch.no_grad()
def collect(agent: Agent, env: IntrinsicReward, seen: np.ndarray, tally: Tally, args: Args):
    """A rollout, and where the environments stand after it.

    Of each step: observation, action, its log-probability, advantage and return.
    """
    steps = []
    for _ in range(args.num_steps):
        policy, value = agent(torch.as_tensor(seen))
        action = policy.sample()
        after, reward, terminated, truncated, infos = env.step(action.numpy())
        done = terminated | truncated
        tally.add(infos["extrinsic_reward"], done)
        # An episode that ran out of time could have gone on: its last state's value stands for the rest.
        if truncated.any():
            last = torch.as_tensor(np.stack(infos["final_obs"][truncated]))
            reward[truncated] += args.gamma * agent(last)[1].numpy() * ~terminated[truncated]
        kept = torch.as_tensor(seen), action, policy.log_prob(action), value
        steps.append((*kept, torch.as_tensor(reward).float(), torch.as_tensor(done).float()))
        seen = after
    observation, action, log_prob, value, reward, done = (
        torch.stack(part) for part in zip(*steps, strict=True)
    )
    following = torch.cat([value[1:], agent(torch.as_tensor(seen))[1][None]])
    advantage = torch.zeros_like(reward)
    carried = torch.zeros(args.num_envs)
    for step in reversed(range(args.num_steps)):
        goes_on = 1 - done[step]
        error = reward[step] + args.gamma * goes_on * following[step] - value[step]
        carried = error + args.gamma * args.gae_lambda * goes_on * carried
        advantage[step] = carried
    flat = [part.flatten(0, 1) for part in (observation, action, log_prob, advantage, advantage + value)]
    return flat, seen


def update(agent: Agent, optimiser: torch.optim.Optimizer, rollout: list[torch.Tensor], args: Args) -> None:
    """Some epochs of PPO's clipped loss."""
    rows = len(rollout[0])
    for _ in range(args.epochs):
        for part in torch.randperm(rows).chunk(args.minibatches):
            observation, action, old, advantage, target = (array[part] for array in rollout)
            policy, value = agent(observation)
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            ratio = (policy.log_prob(action) - old).exp()
            clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
            gain = torch.min(ratio * advantage, clipped * advantage).mean()
            loss = 0.5 * (value - target).square().mean() - gain - args.entropy * policy.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimiser.step()


def main(args: Args) -> None:
    """Trains, and prints a line now and then."""
    torch.manual_seed(args.seed)
    env = make(args)
    agent = Agent(gymnasium.spaces.flatdim(env.single_action_space))
    optimiser = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    seen, _ = env.reset(seed=args.seed)
    tally, start = Tally(args.num_envs), time.perf_counter()
    batch = args.num_envs * args.num_steps
    for number in range(1, args.total_steps // batch + 1):
        rollout, seen = collect(agent, env, seen, tally, args)
        update(agent, optimiser, rollout, args)
        if number % 5 == 0:
            mean = np.mean(tally.returns) if tally.returns else 0.0
            speed = number * batch / (time.perf_counter() - start)
            share = env.bonus.metrics.get("bonus_share", 0.0)
            print(f"{number * batch:>8,} steps  return {mean:.3f}  bonus {share:.0%}  {speed:,.0f} steps/s")


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
