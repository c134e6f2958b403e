"""A film of a trained agent: an episode, what each step earned as a bonus, and what was imagined."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int, Int32, Key, UInt8

from gobi.analysis import panel
from gobi.analysis.evaluation import advance, begin, draws
from gobi.envs.minigrid import MiniGrid, State, numbered_levels, render
from gobi.envs.minigrid.registry import short
from gobi.envs.minigrid.rules import ACTION_NAMES
from gobi.envs.minigrid.state import nth
from gobi.rewards import Count, Positive, Product, Reachability, Reward
from gobi.training import assembly, beforehand, trained
from gobi.training.loop import views
from gobi.training.trained import Trained
from gobi.types import Transition, Views
from gobi.worlds import GridModel


@dataclasses.dataclass(frozen=True)
class Episode:
    """An episode of T steps, from its first state to its last; the arrays are on the host.

    states:   T + 1 of them, stacked.
    views:    what the agent saw in each.
    actions:  what it did in all but the last.
    rewards:  what the task paid for it.
    """

    states: State
    views: UInt8[np.ndarray, "states 7 7 3"]
    actions: Int32[np.ndarray, " steps"]
    rewards: Float32[np.ndarray, " steps"]

    def __str__(self) -> str:
        solved = "solved" if self.rewards.sum() > 0 else "not solved"
        return f"{len(self.actions)} steps, return {self.rewards.sum():.3f}, {solved}"


@dataclasses.dataclass(frozen=True)
class Imagination:
    """What was imagined from each state, and what of it was new to the episode's memory.

    names:    what led to each of the views that are shown, P of them.
    views:    the views; zeros in a last state that does not count.
    counted:  which of them went to the memory.
    new:      which of them the memory had not held.
    more:     how many views further ahead were imagined beside those shown, and were new.
    sizes:    m, the size of the memory after each state.
    """

    names: tuple[str, ...]
    views: UInt8[np.ndarray, "states predictions 7 7 3"]
    counted: Bool[np.ndarray, "states predictions"]
    new: Bool[np.ndarray, "states predictions"]
    more: Int[np.ndarray, " states"]
    sizes: Int[np.ndarray, " states"]


@dataclasses.dataclass(frozen=True)
class Bonus:
    """What the intrinsic reward paid for each step.

    paid:         the bonus.
    factors:      what it is the product of, by name; one alone is the bonus itself.
    imagination:  for rewards that imagine.
    """

    paid: Float32[np.ndarray, " steps"]
    factors: dict[str, Float32[np.ndarray, " steps"]]
    imagination: Imagination | None


def episode(agents: Trained, seed: int, level: int, greedy: bool = False) -> Episode:
    """The episode of an agent on a numbered level that is new to it: the same one that evaluation plays."""
    start = numbered_levels(agents.env, agents.level_seed, level, 1)
    keys = draws(agents.level_seed, [level])
    playing = _play(agents.env, agents.actor(seed), start, keys, greedy)
    states, seen, actions, totals, over = jax.tree.map(lambda part: np.asarray(part)[:, 0], playing)
    steps = int(np.argmax(over))
    rewards = np.diff(totals[: steps + 1])
    return Episode(
        states=jax.tree.map(lambda part: part[: steps + 1], states),
        views=seen[: steps + 1],
        actions=actions[1 : steps + 1],
        rewards=rewards,
    )


def bonus(agents: Trained, folder: Path, seed: int, played: Episode) -> Bonus:
    """Runs the recipe's own intrinsic reward over an episode, all its memories empty at the start."""
    recipe, env = agents.recipe, agents.env
    learned = beforehand.kept(folder, recipe, env)
    reward = assembly.reward(recipe, env, learned.network if learned else None)
    state = reward.init(jax.random.key(agents.level_seed), env.spec, 1)
    state = _with_trained_world(reward, state, agents, seed)
    steps = (played.states, played.views, played.actions, played.rewards)
    factors, raw = jax.device_get(_run(env, reward, state, *jax.tree.map(jnp.asarray, steps)))
    reach = _reachability(reward)
    imagination = _imagination(reach.world, raw, len(played.views)) if reach and raw else None
    return Bonus(np.prod(list(factors.values()), axis=0), factors, imagination)


