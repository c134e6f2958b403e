"""`gobi train` and `gobi resume`: training runs, with their progress and what came of them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import numpy as np
import tyro

from gobi.analysis import curves
from gobi.cli import plot
from gobi.cli.advising import Advising
from gobi.cli.arguments import RunFolder, Switch, TaskName, at_least, seeds_from
from gobi.cli.bars import bars
from gobi.cli.output import new_folder
from gobi.cli.terminal import say, show
from gobi.cli.watch import watch
from gobi.envs import host
from gobi.envs.dmc import rendering
from gobi.envs.dmc import tasks as control_tasks
from gobi.envs.minigrid import ceilings, registry
from gobi.errors import GobiError, MissingExtra, require
from gobi.rewards import own
from gobi.rewards import registry as rewards
from gobi.rewards.control import registry as control_rewards
from gobi.training import assembly, named, recipes, run
from gobi.training.control import assembly as control_assembly
from gobi.training.control import recipes as control_recipes
from gobi.training.control.recipe import ControlRecipe
from gobi.training.host import seat as host_seat
from gobi.training.host.recipe import HostRecipe
from gobi.training.named import AnyTask
from gobi.training.recipe import Recipe
from gobi.training.trainer import Row

Settings = Annotated[
    tuple[str, ...], tyro.conf.arg(name="set", metavar="FIELD=VALUE"), tyro.conf.UseAppendAction
]


HOMES: dict[type[AnyTask], str] = {
    Recipe: "grids",
    ControlRecipe: "control tasks, dmc/...",
    HostRecipe: "Gymnasium's tasks, gym/...",
}
"""The kinds of recipes, and the tasks that take them."""


def train(
    task: TaskName = "",
    /,
    *,
    reward: str = "",
    recipe: str = "gobi",
    learner: str = "",
    world: Literal["real", "learned", ""] = "",
    network: Literal["paper", "coded", "compact", "feedforward", "recurrent", ""] = "",
    observations: Literal["pixels", "state", ""] = "",
    frames: str = "",
    extrinsic: float | None = None,
    seed: int = 0,
    seeds: int = 1,
    settings: Settings = (),
    out: Path | None = None,
    deterministic: Switch = False,
    checkpoint_seconds: float = run.CHECKPOINT_SECONDS,
) -> None:
    """Trains an agent on a task; without arguments, on one that a laptop solves in minutes.

    Args:
        task: the task, for example KeyCorridorS3R3 or dmc/hopper_hop; `gobi tasks` lists them. Any task of
            Gymnasium's is gym/ID.
        reward: the intrinsic reward; by default the recipe's. `gobi rewards` lists them. Your own is
            FILE.py:CLASS, on grids and Gymnasium's tasks.
        recipe: gobi (ours), as_coded (the paper's public code, on grids) or as_written (its text).
        learner: what learns from the rewards, impala or ppo; by default the recipe's. `gobi learners` lists
            them. Control tasks have one of their own.
        world: on grids, imagine with the simulator itself, or with a learned model; by default the recipe's.
        network: the policy's network: on grids paper, coded or compact, by default the recipe's, or compact
            on a CPU; on Gymnasium's tasks feedforward or recurrent.
        observations: on control tasks, what the agent sees; by default pixels.
        frames: environment steps in all, such as 8e6; by default the recipe's.
        extrinsic: weight of the task's own reward; 0 explores without a task.
        seed: the first seed.
        seeds: how many, side by side in one process.
        settings: changes one field of the recipe; may be given several times. `gobi recipe TASK` prints all.
        out: a new folder for what is written; by default one in runs/.
        deterministic: repeat bit for bit on a GPU too, at some cost in speed.
        checkpoint_seconds: time between checkpoints.
    """
    numbers = seeds_from(seed, seeds)
    at_least("--checkpoint-seconds", checkpoint_seconds, 0)
    if deterministic:
        make_deterministic()
    given = read_settings(
        task,
        settings,
        reward=reward,
        learner=learner,
        world=world,
        network=network,
        observations=observations,
        frames=frames,
        extrinsic="" if extrinsic is None else str(extrinsic),
    )
    chosen = choose(task, recipe, given)
    plan = run.Plan(chosen, numbers, deterministic)
    _refuse_what_cannot_start(chosen)
    paid = own.short(chosen.reward) if own.is_own(chosen.reward) else chosen.reward
    folder = run.Folder(new_folder(out, f"{_short(chosen)}-{paid}"))
    run.begin(folder, plan)
    go(folder, plan, checkpoint_seconds=checkpoint_seconds)
    if not task:
        _film(folder.path)


def resume(
    folder: RunFolder,
    /,
    *,
    checkpoint: str | None = None,
    checkpoint_seconds: float = run.CHECKPOINT_SECONDS,
) -> None:
    """Goes on with a run that was stopped, bit for bit as if it never had been.

    Args:
        folder: the run's folder.
        checkpoint: the name of an earlier checkpoint to go on from; by default the last one.
        checkpoint_seconds: time between checkpoints.
    """
    at_least("--checkpoint-seconds", checkpoint_seconds, 0)
    place = run.Folder(folder)
    plan = run.planned(place)
    if place.policy.exists():
        raise GobiError(
            f"{folder} holds a policy alone, and not what it takes to go on: gobi train {plan.recipe.task}"
        )
    if plan.deterministic:
        make_deterministic()
    if checkpoint is None and run.finished(place, plan):
        say(f"{folder} is finished: {plan.recipe.all_frames:,} frames")
        return
    go(place, plan, checkpoint, checkpoint_seconds)


def recipe(
    task: TaskName,
    /,
    *,
    reward: str = "",
    recipe: str = "gobi",
    learner: str = "",
    observations: Literal["pixels", "state", ""] = "",
    settings: Settings = (),
) -> None:
    """Prints a whole recipe as JSON: every setting of a run. On a CPU `gobi train` changes what suits it.

    Args:
        task: the task.
        reward: the intrinsic reward; by default the recipe's.
        recipe: gobi (ours), as_coded (the paper's public code, on grids) or as_written (its text).
        learner: impala or ppo, but for control tasks; by default the recipe's.
        observations: on control tasks, what the agent sees; by default pixels.
        settings: changes one field; may be given several times.
    """
    given = read_settings(task, settings, reward=reward, learner=learner, observations=observations)
    print(named.recipe(task, recipe, **given).to_json())


def choose(task: str, name: str, given: dict[str, Any]) -> AnyTask:
    """The recipe: what was given, else what fits the machine, else what the named recipe says."""
    if not task:
        return recipes.quick(**given)
    if jax.default_backend() == "cpu" and name == "gobi":
        if named.kind(task) is Recipe:
            return recipes.compact(recipes.recipe(task, name), **given)
        if named.kind(task) is ControlRecipe:
            return control_recipes.on_a_cpu(control_recipes.recipe(task, name, **given), **given)
    return named.recipe(task, name, **given)


def read_settings(task: str, words: Sequence[str], **flags: str) -> dict[str, Any]:
    """FIELD=VALUE words as settings, and flags that are named like fields; empty ones were not given.

    What only tasks of another kind have is called so. Of two words for a field the later one counts, as in a
    command to which something was added; a flag that contradicts a word is refused.
    """
    mine = named.kind(task)
    by_flag = [f"{name}={value}" for name, value in flags.items() if value]
    for word in [*words, *by_flag]:
        _refuse_what_belongs_elsewhere(task, word)
    given = mine.read_settings(words)
    for name, value in mine.read_settings(by_flag).items():
        if given.setdefault(name, value) != value:
            raise GobiError(f"{name} is given twice: --set {name}={given[name]} and --{name} {value}")
    if own.is_own(given.get("reward", "")):
        # A run belongs to the file as it is now.
        given["reward"] = own.pinned(given["reward"])
    return given


def _refuse_what_belongs_elsewhere(task: str, word: str) -> None:
    """A setting that tasks of this kind do not have may be a reward's option, or one of other tasks."""
    mine, name = named.kind(task), word.partition("=")[0]
    fields = {kind: {field.name for field in dataclasses.fields(kind)} for kind in HOMES}
    if name in fields[mine]:
        return
    known = control_rewards if mine is ControlRecipe else rewards
    if owners := [reward for reward in known.REWARDS if name in known.defaults(reward)]:
        rest = ", ".join(owners)
        raise GobiError(f"{name} is an option of rewards ({rest}): write --set reward_options={word}")
    if homes := [home for kind, home in HOMES.items() if name in fields[kind]]:
        raise GobiError(f"{name} is a setting of {homes[0]}: {task or 'this task'} has none")


def _short(recipe: AnyTask) -> str:
    """The task in the name of a folder."""
    kinds = {Recipe: registry, ControlRecipe: control_tasks, HostRecipe: host}
    return kinds[type(recipe)].short(recipe.task)


def _refuse_what_cannot_start(recipe: AnyTask) -> None:
    """Says what is wrong, or missing on this machine, before anything is written."""
    if isinstance(recipe, ControlRecipe):
        require("dm_control", extra="dmc")
        rendering.choose(needed=recipe.observations == "pixels")
        control_assembly.check(recipe)
    elif isinstance(recipe, HostRecipe):
        lanes = host.make(recipe.task, 1)
        host_seat.reward(recipe, lanes.spec)
        lanes.close()
    elif own.is_own(recipe.reward):
        assembly.reward(recipe, registry.make(recipe.task))


def make_deterministic() -> None:
    """Asks XLA to repeat itself bit for bit; heeded only before the first computation of a process."""
    flag = "--xla_gpu_deterministic_ops=true"
    if flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()


def go(
    folder: run.Folder,
    plan: run.Plan,
    checkpoint: str | None = None,
    checkpoint_seconds: float = run.CHECKPOINT_SECONDS,
) -> None:
    """Trains, with bars and a table at the end."""
    recipe: AnyTask = plan.recipe
    seeds = f"seed {plan.seeds[0]}" if len(plan.seeds) == 1 else f"seeds {plan.seeds[0]} to {plan.seeds[-1]}"
    say(f"{recipe.in_words}, {seeds}, {recipe.all_frames:,} frames on {jax.devices()[0]}")
    say(f"writing to {folder.path}")
    if getattr(recipe, "observations", "") == "pixels" and jax.default_backend() == "cpu":
        say("from pixels without a GPU this is slow; --observations state learns in minutes")
    if isinstance(recipe, ControlRecipe) and recipe.too_short_to_imagine:
        first = recipe.world_prefill * recipe.action_repeat
        say(f"note: the world model learns from {first:,} frames on; in a shorter run nothing is imagined")
    try:
        with bars() as shown:
            outcome = run.go(folder, plan, _listening(shown, folder, recipe), checkpoint, checkpoint_seconds)
    except run.Stopped:
        say(f"stopped and saved: gobi resume {folder.path} goes on from there")
        raise
    except KeyboardInterrupt:
        say(f"stopped at once: gobi resume {folder.path} goes on from what was saved before, if anything was")
        raise
    _tell(folder, outcome)


def _listening(shown: run.Listener, folder: run.Folder, recipe: AnyTask) -> run.Listener:
    """With advice on the bonus's size, unless the learner scales the bonus by itself."""
    if getattr(recipe, "scale_bonus", False):
        return shown
    return Advising(shown, folder, recipe.coefficient, recipe.reward, recipe.frames_per_action)


def _film(folder: Path) -> None:
    """A newcomer wants to see the agent at once."""
    try:
        watch(folder)
    except MissingExtra as error:
        say(f"no film: {error}")


ON_GRIDS = {
    "return": "return",
    "success": "success",
    "length": "length",
    "rooms": "rooms",
    "reachable_share": "reached",
    "distinct": "distinct",
}
ON_CONTROL = {
    "return": "return",
    "training_return": "in training",
    "success": "success",
    "updates": "updates",
}
ON_HOST = {"return": "return", "length": "length", "success": "success", "episodes": "episodes"}
"""Metrics in the table at the end, and what they are called there."""


def _tell(folder: run.Folder, outcome: run.Outcome) -> None:
    """The table per seed, and where everything lies."""
    recipe, row = outcome.plan.recipe, outcome.row
    names = {ControlRecipe: ON_CONTROL, HostRecipe: ON_HOST}.get(type(recipe), ON_GRIDS)
    known = ceilings.known().get(recipe.task)
    best = [f"{known.best_return:.3f}" if known else "-"] if names is ON_GRIDS else []
    rows = [
        [str(seed), f"{outcome.frames:,}", *[_number(name, row, place) for name in names], *best]
        for place, seed in enumerate(outcome.plan.seeds)
    ]
    headings = ("seed", "frames", *names.values(), *["best known"] * len(best))
    show(rows, headings, numbers=headings)
    minutes = outcome.seconds / 60
    per_second = outcome.frames * len(outcome.plan.seeds) / max(outcome.seconds, 1e-9)
    say(f"{minutes:.1f} minutes of training, {per_second:,.0f} steps per second")
    written = [folder.metrics, folder.card, folder.recipe, folder.checkpoints, *draw_curves(folder)]
    say(f"written: {', '.join(map(str, written))}")


def draw_curves(folder: run.Folder) -> list[Path]:
    """Draws a run's curves, where that can be done, and returns what was written."""
    try:
        curves.plot([folder.path], folder.curves, panels=plot.usual_panels([folder.path]))
    except MissingExtra as error:
        say(f"no curves: {error}")
        return []
    return [folder.curves]


def _number(name: str, row: Row, place: int) -> str:
    value = float(row[name][place]) if name in row else float("nan")
    if np.isnan(value):
        return "-"
    if name in ("success", "reachable_share"):
        return f"{value:.0%}"
    if name == "return" and abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:,.0f}" if name in ("distinct", "updates", "episodes") else f"{value:.1f}"
