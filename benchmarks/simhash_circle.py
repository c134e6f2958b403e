"""How much of the pendulum SimHash can see: codes of its frames all the way round, by the draw and the bits.

    python benchmarks/simhash_circle.py

The pendulum is drawn at every degree and coded as GoBI codes real frames. First with the projections that
runs of the seeds 0, 1, ... draw, then with other numbers of bits, twelve draws each. Needs the extra `dmc`
and an OpenGL that can draw.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32

from gobi.envs.dmc import Control
from gobi.rewards.control import hashing
from gobi.training.control import recipes, seat
from gobi.types import Spec
from gobi.worlds.rssm import shrink

TASK = "dmc/pendulum_swingup"
ANGLE = 1
"""Where the saved physics has it, after the time; 0 is upright."""
NEAR = 60
"""Degrees from hanging down that random play reaches, about."""
DEGREES = np.arange(-180, 180)
HANGING = 180 - np.abs(DEGREES) < NEAR
DRAWS = 12


def main() -> None:
    """Prints a row for each seed, then for each number of bits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--bits", type=int, nargs="+", default=[50, 100, 200, 400])
    options = parser.parse_args()
    frames, spec = drawn()
    print(f"distinct codes of {len(DEGREES)} frames, one for each degree; within {NEAR} degrees of hanging")
    for seed, its in enumerate(of_runs(spec, options.seeds)):
        print("seed {}: {}, {}".format(seed, *distinct(its, frames)), flush=True)
    for bits in options.bits:
        keys = jax.random.split(jax.random.key(0), DRAWS)
        counts = np.array([distinct(hashing.of_frames(key, "simhash", bits, "half"), frames) for key in keys])
        low, middle, high = counts.min(axis=0), np.median(counts, axis=0), counts.max(axis=0)
        words = [f"{low[i]} to {high[i]}, median {middle[i]:.0f}" for i in range(2)]
        print(f"{bits} bits: {words[0]}; {words[1]}", flush=True)


def drawn() -> tuple[Float32[np.ndarray, "degrees 64 64 3"], Spec]:
    """The frames, and what is known of the task."""
    environment, seen = Control(TASK, seed=0), []
    environment.reset()
    saved = environment.save()
    for degrees in DEGREES:
        physics = saved["physics"].copy()
        physics[ANGLE] = np.radians(degrees)
        environment.load(saved | {"physics": physics})
        seen.append(environment.frame())
    return np.asarray(shrink(jnp.asarray(np.stack(seen)))), environment.spec


def of_runs(spec: Spec, seeds: int) -> list[hashing.Hashing]:
    """What runs of the seeds 0, 1, ... code with."""
    program = seat.program(recipes.recipe(TASK, reward="gobi"), spec)
    # Compiled, so that nothing else of a run's beginning is worked out.
    begin = jax.jit(lambda seed: program.start(seed).reward.tree[0].hashing)
    return [begin(seed) for seed in range(seeds)]


def distinct(its: hashing.Hashing, frames: Float32[np.ndarray, "degrees 64 64 3"]) -> tuple[int, int]:
    """Codes of all frames, and of those that hang."""
    codes = np.asarray(its(jnp.asarray(frames)))
    return len(np.unique(codes, axis=0)), len(np.unique(codes[HANGING], axis=0))


if __name__ == "__main__":
    main()
