"""What SimHash makes of the luck of its draw and of noise: codes of an episode, and growth by noise alone.

    python benchmarks/simhash_noise.py --frames 200 --draws 6

Random play from pixels on the control tasks. For each scaling of the pixels and number of bits: distinct
codes of the frames, from the draw of the projections with the fewest to the one with the most; and how much
a step makes the episode's set grow, of 6, where what is imagined is the very next frame, five times, with
white noise of a deviation of 0.01 (`--noise`), about what a trained world model's pictures are off by. For
`centred` the mean image is that of the same frames. Needs the extra `dmc` and an OpenGL that can draw.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from simhash_pixels import played

from gobi.envs.dmc.tasks import TASKS
from gobi.memory import SimHash
from gobi.worlds.rssm import SHAPE, scaled

COPIES = 5


def main() -> None:
    """Prints a row for each task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=200, help="of an episode")
    parser.add_argument("--draws", type=int, default=6, help="of the projections")
    parser.add_argument(
        "--noise", type=float, default=0.01, help="standard deviation, of pixels in -0.5 .. 0.5"
    )
    parser.add_argument(
        "--codes",
        nargs="+",
        default=["half:50", "half:200", "centred:50", "centred:10", "centred:6"],
        metavar="SCALING:BITS",
    )
    options = parser.parse_args()
    print(f"distinct codes of {options.frames} frames over {options.draws} draws; growth by noise")
    print(
        "| task |" + "".join(f" {name} |" for name in options.codes) + "\n|---|" + "---|" * len(options.codes)
    )
    for task in TASKS:
        frames = played(task, 0, options.frames)
        row = []
        for name in options.codes:
            scaling, bits = name.split(":")
            found = [
                measured(frames, scaling, int(bits), draw, options.noise) for draw in range(options.draws)
            ]
            distinct = [codes for codes, _ in found]
            growth = np.mean([growth for _, growth in found])
            row.append(f"{min(distinct)}-{max(distinct)}; {growth:.2f}")
        print(f"| {task} |" + "".join(f" {cell} |" for cell in row), flush=True)


def measured(frames: np.ndarray, scaling: str, bits: int, draw: int, noise: float) -> tuple[int, float]:
    """Distinct codes of the frames, and the mean growth of a step with noisy copies of the next frame."""
    mean = jnp.asarray(frames.mean(axis=0))
    simhash = SimHash(jax.random.key(draw), SHAPE, bits)
    code = jax.jit(lambda pictures: simhash(scaled(pictures, scaling, mean)))
    real = [tuple(one) for one in np.asarray(code(jnp.asarray(frames))).tolist()]
    random = np.random.default_rng(draw)
    copies = [
        np.asarray(code(jnp.asarray(frames + random.normal(0, noise, frames.shape).astype(np.float32))))
        for _ in range(COPIES)
    ]
    seen: set[tuple[int, ...]] = set()
    growths = []
    for step in range(len(frames) - 1):
        before = len(seen)
        seen.add(real[step])
        seen.update(tuple(one[step + 1].tolist()) for one in copies)
        growths.append(len(seen) - before)
    # The first state's growth earns nothing.
    return len(set(real)), float(np.mean(growths[1:]))


if __name__ == "__main__":
    main()
