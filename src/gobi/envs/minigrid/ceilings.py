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
from jaxtyping import Array, Float32, Int32

from gobi.envs.minigrid import bank, rules, solver
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.state import State, nth
from gobi.errors import GobiError

EFFORT = 20_000
"""How hard the solver looks for shorter plans: several times what any level was seen to need."""


@dataclasses.dataclass(frozen=True)
class Ceiling:
    """What can be reached in a task, measured on the first levels of a seed.

    levels:          how many levels were solved and played.
    counted:         how many were looked at for the share that can be solved.
    seed:            whose levels.
    solvable_share:  the share of levels that can be solved at all.
    best_return:     the solver's mean return on the levels that can be solved, times their share.
    mean_steps:      its mean number of steps on the levels that can be solved.
    failures:        levels that can be solved, but were not, within the step limit; they count 0 as well.
    """

    levels: int
    counted: int
    seed: int
    solvable_share: float
    best_return: float
    mean_steps: float
    failures: int


def measure(
    env: MiniGrid,
    levels: int,
    seed: int,
    counted: int | None = None,
    effort: int = EFFORT,
    after_each: Callable[[], object] | None = None,
) -> Ceiling:
    """Solves levels of a task and plays the plans through `env.step`, so that a wrong plan earns nothing.

    counted:     levels to look at for the share that can be solved, if more than `levels`: looking is quick,
                 and it takes many levels to measure a rare defect.
    effort:      see `solver.solve`.
    after_each:  called after each level is solved, for progress bars.
    """
    counted = max(levels, counted or 0)
    if levels < 1:
        raise GobiError(f"a ceiling needs at least one level, got {levels}")
    made = jax.tree.map(np.asarray, bank.numbered_levels(env, seed, 0, counted))
    solvable = np.array([solver.solvable(nth(made, number)) for number in range(counted)])
    plans: list[list[int]] = []
    for number in np.flatnonzero(solvable[:levels]).tolist():
        plans.append(solver.solve(nth(made, number), effort) or [])
        if after_each:
            after_each()
    if not plans:
        return Ceiling(levels, counted, seed, float(solvable.mean()), 0.0, 0.0, 0)
    returns = play(env, jax.tree.map(lambda array: array[:levels][solvable[:levels]], made), plans)
    won, steps = returns > 0, np.array([len(plan) for plan in plans])
    return Ceiling(
        levels=levels,
        counted=counted,
        seed=seed,
        solvable_share=float(solvable.mean()),
        best_return=float(solvable.mean() * returns.mean(dtype=np.float64)),
        mean_steps=float(steps[won].mean()) if won.any() else 0.0,
        failures=int(np.sum(~won)),
    )


def play(env: MiniGrid, levels: State, plans: list[list[int]]) -> Float32[np.ndarray, " levels"]:
    """What each plan earns on its level: 0 unless it ends in success before the step limit."""
    longest = max(1, *map(len, plans))
    actions = np.full((len(plans), longest), rules.DONE, np.int32)
    for row, plan in zip(actions, plans, strict=True):
        row[: len(plan)] = plan
    return np.asarray(_returns(env, levels, jnp.asarray(actions)))


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
