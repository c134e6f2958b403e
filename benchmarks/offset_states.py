"""How coarse codes of states are: distinct ones in an episode of random play on each control task.

    python benchmarks/offset_states.py --bits 8 16 32 50

States are in units of their spread about their mean, as the world of GoBI from the state gives them; codes
are signs of random planes (`gobi.memory.offset_codes`). For each number of bits: the lowest and the highest
count over episodes and draws of the planes, and the median.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from gobi.envs.dmc import Control
from gobi.envs.dmc.tasks import TASKS, short
from gobi.memory.offset_codes import OffsetHash
from gobi.worlds.predictor_layers import unseen


def main() -> None:
    """Prints a row for each task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bits", type=int, nargs="+", default=[8, 16, 32, 50])
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--draws", type=int, default=4, help="of the planes")
    options = parser.parse_args()
    print("| task | numbers |", " | ".join(f"{bits} bits" for bits in options.bits), "|")
    print("|---|--:|", "|".join("--:" for _ in options.bits), "|", sep="")
    for task in TASKS:
        episodes = played(task, options.episodes)
        told = []
        for bits in options.bits:
            counts = [distinct(episode, bits, draw) for draw in range(options.draws) for episode in episodes]
            told.append(f"{min(counts)}-{max(counts)}, {np.median(counts):.0f}")
        print(f"| {short(task)} | {episodes[0].shape[1]} |", " | ".join(told), "|", flush=True)


def played(task: str, count: int) -> list[np.ndarray]:
    """The states of so many episodes of uniform actions, standardised."""
    env, rng, episodes = Control(task, seed=0, observations="state"), np.random.default_rng(0), []
    for _ in range(count):
        states, over = [env.reset()], False
        while not over:
            step = env.step(rng.uniform(-1, 1, env.spec.action_size).astype(np.float32))
            states.append(step.observation)
            over = step.terminated or step.truncated
        episodes.append(np.stack(states))
    standard = unseen(env.spec.observation_shape[0]).noticing(jnp.asarray(np.concatenate(episodes)))
    return [np.asarray(standard(jnp.asarray(episode))) for episode in episodes]


def distinct(states: np.ndarray, bits: int, draw: int) -> int:
    """How many codes states have."""
    codes = OffsetHash(jax.random.key(draw), states.shape[1:], bits)(jnp.asarray(states))
    return len(np.unique(np.asarray(codes), axis=0))


if __name__ == "__main__":
    main()
