"""`gobi demo`: random agents on a task, how fast they are, and what the task looks like."""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, Key, UInt8

import gobi
from gobi.analysis import pictures
from gobi.cli.arguments import TaskName, at_least, check_seed
from gobi.cli.output import new_folder, progress_bar
from gobi.cli.play import follow, numbered_level
from gobi.cli.terminal import say, show
from gobi.envs.minigrid import (
    Bank,
    Lanes,
    MiniGrid,
    Stepper,
    has_room,
    make_bank,
    refill,
    render,
    rules,
    solver,
)
from gobi.errors import MissingExtra

UNROLL = 64
"""Steps that every lane takes between two looks at the bank."""


def demo(
    task: TaskName = "MiniGrid-KeyCorridorS4R3-v0",
    /,
    *,
    num_envs: int = 1024,
    steps: int = 2_000_000,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Lets random agents loose on a task, and draws the level and its solution.

    Args:
        task: the task; `gobi tasks` lists them.
        num_envs: how many episodes run side by side.
        steps: how many steps to take, all lanes together; rounded up to whole unrolls.
        seed: the levels, and what the agents do.
        out: a new folder for what is written; by default runs/demo, runs/demo-2, ...
    """
    env = gobi.make(task)
    at_least("--num-envs", num_envs, 1)
    at_least("--steps", steps, 1)
    check_seed(seed)
    folder = new_folder(out, "demo")
    folder.mkdir(parents=True, exist_ok=True)

    say(f"{env.spec.id} on {jax.devices()[0]}: {num_envs} random agents")
    result = measure(env, num_envs, steps, seed)
    show(result.rows())
    summary = folder / "summary.json"
    summary.write_text(
        json.dumps({"task": env.spec.id, "seed": seed, **dataclasses.asdict(result)}, indent=1)
    )
    written = [summary]
    try:
        written += _pictures(env, seed, folder)
    except MissingExtra as error:
        say(f"no pictures: {error}")
    say(f"written: {', '.join(map(str, written))}")


@dataclasses.dataclass(frozen=True)
class Result:
    """What the random agents did, and how long it took.

    `seconds` is how long they played, refills of the bank included; `start_seconds` is what came before:
    making levels and compiling.
    """

    num_envs: int
    steps: int
    episodes: int
    successes: int
    mean_return: float | None
    levels_used: int
    levels_distinct: int
    levels_repeated: int
    seconds: float
    start_seconds: float

    def rows(self) -> list[tuple[str, str]]:
        """The table."""
        return [
            ("steps", f"{self.steps:,}"),
            ("episodes", f"{self.episodes:,}"),
            ("of which solved", f"{self.successes:,}"),
            ("mean return", "-" if self.mean_return is None else f"{self.mean_return:.4f}"),
            ("levels used", f"{self.levels_used:,}"),
            ("of which distinct", f"{self.levels_distinct:,}"),
            ("of which repeated", f"{self.levels_repeated:,}"),
            ("steps per second", f"{self.steps / self.seconds:,.0f}"),
            ("seconds", f"{self.seconds:.1f}"),
            ("seconds to start", f"{self.start_seconds:.1f}"),
        ]


def measure(env: MiniGrid, num_envs: int, steps: int, seed: int) -> Result:
    """Runs random agents for at least so many steps, with progress on standard error."""
    stepper = Stepper(env, num_envs)
    unrolls = -(-steps // (UNROLL * num_envs))
    keys = jax.random.split(jax.random.key(seed), unrolls)
    sums = np.zeros(3)
    with progress_bar() as progress:
        bar = progress.add_task("compiling", total=None)

        def partly_made(levels: int, capacity: int) -> None:
            progress.update(bar, description="making levels", completed=levels, total=capacity)

        begun = time.perf_counter()
        bank = make_bank(env, seed, capacity=2 * num_envs, progress=partly_made)
        lanes, _ = stepper.reset(bank)
        run = jax.jit(functools.partial(_unroll, stepper)).lower(bank, lanes, keys[0]).compile()
        fill = jax.jit(functools.partial(refill, env)).lower(bank, lanes.queue).compile()
        compiled = time.perf_counter()

        progress.update(bar, description="playing", completed=0, total=unrolls)
        for key in keys:
            lanes, found, _ = run(bank, lanes, key)
            sums += np.asarray(found)
            if has_room(env, bank, lanes.queue):
                bank, queue = fill(bank, lanes.queue)
                lanes = Lanes(lanes.states, lanes.reachable, queue)
            progress.advance(bar)
        seconds = time.perf_counter() - compiled
    episodes, successes = int(sums[0]), int(sums[1])
    return Result(
        num_envs=num_envs,
        steps=unrolls * UNROLL * num_envs,
        episodes=episodes,
        successes=successes,
        mean_return=float(sums[2]) / episodes if episodes else None,
        levels_used=int(lanes.queue.taken),
        levels_distinct=int(lanes.queue.distinct),
        levels_repeated=int(lanes.queue.repeated),
        seconds=seconds,
        start_seconds=compiled - begun,
    )


def _unroll(
    stepper: Stepper, bank: Bank, lanes: Lanes, key: Key[Array, ""]
) -> tuple[Lanes, Float32[Array, " 3"], UInt8[Array, "unroll envs 7 7 3"]]:
    """Takes UNROLL random steps in each lane. Returns three sums: episodes ended, successes, returns.

    The observations are returned too, as a learner would have them: XLA leaves out what nobody looks at, and
    the speed would be that of an environment without a view.
    """

    def step(lanes: Lanes, actions: Int32[Array, " envs"]):
        lanes, after = stepper.step(bank, lanes, actions)
        # A task pays once, at the end: the rewards of an unroll are the returns of the episodes it ends.
        sums = jnp.stack([jnp.sum(after.done), jnp.sum(after.reward > 0), jnp.sum(after.reward)])
        return lanes, (sums, after.observation)

    actions = jax.random.randint(key, (UNROLL, stepper.num_envs), 0, rules.NUM_ACTIONS)
    lanes, (found, observations) = jax.lax.scan(step, lanes, actions)
    return lanes, jnp.sum(found, axis=0), observations


def _pictures(env: MiniGrid, seed: int, folder: Path) -> list[Path]:
    """Draws the seed's first level, and the way through it if there is one."""
    start = numbered_level(env, seed, 0)
    picture, film = folder / "level.png", folder / "episode.gif"
    pictures.save(picture, [render.frame(env, start)])
    plan = solver.solve(start)
    if plan is None:
        say("level 0 cannot be solved: no film of its solution")
        return [picture]
    episode = follow(env, start, plan)
    pictures.save(film, render.episode(env, start, episode.actions))
    say(f"level 0 by the scripted solver: {episode}")
    return [picture, film]
