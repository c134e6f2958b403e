"""What the steps of a control episode earn as a bonus, and what was imagined for it."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int, UInt8, UInt32

from gobi.agents.rad import Batch
from gobi.analysis.control_episode import Episode, kept
from gobi.analysis.film import remembered
from gobi.rewards.control import ControlReward, Reachability, Replayed
from gobi.training.control import seat
from gobi.training.control.trained import ControlTrained
from gobi.types import Transition
from gobi.worlds.rssm import RSSM


@dataclasses.dataclass(frozen=True)
class Imagination:
    """What the world model makes of each state, and what of it was new to the episode's memory.

    reconstructed:  its own picture of each state; None of a world that draws none, as of state vectors.
    frames:         what it imagines one step ahead, after n random actions; None likewise.
    new:            which of those the memory had not held.
    own_new:        whether it had not held the state's own frame.
    more:           how many frames further ahead were imagined besides, and were new.
    counted:        whether anything imagined from the state went to the memory.
    sizes:          m, the size of the memory after each state.
    """

    reconstructed: UInt8[np.ndarray, "states 64 64 3"] | None
    frames: UInt8[np.ndarray, "states n 64 64 3"] | None
    new: Bool[np.ndarray, "states n"]
    own_new: Bool[np.ndarray, " states"]
    more: Int[np.ndarray, " states"]
    counted: Bool[np.ndarray, " states"]
    sizes: Int[np.ndarray, " states"]


@dataclasses.dataclass(frozen=True)
class Bonus:
    """What the intrinsic reward pays for each step.

    paid:         the bonus.
    factors:      what it is the product of, by name: `growth` as it is stored when the step is made, others
                  as they are when the episode is replayed right after its end.
    imagination:  for rewards that imagine.
    """

    paid: Float32[np.ndarray, " steps"]
    factors: dict[str, Float32[np.ndarray, " steps"]]
    imagination: Imagination | None


class Lived(NamedTuple):
    """What is to be seen of one step: states are the one left and the one reached, or only the first.

    stored:         the bonus as it is stored with the step.
    reconstructed:  both states.
    frames:         what is imagined one step ahead, of the states whose codes count in this step.
    codes:          the state's own and of all that is imagined, likewise.
    """

    stored: Float32[Array, ""]
    reconstructed: UInt8[Array, "2 64 64 3"] | None
    frames: UInt8[Array, "states n 64 64 3"] | None
    codes: UInt32[Array, "states codes 2"] | None


def bonus(agents: ControlTrained, seed: int, played: Episode) -> Bonus:
    """What the agent's own intrinsic reward pays for an episode, as if it followed upon the checkpoint."""
    program = seat.program(agents.recipe, played.spec)
    shapes, reward, reach = program.shapes(), program.reward, _reachability(program.reward)
    # The checkpoint may have been made in the middle of an episode.
    state = jax.jit(reward.begin)(kept(agents, seed, "reward", shapes.reward), played.observations[0])
    slots = _slots(agents, seed, shapes.replay, len(played.actions))
    counts = reach is not None and (reach.untrained == "imagine" or _lessons(reward, state) > 0)
    live = jax.jit(lambda state, steps: jax.lax.scan(lambda s, one: _live(reward, s, one), state, steps))
    state, steps = live(state, _transitions(played, slots))
    steps = jax.device_get(steps)
    factors = _factors(agents, reward, state, played, slots, np.asarray(steps.stored))
    paid = np.ones_like(played.rewards) if factors else np.zeros_like(played.rewards)
    for factor in factors.values():
        paid = paid * factor
    return Bonus(paid, factors, by_states(reach, steps, counts) if reach else None)


def _reachability(reward: ControlReward) -> Reachability | None:
    """The part of a reward that imagines."""
    episodic = reward.episodic if isinstance(reward, Replayed) else reward
    return episodic if isinstance(episodic, Reachability) else None


def _reachable(reward: ControlReward, state: Any) -> Any:
    """The state of that part."""
    return state[0] if isinstance(reward, Replayed) else state


def _slots(agents: ControlTrained, seed: int, like: Any, steps: int) -> Int[np.ndarray, " steps"]:
    """Where the replay would keep the frames of the next so many steps. like: the structure of a replay."""
    # The frames themselves are in files of their own, and are not needed.
    replay = kept(agents, seed, "replay", eqx.tree_at(lambda its: its.frames, like, None))
    return ((int(replay.written) + np.arange(steps)) % replay.slots).astype(np.int32)


def _lessons(reward: ControlReward, state: Any) -> int:
    """How many its world model has had."""
    return int(_reachable(reward, state).world.learned)


def _transitions(played: Episode, slots: Int[np.ndarray, " steps"]) -> Transition:
    """The episode's steps in order, each of one environment, as they are when they enter the replay there."""
    last = (np.arange(len(slots)) == len(slots) - 1)[:, None]
    return Transition(
        before={"frame": jnp.asarray(played.observations[:-1, None]), "slot": jnp.asarray(slots[:, None])},
        action=jnp.asarray(played.actions[:, None]),
        after={"frame": jnp.asarray(played.observations[1:, None])},
        reward=jnp.asarray(played.rewards[:, None]),
        terminated=jnp.asarray(last & played.terminated),
        truncated=jnp.asarray(last & (not played.terminated)),
    )


