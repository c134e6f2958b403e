"""How well trained agents play: whole episodes on levels that they were not trained on, and intervals."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Float64, Int32, Key, UInt8

from gobi.analysis import statistics
from gobi.envs.minigrid import MiniGrid, State, ceilings, numbered_levels
from gobi.training.trained import Trained

STEPS_AT_ONCE = 32
"""Steps between two looks at whether any lane still plays: a good agent needs few of those it may take."""
Z = statistics.Z
"""The 97.5 % point of the normal distribution: intervals are of 95 %."""

Watch = Callable[[Any, "Playing"], Any]
"""Something that is told every state in which a lane stands, and keeps what it wants to know."""


class Playing(eqx.Module):
    """Where one episode in each lane stands; a lane whose episode is over stays there.

    states, observation:  where it is, and what it sees.
    carry:                what the policy remembers.
    total:                the task's reward so far.
    length:               steps so far.
    over:                 whether the episode has ended.
    fresh:                whether the lane came to where it stands with the last step, or started there.
    """

    states: State
    observation: UInt8[Array, "lanes 7 7 3"]
    carry: Any
    total: Float32[Array, " lanes"]
    length: Int32[Array, " lanes"]
    over: Bool[Array, " lanes"]
    fresh: Bool[Array, " lanes"]


def begin(env: MiniGrid, policy: Any, levels: State) -> Playing:
    """All lanes at the start of their levels."""
    lanes = levels.direction.shape[0]
    return Playing(
        states=levels,
        observation=jax.vmap(env.observe)(levels),
        carry=policy.initial(lanes),
        total=jnp.zeros(lanes),
        length=jnp.zeros(lanes, jnp.int32),
        over=jnp.zeros(lanes, bool),
        fresh=jnp.ones(lanes, bool),
    )


def advance(
    env: MiniGrid, policy: Any, playing: Playing, keys: Key[Array, " lanes"], time: Any, greedy: bool
) -> tuple[Playing, Int32[Array, " lanes"]]:
    """One step in the lanes that still play, and the actions. Draws depend on a lane's key and the time."""
    logits, _, carry = policy(playing.observation, playing.length == 0, playing.carry)
    if not greedy:
        shape = logits.shape[-1:]
        logits += jax.vmap(lambda key: jax.random.gumbel(jax.random.fold_in(key, time), shape))(keys)
    action = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    states, timestep = jax.vmap(env.step)(playing.states, action)
    active = ~playing.over

    def kept(new, old):
        return jnp.where(active.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    after = Playing(
        states=jax.tree.map(kept, states, playing.states),
        observation=kept(timestep.observation, playing.observation),
        carry=carry,
        total=playing.total + jnp.where(active, timestep.reward, 0.0),
        length=playing.length + active,
        over=playing.over | timestep.done,
        fresh=active,
    )
    return after, action


@functools.partial(jax.jit, static_argnums=(0, 4, 5))
def play(
    env: MiniGrid,
    policy: Any,
    levels: State,
    keys: Key[Array, " lanes"],
    greedy: bool = False,
    watch: Watch | None = None,
    watched: Any = None,
) -> tuple[Playing, Any]:
    """Exactly one episode in each lane, to its end: lanes with short episodes wait for the others.

    watch:    called with `watched` and where the lanes stand, at the start and after every step.
    watched:  what it keeps, to begin with; the second thing returned is what it has at the end.
    """

    def step(held, time):
        playing, watched = held
        playing, _ = advance(env, policy, playing, keys, time, greedy)
        return (playing, watch(watched, playing) if watch else watched), None

    def steps(held):
        time, *rest = held
        rest, _ = jax.lax.scan(step, tuple(rest), time + jnp.arange(STEPS_AT_ONCE))
        return time + STEPS_AT_ONCE, *rest

    def going_on(held):
        return ~jnp.all(held[1].over)

    playing = begin(env, policy, levels)
    watched = watch(watched, playing) if watch else watched
    _, playing, watched = jax.lax.while_loop(going_on, steps, (jnp.int32(0), playing, watched))
    return playing, watched


def draws(level_seed: int, numbers: Any) -> Key[Array, "..."]:
    """Where the draws of a sampled policy come from on each numbered level, whoever plays beside it."""
    key = jax.random.key(level_seed)
    return jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.asarray(numbers))


