"""Trained agents: the policies of a run, from its newest checkpoint or a snapshot, without all the rest."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

import gobi
from gobi.agents import registry
from gobi.envs.minigrid import MiniGrid
from gobi.errors import GobiError
from gobi.training import checkpoints, run
from gobi.training.recipe import AnyRecipe, Recipe, from_json

POLICY = ".state.policy"
"""Where the policies are in the tree of a checkpoint."""
NEW_LEVELS = 2**30
"""The levels that an agent is looked at on are those of a seed this far from its own: half the way round."""

K = TypeVar("K", bound="Kept")


@dataclasses.dataclass(frozen=True)
class Kept:
    """What a checkpoint says of the agents in it, before any weight is read.

    recipe:      how they were trained.
    seeds:       whose agents are wanted.
    frames:      what each of them had been trained on.
    source:      the checkpoint.
    level_seed:  where levels or episodes come from that none of the run's agents was trained on.
    places:      where each agent lies in the checkpoint.
    """

    recipe: AnyRecipe
    seeds: tuple[int, ...]
    frames: int
    source: Path
    level_seed: int
    places: tuple[int, ...]

    @classmethod
    def found(cls: type[K], folder: Path, wanted: Sequence[int] = (), checkpoint: str | None = None) -> K:
        """The agents of a run.

        folder:      the run's folder.
        wanted:      only these of the run's seeds; by default all.
        checkpoint:  the name of a checkpoint; by default the newest.
        """
        source = checkpoints.chosen(run.Folder(folder).checkpoints, checkpoint)
        if source is None:
            raise GobiError(f"{folder} has no checkpoint yet: wait for the first, or gobi resume {folder}")
        facts = checkpoints.facts(source)
        # The checkpoint's own recipe: what is in the folder may have been edited since.
        recipe, seeds = from_json(facts["recipe"]), tuple(facts["seeds"])
        asked = run.planned(run.Folder(folder)).seeds
        if asked != seeds:
            raise GobiError(
                f"{run.Folder(folder).run} is altered: it has the seeds {list(asked)}, "
                f"the checkpoint {source} has {list(seeds)}"
            )
        chosen = tuple(wanted) or seeds
        places = tuple(seeds.index(known_seed(one, seeds)) for one in chosen)
        return cls(recipe, chosen, facts["frames"], source, new_levels(seeds), places)


@dataclasses.dataclass(frozen=True)
class Trained:
    """The agents of a run, as they were after so many frames.

    env:         the task.
    recipe:      how they were trained.
    seeds:       whose agents these are.
    policy:      their weights, one agent after the other along the first axis.
    frames:      what each of them had been trained on.
    source:      the checkpoint or snapshot.
    level_seed:  the seed of levels that none of the run's agents was trained on.
    """

    env: MiniGrid
    recipe: Recipe
    seeds: tuple[int, ...]
    policy: Any
    frames: int
    source: Path
    level_seed: int

    def actor(self, seed: int) -> Any:
        """One agent, in the precision in which it acted while it was trained."""
        place = self.seeds.index(known_seed(seed, self.seeds))
        return jax.tree.map(lambda part: part[place].astype(self.recipe.precision), self.policy)


def load(folder: Path, seed: int | Sequence[int] | None = None, checkpoint: str | None = None) -> Trained:
    """The agents of a run; of one that was stripped for the zoo, the one that was kept.

    folder:      the run's folder.
    seed:        only this one of the run's seeds, or only these; by default all.
    checkpoint:  the name of a checkpoint; by default the newest.
    """
    _refuse_control(run.planned(run.Folder(folder)).recipe, folder)
    wanted = () if seed is None else (seed,) if isinstance(seed, int) else seed
    alone = run.Folder(folder).policy
    if alone.exists() and checkpoint is None:
        agents = load_snapshot(folder, alone)
        for one in wanted:
            known_seed(one, agents.seeds)
        return agents
    kept = Kept.found(folder, wanted, checkpoint)
    recipe = cast(Recipe, kept.recipe)
    env = gobi.make(recipe.task)
    seeds = len(checkpoints.facts(kept.source)["seeds"])
    policy = checkpoints.load(kept.source, shapes(env, recipe, seeds), within=POLICY)
    policy = jax.tree.map(lambda part: part[np.array(kept.places)], policy)
    return Trained(env, recipe, kept.seeds, policy, kept.frames, kept.source, kept.level_seed)


def part(agents: Trained, seed: int, within: str, like: Any) -> Any:
    """Another part of the checkpoint that the agents come from, of one seed.

    within:  where it is in the checkpoint's tree, such as `.state.reward.world`.
    like:    its structure: arrays of the same shapes and dtypes.
    """
    seeds = tuple(checkpoints.facts(agents.source)["seeds"])
    stacked = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((len(seeds), *jnp.shape(leaf)), jnp.asarray(leaf).dtype), like
    )
    place = seeds.index(known_seed(seed, seeds))
    return jax.tree.map(lambda leaf: leaf[place], checkpoints.load(agents.source, stacked, within))


def snapshots(folder: Path) -> list[Path]:
    """The snapshots of a run, oldest first: the policy of its first seed along the way."""
    place = run.Folder(folder)
    _refuse_control(run.planned(place).recipe, folder)
    whole = [path for path in place.snapshots.glob("*.safetensors") if path.with_suffix(".json").is_file()]
    return sorted(path for path in whole if path.stem.isdecimal())


def load_snapshot(folder: Path, snapshot: Path) -> Trained:
    """The agent in a snapshot of a run, or in any other file with one seed's policy alone."""
    plan = run.planned(run.Folder(folder))
    facts = checkpoints.facts(snapshot)
    env = gobi.make(plan.recipe.task)
    one = jax.eval_shape(lambda: _new(env, plan.recipe, jax.random.key(0)))
    policy = jax.tree.map(lambda part: part[None], checkpoints.load_weights(snapshot, one))
    levels = new_levels(plan.seeds)
    return Trained(env, plan.recipe, (facts["seed"],), policy, facts["frames"], snapshot, levels)


def shapes(env: MiniGrid, recipe: Recipe, seeds: int) -> Any:
    """The structure of so many policies, one after the other along the first axis."""
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), seeds))
    return jax.eval_shape(jax.vmap(lambda key: _new(env, recipe, key)), keys)


def _new(env: MiniGrid, recipe: Recipe, key: Any) -> Any:
    """A fresh policy of the recipe's learner."""
    return registry.build(recipe).init(key, env.spec, recipe.num_envs)[0]


def new_levels(seeds: tuple[int, ...]) -> int:
    """The seed of the levels on which a run's agents are looked at: the same for all, and none of theirs."""
    number = (seeds[0] + NEW_LEVELS) % 2**31
    while number in seeds:
        number = (number + 1) % 2**31
    return number


def _refuse_control(recipe: AnyRecipe, folder: Path) -> None:
    if not isinstance(recipe, Recipe):
        raise GobiError(f"{folder} was trained on {recipe.task}, and this looks at runs on grids only")


def known_seed(seed: int, seeds: tuple[int, ...]) -> int:
    """The seed, if a run with these seeds has it."""
    if seed not in seeds:
        raise GobiError(f"no agent of seed {seed} in this run: it has {', '.join(map(str, seeds))}")
    return seed