def frames(agents: Trained, level: int, played: Episode, told: Bonus, most: int) -> list[render.Frame]:
    """The pictures: on the left the level as Farama draws it, on the right what happens; at most so many."""
    env = agents.env
    tile = max(4, panel.SIDE // max(env.generator.size))
    count = min(most, len(played.views))
    actions = played.actions[: count - 1].tolist()
    pictures = render.episode(env, nth(played.states, 0), actions, tile)
    drawer = panel.Panel(
        heading=f"{short(env.spec.id)}, level {level}",
        max_steps=env.spec.max_steps,
        curve="memory m" if told.imagination else "distinct views",
        sizes=(told.imagination.sizes if told.imagination else _distinct_views(played))[:count],
        bonuses=told.paid[: count - 1] if agents.recipe.reward != "none" else None,
    )
    return [drawer.beside(picture, _moment(played, told, at)) for at, picture in enumerate(pictures)]


@functools.partial(jax.jit, static_argnums=(0, 4))
def _play(env: MiniGrid, policy: Any, start: State, keys: Key[Array, " one"], greedy: bool):
    """States, views, actions that led there, rewards so far, and whether it was over; the start first."""

    def step(playing, time):
        playing, action = advance(env, policy, playing, keys, time, greedy)
        return playing, (playing.states, playing.observation, action, playing.total, playing.over)

    first = begin(env, policy, start)
    nothing = jnp.zeros_like(first.length)
    at_start = (first.states, first.observation, nothing, first.total, first.over)
    _, later = jax.lax.scan(step, first, jnp.arange(env.spec.max_steps))
    return jax.tree.map(lambda one, others: jnp.concatenate([one[None], others]), at_start, later)


@eqx.filter_jit
def _run(
    env: MiniGrid,
    reward: Reward,
    state: Any,
    states: State,
    seen: UInt8[Array, "states 7 7 3"],
    actions: Int32[Array, " steps"],
    rewards: Float32[Array, " steps"],
) -> tuple[dict[str, Float32[Array, " steps"]], dict[str, Array] | None]:
    """The factors of each step's bonus, and what was imagined: the episode as a rollout of one lane."""
    states, seen = jax.tree.map(lambda part: part[:, None], (states, seen))
    everything = views(env, reward.reads, states, seen)
    last = jnp.arange(len(actions))[:, None] == len(actions) - 1
    transitions = Transition(
        before=jax.tree.map(lambda part: part[:-1], everything),
        action=actions[:, None],
        after=jax.tree.map(lambda part: part[1:], everything),
        reward=rewards[:, None],
        terminated=last & (rewards[-1] > 0),
        truncated=last & (rewards[-1] <= 0),
    )
    both = isinstance(reward, Product)
    parts = zip((reward.first, reward.second), state, strict=True) if both else [(reward, state)]
    factors = {_name(part): part.rollout(its, transitions)[1][:, 0] for part, its in parts}
    reach = _reachability(reward)
    if reach is None:
        return factors, None
    return factors, _imagine(reach, state[0] if both else state, everything, transitions)


def _name(reward: Reward) -> str:
    names = {Reachability: "growth", Positive: "grew", Count: "lifelong"}
    return names.get(type(reward), type(reward).__name__.lower())


def _reachability(reward: Reward) -> Reachability | None:
    """The part of a reward that imagines; in a product it is the first factor, or inside that."""
    if isinstance(reward, Product):
        return _reachability(reward.first)
    if isinstance(reward, Positive):
        return _reachability(reward.inner)
    return reward if isinstance(reward, Reachability) else None


def _with_trained_world(reward: Reward, state: Any, agents: Trained, seed: int) -> Any:
    """The state with the world model as it was when the checkpoint was made, where it learns along."""
    reach = _reachability(reward)
    if reach is None or not isinstance(reach.world, GridModel) or reach.world.mode == "fixed":
        return state
    both = isinstance(reward, Product)
    own = state[0] if both else state
    world = trained.part(agents, seed, f".state.reward{'[0]' * both}.world", own.world)
    own = eqx.tree_at(lambda its: its.world, own, world)
    return (own, state[1]) if both else own


def _imagine(reach: Reachability, state: Any, seen: Views, transitions: Transition) -> dict[str, Array]:
    """What the reward imagines from each state, with its own draws, and the codes of that."""
    first = jnp.arange(len(transitions.action))[:, None] == 0
    keys = reach.draws(state, first, which=0)[:, 0]
    # Departure credit never counts an episode's last state; arrival credit has other draws after the first.
    if reach.credit == "arrival":
        keys = jnp.concatenate([keys[:1], reach.draws(state, first, which=1)[:, 0]])
    rows = {name: jax.tree.map(lambda part: part[: len(keys), 0], seen[name]) for name in reach.reads}
    imagined, valid = reach.world.imagine(state.world, keys, rows)
    codes = reach.code(jnp.concatenate([rows["observation"][:, None], imagined], axis=1))
    counted = jnp.concatenate([jnp.ones((len(keys), 1), bool), valid], axis=1)
    if state.executed is not None:
        _, allowed = reach.not_executed(state, transitions, first, codes[1:, None, 0])
        counted = counted.at[1:].set(counted[1:] & allowed[:, 0])
    return {"imagined": imagined, "codes": codes, "counted": counted}


def _imagination(world: Any, raw: dict[str, np.ndarray], states: int) -> Imagination:
    """What was new of it, and the memory's size; nothing new in a last state that does not count."""
    names, counted = _names(world), raw["counted"]
    new, sizes = remembered(raw["codes"], counted)
    shown, missing = len(names), states - len(counted)

    def to_the_end(part: np.ndarray) -> np.ndarray:
        return np.concatenate([part, np.zeros((missing, *part.shape[1:]), part.dtype)])

    return Imagination(
        names=names,
        views=to_the_end(raw["imagined"][:, :shown]),
        counted=to_the_end(counted[:, 1 : shown + 1]),
        new=to_the_end(new[:, 1 : shown + 1]),
        more=to_the_end(new[:, shown + 1 :].sum(axis=1)),
        sizes=np.concatenate([sizes, np.repeat(sizes[-1:], missing)]),
    )


def remembered(
    codes: Any, counted: Bool[np.ndarray, "states n"]
) -> tuple[Bool[np.ndarray, "states n"], Int[np.ndarray, " states"]]:
    """Which codes (two integers each) were new when they came, and how many there were after each state."""
    memory: set[tuple[int, int]] = set()
    new, sizes = np.zeros(counted.shape, bool), np.zeros(len(counted), int)
    for row, place in np.ndindex(*counted.shape):
        code = (int(codes[row, place, 0]), int(codes[row, place, 1]))
        new[row, place] = counted[row, place] and code not in memory
        if new[row, place]:
            memory.add(code)
        sizes[row] = len(memory)
    return new, sizes


def _names(world: Any) -> tuple[str, ...]:
    """What led to each of the views one step ahead."""
    if getattr(world, "sampled", 0):
        return tuple(f"draw {number + 1}" for number in range(world.chains))
    samples = getattr(world, "samples", 1)
    actions = [ACTION_NAMES[action] for action in world.actions]
    if samples == 1:
        return tuple(actions)
    return tuple(f"{action} {number + 1}" for action in actions for number in range(samples))


def _moment(played: Episode, told: Bonus, number: int) -> panel.Moment:
    """What the panel beside the picture of one state says."""
    imagination, step = told.imagination, number - 1
    return panel.Moment(
        step=number,
        action=ACTION_NAMES[int(played.actions[step])] if number else "start",
        reward=float(played.rewards[:number].sum()),
        bonus=float(told.paid[step]) if number else None,
        factors={name: float(part[step]) for name, part in told.factors.items() if number},
        view=played.views[number],
        imagined=_pictured(imagination, number) if imagination else None,
        more=int(imagination.more[number]) if imagination else 0,
    )


def _pictured(imagination: Imagination, number: int) -> list[panel.Imagined]:
    rows = (part[number] for part in (imagination.views, imagination.counted, imagination.new))
    each = zip(imagination.names, *rows, strict=True)
    return [panel.Imagined(name, view, bool(counted), bool(new)) for name, view, counted, new in each]


def _distinct_views(played: Episode) -> Int[np.ndarray, " states"]:
    """How many different views there had been when each state was reached."""
    texts = [view.tobytes() for view in played.views]
    return np.array([len(set(texts[: number + 1])) for number in range(len(texts))])
