"""How fast training could be on this card: the products of one update over the card's measured rates.

    python benchmarks/floor.py --seeds 1 4 16 --csv floor.csv

Counts the operations and the bytes of every matrix product of one update, acting steps included, from the
traced program; measures how fast this card multiplies large matrices and copies memory; and divides. Bytes
are those of each product's operands and result, once per product: what it moves if nothing stays in a cache.
The larger of the two times is the floor. `benchmarks/training.py` measures how long an update really takes.
"""

from __future__ import annotations

import argparse
import csv
import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import operations  # beside this file
import training
from operations import product_rate, seconds


def main() -> None:
    """Prints and writes one row per number of seeds and precision."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    bandwidth = copy_rate()
    print(f"{jax.devices()[0].device_kind}: copies {bandwidth / 1e12:.2f} TB/s (read plus written)")
    rows = []
    for precision in options.precisions:
        rate = product_rate(jnp.dtype(precision))
        print(f"  products of {precision} matrices: {rate / 1e12:.0f} TFLOP/s")
        for seeds in options.seeds:
            for reward in ("none", "gobi"):
                needed, moved = products(seeds, reward, precision)
                rows.append(
                    {
                        "seeds": seeds,
                        "reward": reward,
                        "precision": precision,
                        "tflop_per_update": round(needed / 1e12, 4),
                        "gb_per_update": round(moved / 1e9, 3),
                        "tflops_measured": round(rate / 1e12, 1),
                        "tb_per_second_measured": round(bandwidth / 1e12, 3),
                        "ms_operations": round(1e3 * needed / rate, 2),
                        "ms_bytes": round(1e3 * moved / bandwidth, 2),
                    }
                )
                print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def products(seeds: int, reward: str, precision: str) -> tuple[int, int]:
    """Operations and bytes of the matrix products of one update of the paper's network on 2Dlh.

    Both grow by the same amount with every seed, so one and two seeds tell of any number.
    """
    one, two = (traced(number, reward, precision) for number in (1, 2))
    needed, moved = (a + (seeds - 1) * (b - a) for a, b in zip(one, two, strict=True))
    return needed, moved


@functools.cache
def traced(seeds: int, reward: str, precision: str) -> tuple[int, int]:
    """The same, counted in the program for so many seeds."""
    settings = ("network=paper", "model=copying", "model_size=paper", "unroll=100")
    case = training.Case("MiniGrid-ObstructedMaze-2Dlh-v0", "impala", reward, seeds, precision, settings)
    loop, arguments = training.begin(case)
    found = list(operations.products(operations.traced(training.several(loop, 1), *arguments).jaxpr))
    return sum(times * each for times, each, _ in found), sum(times * size for times, _, size in found)


def copy_rate(size: int = 2**32) -> float:
    """Bytes read and written per second."""
    return (
        2 * size / seconds(lambda x: x + 1, jax.random.normal(jax.random.key(0), (size // 4,), jnp.float32))
    )


if __name__ == "__main__":
    main()
