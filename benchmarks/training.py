"""Steps per second of the whole training loop, and where the time goes.

    python benchmarks/training.py --seeds 1 16 --rewards none gobi --csv training.csv
    python benchmarks/training.py --rewards all

Each case is compiled, run once to warm up, and timed over `--updates` updates, several times; the median
counts. The parts (acting, views and bonus, learning) are timed by themselves as well, on the same inputs;
they need not add up to the whole, since the compiler joins what stands side by side. `times_none` is the
time beside training without a bonus, where that was measured in the same run.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import gobi
from gobi.agents import impala
from gobi.envs.minigrid import make_bank
from gobi.rewards.registry import REWARDS
from gobi.training import assembly
from gobi.training import loop as loops
from gobi.training.recipes import recipe as find_recipe
from gobi.worlds import from_settings


def main() -> None:
    """Measures every combination of the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="MiniGrid-ObstructedMaze-2Dlh-v0")
    parser.add_argument("--network", default="paper")
    parser.add_argument("--model", default="copying")
    parser.add_argument("--model-size", default="paper")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--rewards", nargs="+", default=["none", "gobi", "real"], help="all: every one")
    parser.add_argument("--precisions", nargs="+", default=["float32"])
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    print(f"{options.task}, network {options.network}, {jax.devices()[0].device_kind}")
    rewards = [*REWARDS, "real"] if options.rewards == ["all"] else options.rewards
    rows, bare = [], {}
    for seeds, precision, reward in itertools.product(options.seeds, options.precisions, rewards):
        case = Case(options.task, options.network, options.model, options.model_size, reward, precision)
        row = measure(case, seeds, options.updates, options.repeats, options.parts)
        if reward == "none":
            bare[seeds, precision] = row["ms_per_update"]
        if (seeds, precision) in bare:
            row["times_none"] = round(row["ms_per_update"] / bare[seeds, precision], 2)
        rows.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list({name: None for row in rows for name in row}))
            writer.writeheader()
            writer.writerows(rows)


@dataclasses.dataclass(frozen=True)
class Case:
    """What is timed; `reward` is an id of `gobi rewards`, or real: GoBI with the simulator as its world."""

    task: str
    network: str
    model: str
    model_size: str
    reward: str
    precision: str


def begin(case: Case, seeds: int) -> tuple[loops.Loop, tuple[Any, ...]]:
    """The loop, and reward, knobs, bank and state for it."""
    env = gobi.make(case.task)
    recipe = find_recipe(
        case.task,
        network=case.network,
        precision=case.precision,
        reward="gobi" if case.reward == "real" else case.reward,
        world="real" if case.reward == "real" else "learned",
        model=case.model,
        model_size=case.model_size,
    )
    network = None
    if recipe.imagines and recipe.world == "learned":
        network = from_settings(assembly.model_settings(recipe), jax.random.key(0))
    reward = assembly.reward(recipe, env, network)
    loop, knobs = loops.loop(env, recipe), loops.knobs(recipe)
    banks = [make_bank(env, seed, recipe.bank) for seed in range(seeds)]
    bank = jax.tree.map(lambda *parts: jnp.stack(parts), *banks)
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds))
    state = jax.jit(jax.vmap(lambda bank, key: loop.init(reward, bank, key)))(bank, keys)
    return loop, (reward, knobs, bank, state)


def several(loop: loops.Loop, updates: int) -> Callable[..., Any]:
    """Some updates of all seeds as one function of reward, knobs, bank and state."""

    def run(reward, knobs, bank, state):
        return jax.vmap(lambda bank, state: loop.updates(reward, knobs, bank, state, updates))(bank, state)

    return run


def measure(case: Case, seeds: int, updates: int, repeats: int, in_parts: bool) -> dict[str, Any]:
    """One case: steps per second in total, milliseconds per update, and the parts if asked for."""
    loop, (reward, knobs, bank, state) = begin(case, seeds)
    begun = time.perf_counter()
    run = jax.jit(several(loop, updates), donate_argnums=3)
    compiled = run.lower(reward, knobs, bank, state).compile()
    compiling = time.perf_counter() - begun
    times = []
    for _ in range(repeats + 1):
        begun = time.perf_counter()
        state, metrics = compiled(reward, knobs, bank, state)
        jax.block_until_ready(metrics)
        times.append(time.perf_counter() - begun)
    each = statistics.median(times[1:]) / updates
    row: dict[str, Any] = {
        "seeds": seeds,
        "reward": case.reward,
        "precision": case.precision,
        "steps_per_second": round(seeds * loop.frames_per_update / each),
        "ms_per_update": round(1000 * each, 2),
        "compile_seconds": round(compiling, 1),
    }
    if in_parts:
        row |= parts(loop, reward, knobs, bank, state)
    return row


def parts(loop: Any, reward: Any, knobs: Any, bank: Any, state: Any) -> dict[str, float]:
    """Milliseconds of acting, views and bonus, and learning, each compiled by itself."""

    def act(bank, state):
        return loop._act(bank, state, state.key)

    acting = jax.jit(jax.vmap(act))
    acted, *_ = acting(bank, state)

    def pay(reward, state, acted):
        return reward.rollout(state.reward, loop._transitions(reward.reads, acted))

    paying = jax.jit(jax.vmap(pay, in_axes=(None, 0, 0)))

    def study(reward, state, acted):
        return reward.learn(state.reward, state.key, loop._transitions(reward.reads, acted))[1]

    studying = jax.jit(jax.vmap(study, in_axes=(None, 0, 0)))

    precision = getattr(loop.learner, "precision", "float32")

    def learn(knobs, state, acted):
        unroll = impala.Unroll(
            observations=jnp.concatenate([acted.observation, acted.observation[-1:]]),
            first=jnp.concatenate([acted.first, acted.first[-1:]]),
            actions=acted.action,
            logits=acted.noted,
            rewards=acted.reward,
            terminal=acted.terminated,
            carry=state.carry,
        )
        return impala.learn(state.policy, state.optimiser, unroll, knobs.hyper, 1e-4, precision)

    learning = jax.jit(jax.vmap(learn, in_axes=(None, 0, 0)))

    def tell(state, acted):
        return loops.episodes.add(loop.env, state.episodes, loops._walk(acted))

    telling = jax.jit(jax.vmap(tell))
    return {
        "ms_act": milliseconds(acting, bank, state),
        "ms_bonus": milliseconds(paying, reward, state, acted),
        "ms_world_metrics": milliseconds(studying, reward, state, acted),
        "ms_learn": milliseconds(learning, knobs, state, acted),
        "ms_episodes": milliseconds(telling, state, acted),
    }


def milliseconds(function: Callable[..., Any], *arguments: Any, repeats: int = 10) -> float:
    """The median time of a call."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - begun)
    return round(1000 * statistics.median(times), 2)


if __name__ == "__main__":
    main()
