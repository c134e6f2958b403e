"""How well a task can be played at all: the share of levels that can be solved, and the best return known.

The solver behind these numbers knows the whole grid and what is in the boxes, so an agent that has to look
around first stays below them.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from gobi.envs.minigrid import bank, rules, solver
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.state import State
from gobi.errors import GobiError

EFFORT = 20_000
"""How hard the solver looks for shorter plans; enough to be sure of the shortest but for a few levels."""


@dataclasses.dataclass(frozen=True)
class Ceiling:
    """What the solver reached on the levels 0 .. levels - 1 of a seed.

    levels:          how many levels.
    seed:            whose.
    solvable_share:  how many of them can be solved at all, as a share.
    solved_share:    how many the solver did solve, within the task's step limit.
    best_return:     its mean return over all levels, those that cannot be solved counting 0.
    mean_steps:      its mean number of steps on the levels it solved.
    """

    levels: int
    seed: int
    solvable_share: float
    solved_share: float
    best_return: float
    mean_steps: float


def measure(
    env: MiniGrid,
    levels: int,
    seed: int,
    effort: int = EFFORT,
    after_each: Callable[[], object] | None = None,
) -> Ceiling:
    """Solves levels of a task and plays the plans through `env.step`, so that a wrong plan earns nothing.

    after_each:  called after each level is solved, for progress bars.
    """
    if levels < 1:
        raise GobiError(f"a ceiling needs at least one level, got {levels}")
    made = jax.tree.map(np.asarray, bank.numbered_levels(env, seed, 0, levels))
    solvable, plans = 0, []
    for number in range(levels):
        level = jax.tree.map(lambda array, number=number: array[number], made)
        solvable += solver.solvable(level)
        plans.append(solver.solve(level, effort) or [])
        if after_each:
            after_each()
    returns, solved = play(env, made, plans)
    steps = np.array([len(plan) for plan in plans])
    return Ceiling(
        levels=levels,
        seed=seed,
        solvable_share=solvable / levels,
        solved_share=float(solved.mean()),
        best_return=float(returns.mean(dtype=np.float64)),
        mean_steps=float(steps[solved].mean()) if solved.any() else 0.0,
    )


def play(
    env: MiniGrid, levels: State, plans: list[list[int]]
) -> tuple[Float32[np.ndarray, " levels"], Bool[np.ndarray, " levels"]]:
    """The return of each plan on its level, and whether it solved it before the episode was over."""
    longest = max([1, *(len(plan) for plan in plans)])
    actions = np.full((len(plans), longest), rules.DONE, np.int32)
    for row, plan in zip(actions, plans, strict=True):
        row[: len(plan)] = plan
    returns = np.asarray(_returns(env, levels, jnp.asarray(actions)))
    return returns, returns > 0


@functools.partial(jax.jit, static_argnums=0)
def _returns(
    env: MiniGrid, levels: State, actions: Int32[Array, "levels steps"]
) -> Float32[Array, " levels"]:
    def one(level: State, plan: Int32[Array, " steps"]) -> Float32[Array, ""]:
        def step(carry, action):
            state, total, over = carry
            state, timestep = env.step(state, action)
            return (state, total + jnp.where(over, 0.0, timestep.reward), over | timestep.done), None

        start = (level, jnp.float32(0), jnp.bool_(False))
        (_, total, _), _ = jax.lax.scan(step, start, plan)
        return total

    return jax.vmap(one)(levels, actions)


def known() -> dict[str, Ceiling]:
    """The ceilings that come with gobi, by the id of the task; `benchmarks/task_ceilings.py` made them."""
    text = importlib.resources.files("gobi.envs.minigrid").joinpath("ceilings.json").read_text("utf-8")
    names = [field.name for field in dataclasses.fields(Ceiling)]
    return {
        task: Ceiling(**{name: entry[name] for name in names}) for task, entry in json.loads(text).items()
    }
