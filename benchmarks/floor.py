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
import math
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import training  # beside this file
from jax.extend import core


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
                operations, moved = products(seeds, reward, precision)
                rows.append(
                    {
                        "seeds": seeds,
                        "reward": reward,
                        "precision": precision,
                        "tflop_per_update": round(operations / 1e12, 4),
                        "gb_per_update": round(moved / 1e9, 3),
                        "tflops_measured": round(rate / 1e12, 1),
                        "tb_per_second_measured": round(bandwidth / 1e12, 3),
                        "ms_operations": round(1e3 * operations / rate, 2),
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
    operations, moved = (a + (seeds - 1) * (b - a) for a, b in zip(one, two, strict=True))
    return operations, moved


@functools.cache
def traced(seeds: int, reward: str, precision: str) -> tuple[int, int]:
    """The same, counted in the program for so many seeds."""
    case = training.Case("MiniGrid-ObstructedMaze-2Dlh-v0", "paper", "copying", "paper", reward, precision)
    loop, arguments = training.begin(case, seeds)
    found = list(dots(jax.make_jaxpr(training.several(loop, 1))(*arguments).jaxpr, 1))
    return sum(times * each for times, each, _ in found), sum(times * size for times, _, size in found)


def dots(jaxpr: Any, times: int) -> Iterator[tuple[int, int, int]]:
    """Every matrix product below: how often it runs, its operations, its bytes.

    A scan runs its body as often as it is long. Loops of unknown length count as one turn, branches all.
    """
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            left, right = (variable.aval for variable in equation.invars)
            (contracted, _), _ = equation.params["dimension_numbers"]
            result = equation.outvars[0].aval
            inner = math.prod(left.shape[axis] for axis in contracted)
            size = sum(math.prod(a.shape) * a.dtype.itemsize for a in (left, right, result))
            yield times, 2 * math.prod(result.shape) * inner, size
        inside = times * equation.params["length"] if equation.primitive.name == "scan" else times
        for value in jax.tree.leaves(
            tuple(equation.params.values()), is_leaf=lambda x: isinstance(x, core.Jaxpr | core.ClosedJaxpr)
        ):
            if isinstance(value, core.ClosedJaxpr):
                yield from dots(value.jaxpr, inside)
            elif isinstance(value, core.Jaxpr):
                yield from dots(value, inside)


def product_rate(dtype: Any, size: int = 8192) -> float:
    """Operations per second of products of large random matrices."""
    left, right = (jax.random.normal(jax.random.key(i), (size, size), dtype) for i in range(2))

    def multiply(x):
        return (jnp.matmul(x, right, preferred_element_type=jnp.float32) / size**0.5).astype(dtype)

    return 2 * size**3 / seconds(multiply, left)


def copy_rate(size: int = 2**32) -> float:
    """Bytes read and written per second."""
    return (
        2 * size / seconds(lambda x: x + 1, jax.random.normal(jax.random.key(0), (size // 4,), jnp.float32))
    )


def seconds(function: Callable[[Any], Any], start: Any, turns: int = 10, repeats: int = 5) -> float:
    """The median time of a call, of many in a row on the device: what starting one costs is left out."""
    many = jax.jit(lambda x: jax.lax.fori_loop(0, turns, lambda _, x: function(x), x))
    jax.block_until_ready(many(start))
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(many(start))
        times.append(time.perf_counter() - begun)
    return statistics.median(times) / turns


if __name__ == "__main__":
    main()
