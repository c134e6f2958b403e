"""How coarse SimHash is on frames: distinct codes of an episode and bits that vary, by the pixels' scaling.

    python benchmarks/simhash_pixels.py --frames 500 --episodes 3

Random play from pixels on the five control tasks; frames are made 64x64 and coded by 50 signs of random
projections, several draws of them. For `centred` the mean image is that of the same frames. Needs the extra
`dmc` and an OpenGL that can draw.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int64

from gobi.envs.dmc.environment import Control
from gobi.envs.dmc.tasks import TASKS
from gobi.memory import SimHash
from gobi.memory.learned_codes import CodeSettings, LearnedCodes
from gobi.worlds.rssm import SCALINGS, SHAPE, scaled, shrink

VARYING = 0.02
"""A bit varies if it is set in at least this share of the frames, and not set in as many."""


def main() -> None:
    """Prints a row for each task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=500, help="of an episode")
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--hashes", type=int, default=3, help="draws of the projections")
    parser.add_argument("--bits", type=int, default=50)
    parser.add_argument("--learned", type=int, default=0, help="steps for learned codes; 0: leave them out")
    options = parser.parse_args()
    names = [*SCALINGS, "learned"] if options.learned else [*SCALINGS]
    print(f"distinct codes of {options.frames} frames (bits that vary), from least to most")
    print("| task |" + "".join(f" {name} |" for name in names) + "\n|---|" + "---|" * len(names))
    for task in TASKS:
        episodes = [played(task, seed, options.frames) for seed in range(options.episodes)]
        row = [by_scaling(episodes, scaling, options.hashes, options.bits) for scaling in SCALINGS]
        if options.learned:
            row.append(by_learning(episodes, options.learned, options.bits))
        print(f"| {task} |" + "".join(f" {cell} |" for cell in row), flush=True)


def played(task: str, seed: int, frames: int) -> Float32[np.ndarray, "frames 64 64 3"]:
    """The first frames of an episode of uniformly random actions, small."""
    environment = Control(task, seed)
    rng = np.random.default_rng(seed)
    seen = [environment.reset()]
    while len(seen) < frames:
        action = rng.uniform(-1, 1, environment.spec.action_size).astype(np.float32)
        seen.append(environment.step(action).observation)
    return np.asarray(shrink(jnp.asarray(np.stack(seen))))


def by_scaling(episodes: list[np.ndarray], scaling: str, hashes: int, bits: int) -> str:
    """Distinct codes and varying bits over episodes and draws of the projections, in words."""
    mean = jnp.asarray(np.concatenate(episodes).mean(axis=0))
    codes = [
        signs(SimHash(jax.random.key(number), SHAPE, bits)(scaled(jnp.asarray(frames), scaling, mean)), bits)
        for number in range(hashes)
        for frames in episodes
    ]
    return in_words(codes)


def by_learning(episodes: list[np.ndarray], steps: int, bits: int) -> str:
    """The same with codes learned from these frames, 64 of them at a time."""
    frames, rng = np.concatenate(episodes), np.random.default_rng(0)
    codes = LearnedCodes.init(jax.random.key(0), CodeSettings(bits=bits))
    learn = jax.jit(LearnedCodes.learn)
    for step in range(steps):
        batch = frames[rng.integers(0, len(frames), 64)]
        codes, _ = learn(codes, jax.random.key(step), jnp.asarray(batch))
    return in_words([signs(codes(jnp.asarray(frames)), bits) for frames in episodes])


def signs(codes: jax.Array, bits: int) -> Int64[np.ndarray, "frames bits"]:
    """The bits of each code."""
    words = np.asarray(codes).astype(np.int64)
    return np.stack([(words[:, bit // 32] >> (bit % 32)) & 1 for bit in range(bits)], axis=1)


def in_words(episodes: list[np.ndarray]) -> str:
    """Distinct codes of each episode and bits that vary in it, from least to most."""
    distinct = [len(np.unique(one, axis=0)) for one in episodes]
    shares = [one.mean(axis=0) for one in episodes]
    varying = [int(np.sum((one >= VARYING) & (one <= 1 - VARYING))) for one in shares]
    return f"{min(distinct)}-{max(distinct)} ({min(varying)}-{max(varying)})"


if __name__ == "__main__":
    main()