def _live(reward: ControlReward, state: Any, step: Transition) -> tuple[Any, Lived]:
    """One step as the reward lives through it, and what it imagines then, with the reward's own draws."""
    after, stored = reward.step(state, step)
    reach = _reachability(reward)
    if reach is None:
        return after, Lived(stored[0], None, None, None)
    own, world = _reachable(reward, state), reach.world
    _, _, at_its_beginning, at_a_step = reach.draws(own)
    both = jnp.concatenate([step.before["frame"], step.after["frame"]])
    beliefs = jax.tree.map(lambda *two: jnp.stack(two), own.belief, _reachable(reward, after).belief)
    # Arrival credit imagines from the state reached, and from an episode's first; departure from that left.
    arrival = reach.credit == "arrival"
    keys = jnp.stack([at_its_beginning, at_a_step] if arrival else [at_a_step])
    counted = jax.tree.map(lambda part: part[: len(keys)], beliefs)
    imagined = jax.vmap(lambda belief, key: world.imagine(own.present, belief, key))(counted, keys)
    present = world.present(own.present, counted, both[: len(keys)])
    codes = own.hashing(jnp.concatenate([present[:, None], imagined], axis=1))
    if not (isinstance(world, RSSM) and world.predictions):
        return after, Lived(stored[0], None, None, codes)
    reconstructed = _as_bytes(world.decode(own.present, beliefs))
    return after, Lived(stored[0], reconstructed, _as_bytes(imagined[:, : world.actions]), codes)


def _as_bytes(frames: Float32[Array, "*batch 64 64 3"]) -> UInt8[Array, "*batch 64 64 3"]:
    return jnp.round(jnp.clip(frames + 0.5, 0, 1) * 255).astype(jnp.uint8)


def by_states(reach: Reachability, steps: Any, counts: bool) -> Imagination:
    """By states instead of steps, with what was new of it. counts: whether imagined frames do."""
    arrival = reach.credit == "arrival"

    def by_state(part: np.ndarray) -> np.ndarray:
        if arrival:
            return np.concatenate([part[:1, 0], part[:, 1]])
        # An episode's last state is never left.
        return np.concatenate([part[:, 0], np.zeros_like(part[:1, 0])])

    codes = by_state(steps.codes)
    counted = np.ones(codes.shape[:2], bool)
    counted[:, 1:] = counts
    counted[-1] &= arrival
    new, sizes = remembered(codes, counted)
    n, own = min(reach.world.actions, codes.shape[1] - 1), steps.reconstructed
    return Imagination(
        reconstructed=None if own is None else np.concatenate([own[:1, 0], own[:, 1]]),
        frames=None if steps.frames is None else by_state(steps.frames),
        new=new[:, 1 : n + 1],
        own_new=new[:, 0],
        more=new[:, n + 1 :].sum(axis=1),
        counted=counted[:, -1],
        sizes=sizes,
    )


def _factors(
    agents: ControlTrained,
    reward: ControlReward,
    state: Any,
    played: Episode,
    slots: Int[np.ndarray, " steps"],
    stored: Float32[np.ndarray, " steps"],
) -> dict[str, Float32[np.ndarray, " steps"]]:
    """The factors of each step's bonus, by name."""
    recipe = agents.recipe
    if isinstance(reward, Reachability):
        return {"growth": stored}
    if isinstance(reward, Replayed):
        later = _replayed(agents, reward.lifelong, state[1], played, slots)
        factors = {"growth": stored, recipe.lifelong: later}
        if reward.normalised == "product":
            factors["size"] = np.full_like(stored, 1 / float(state[2].deviation))
        return factors
    if recipe.reward == "none":
        return {}
    return {recipe.reward: _replayed(agents, reward, state, played, slots)}


def _replayed(
    agents: ControlTrained,
    reward: ControlReward,
    state: Any,
    played: Episode,
    slots: Int[np.ndarray, " steps"],
) -> Float32[np.ndarray, " steps"]:
    """What a lifelong reward pays when the steps of an episode are replayed."""
    key = jax.random.key(agents.level_seed)
    pay = jax.jit(lambda state, batch: reward.at_sampling(state, key, batch.stored, batch)[1])
    # Batches no larger than in training; the last one reaches back.
    steps = len(slots)
    size = min(agents.recipe.batch, steps)
    found = np.zeros(steps, np.float32)
    for start in range(0, steps, size):
        which = np.arange(size) + min(start, steps - size)
        found[which] = np.asarray(pay(state, batch(played, slots, which, agents.recipe.stack)))
    return found


def batch(
    played: Episode,
    slots: Int[np.ndarray, " steps"],
    which: Int[np.ndarray, " n"],
    stack: int,
) -> Batch:
    """Some steps of an episode, as the replay would give them."""
    pixels = len(played.spec.observation_shape) == 3
    back = np.arange(1 - stack, 2) if pixels else np.arange(2)
    return Batch(
        index=jnp.asarray(slots[which]),
        frames=jnp.asarray(played.observations[np.maximum(which[:, None] + back, 0)]),
        action=jnp.asarray(played.actions[which]),
        reward=jnp.asarray(played.rewards[which]),
        terminated=jnp.asarray((which == len(slots) - 1) & played.terminated),
        stored=jnp.ones(len(which)),
    )