@dataclasses.dataclass(frozen=True)
class Score:
    """How one agent did. Intervals are of 95 %.

    success:         the share of episodes that were solved.
    success_within:  Wilson's interval of it.
    mean_return:     the mean of the task's reward per episode.
    return_within:   the normal interval of it; None for a single episode.
    mean_length:     the mean number of steps of an episode.
    """

    seed: int
    episodes: int
    successes: int
    success: float
    success_within: tuple[float, float]
    mean_return: float
    return_within: tuple[float, float] | None
    mean_length: float


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The scores of a run's agents, all on the same levels.

    frames:       what each agent had been trained on.
    level_seed:   whose levels; the levels are 0 .. episodes - 1.
    policy:       sampled from, or greedy.
    best_return:  the best return known in the task.
    """

    task: str
    frames: int
    source: str
    level_seed: int
    policy: str
    best_return: float | None
    scores: tuple[Score, ...]


def evaluate(
    trained: Trained,
    episodes: int = 1000,
    greedy: bool = False,
    num_envs: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Lets each agent play so many episodes, each on a level of its own that was not trained on.

    num_envs:  lanes side by side; changes nothing in the outcome, episode i is always the one on level i.
    progress:  called with the episodes played so far, and how many there will be.
    """
    levels = numbered_levels(trained.env, trained.level_seed, 0, episodes)
    scores = []
    for number, seed in enumerate(trained.seeds):

        def told(done: int, before: int = number * episodes) -> None:
            if progress is not None:
                progress(before + done, len(trained.seeds) * episodes)

        returns, lengths = outcomes(trained, seed, levels, greedy, num_envs, told)
        scores.append(score(seed, returns, lengths))
    known = ceilings.known().get(trained.env.spec.id)
    return Evaluation(
        task=trained.env.spec.id,
        frames=trained.frames,
        source=trained.source.name,
        level_seed=trained.level_seed,
        policy="greedy" if greedy else "sampled",
        best_return=known.best_return if known else None,
        scores=tuple(scores),
    )


def outcomes(
    trained: Trained,
    seed: int,
    levels: State,
    greedy: bool,
    num_envs: int,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Float32[np.ndarray, " episodes"], Int32[np.ndarray, " episodes"]]:
    """Return and length of one agent's episode on each of the levels 0, 1, 2, ..."""
    episodes = levels.direction.shape[0]
    lanes = min(num_envs, episodes)
    policy = trained.actor(seed)
    returns, lengths = [], []
    for first in range(0, episodes, lanes):
        # The last lanes may have nothing left to do: they play again, and are not counted.
        numbers = np.arange(first, first + lanes) % episodes
        some = jax.tree.map(lambda part, numbers=numbers: part[numbers], levels)
        played, _ = play(trained.env, policy, some, draws(trained.level_seed, numbers), greedy)
        returns.append(np.asarray(played.total))
        lengths.append(np.asarray(played.length))
        progress(min(first + lanes, episodes))
    return np.concatenate(returns)[:episodes], np.concatenate(lengths)[:episodes]


def score(seed: int, returns: Sequence[float] | np.ndarray, lengths: Sequence[int] | np.ndarray) -> Score:
    """Means and intervals; a task pays only for success, so an episode with a return is one."""
    rewards = np.asarray(returns, np.float64)
    solved = int(np.sum(rewards > 0))
    return Score(
        seed=seed,
        episodes=len(rewards),
        successes=solved,
        success=solved / len(rewards),
        success_within=wilson(solved, len(rewards)),
        mean_return=float(rewards.mean()),
        return_within=normal(rewards),
        mean_length=float(np.mean(lengths)),
    )


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share: sound at 0 and 1 too, where the normal one has no width."""
    return statistics.wilson(successes / trials, trials)


def normal(values: Float64[np.ndarray, " n"]) -> tuple[float, float] | None:
    """The normal 95 % interval of a mean; a single value tells nothing about how far others lie from it."""
    if len(values) < 2:
        return None
    mean, half = float(values.mean()), Z * float(values.std(ddof=1)) / np.sqrt(len(values))
    return mean - float(half), mean + float(half)
