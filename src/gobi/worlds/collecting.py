"""Random play: the transitions that a grid model is pre-trained on."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Integer, Key, UInt8

from gobi.envs.minigrid.bank import Bank, make_bank, refill
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.lanes import Lanes, Stepper
from gobi.errors import GobiError
from gobi.worlds.network import FRONT

CHUNK = 128
"""Steps that are played and looked at in one go."""


@dataclasses.dataclass(frozen=True)
class Transitions:
    """Steps of random play, on the host; none of them ends an episode.

    panorama:  what could be seen around the agent.
    action:    what it did.
    after:     the panorama that this led to; its last view is the next observation.
    frames:    environment steps that were played for them, those that ended an episode included.
    """

    panorama: UInt8[np.ndarray, "n 4 7 7 3"]
    action: Integer[np.ndarray, " n"]
    after: UInt8[np.ndarray, "n 4 7 7 3"]
    frames: int

    def __len__(self) -> int:
        return len(self.action)

    def without_turning(self) -> Transitions:
        """The same of which only the views straight ahead were looked at: cells of the others are unseen."""
        blank = {name: np.zeros_like(getattr(self, name)) for name in ("panorama", "after")}
        for name, views in blank.items():
            views[:, FRONT] = getattr(self, name)[:, FRONT]
        return dataclasses.replace(self, **blank)

    def __getitem__(self, rows: slice | np.ndarray) -> Transitions:
        return dataclasses.replace(
            self, panorama=self.panorama[rows], action=self.action[rows], after=self.after[rows]
        )


def collect(
    env: MiniGrid,
    key: Key[Array, ""],
    transitions: int = 100_000,
    num_envs: int = 64,
    progress: Callable[[int, int], None] | None = None,
) -> Transitions:
    """Plays uniformly random actions until there are exactly this many transitions that end no episode.

    The levels are those of a seed drawn from the key, so another key means other levels. `progress` is called
    with the transitions so far and the number asked for.
    """
    if transitions < 1:
        raise GobiError(f"collecting needs at least one transition, got {transitions}")
    if env.spec.max_steps < 2:
        raise GobiError(f"{env.spec.id}: every step ends an episode, there is nothing to collect")
    seed_key, play_key = jax.random.split(key)
    seed = int(jax.random.randint(seed_key, (), 0, np.iinfo(np.int32).max))
    bank = make_bank(env, seed, capacity=2 * num_envs)
    lanes, _ = jax.jit(Stepper(env, num_envs).reset)(bank)
    parts, found, played = [], 0, 0
    while found < transitions:
        play_key, chunk_key = jax.random.split(play_key)
        bank, lanes, *arrays = _play(env, num_envs, bank, lanes, chunk_key)
        panorama, action, after, done = (np.asarray(array).reshape(-1, *array.shape[2:]) for array in arrays)
        rows = np.flatnonzero(~done)[: transitions - found]
        parts.append((panorama[rows], action[rows], after[rows]))
        found += len(rows)
        played += len(done) if found < transitions else int(rows[-1]) + 1
        if progress is not None:
            progress(found, transitions)
    panorama, action, after = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Transitions(panorama, action, after, frames=played)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _play(
    env: MiniGrid, num_envs: int, bank: Bank, lanes: Lanes, key: Key[Array, ""]
) -> tuple[
    Bank,
    Lanes,
    UInt8[Array, "time envs 4 7 7 3"],
    Integer[Array, "time envs"],
    UInt8[Array, "time envs 4 7 7 3"],
    Bool[Array, "time envs"],
]:
    """One chunk: the panoramas before, the actions, the panoramas after, and where an episode ended."""
    stepper = Stepper(env, num_envs)
    actions = jax.random.randint(key, (CHUNK, num_envs), 0, env.spec.num_actions)

    def step(lanes: Lanes, action: Integer[Array, " envs"]):
        states, timestep = stepper.advance(lanes, action)
        restarted, _ = stepper.restart(bank, lanes, states, timestep)
        return restarted, (lanes.states, timestep.done)

    lanes_after, (states, done) = jax.lax.scan(step, lanes, actions)
    last = jax.tree.map(lambda array: array[None], lanes_after.states)
    every = jax.tree.map(lambda *arrays: jnp.concatenate(arrays), states, last)
    # Where no episode ended, a step leads to the state that the next one starts from: one look serves both.
    panoramas = jax.vmap(jax.vmap(env.panorama))(every)
    bank, place = refill(env, bank, lanes_after.queue)
    lanes_after = dataclasses.replace(lanes_after, queue=place)
    return bank, lanes_after, panoramas[:-1], actions, panoramas[1:], done


def distinct(data: Transitions) -> Transitions:
    """The first of the transitions that have the same panorama and action, in the order they were played."""
    _, first = np.unique(pairs(data), return_index=True)
    return data[np.sort(first)]


def pairs(data: Transitions) -> np.ndarray:
    """Panorama and action of each row as one value that can be sorted and compared."""
    rows = np.concatenate(
        [data.panorama.reshape(len(data), -1), data.action.astype(np.uint8)[:, None]], axis=1
    )
    return np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1])))[:, 0]
