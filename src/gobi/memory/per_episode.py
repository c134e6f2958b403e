"""What the memories of an episode have in common: a table per environment, emptied when an episode starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from gobi.memory import table


class PerEpisode(eqx.Module):
    """A table for each environment.

    slots:    codes, each with the number of the episode it was written in, and with what else the memory
              keeps; slots of older episodes are free, so that emptying costs nothing.
    episode:  the number of the present episode.
    used:     how many codes of the present episode are in the table.
    dropped:  codes that found no slot, since the start; 0 in a table that is large enough.
    """

    slots: UInt32[Array, "*seeds envs buckets 8 words"]
    episode: UInt32[Array, "*seeds envs"]
    used: Int32[Array, "*seeds envs"]
    dropped: Int32[Array, "*seeds"]

    @property
    def num_slots(self) -> int:
        """Slots per environment, used or not."""
        return self.slots.shape[-3] * table.WIDTH

    @property
    def load(self) -> Float32[Array, ""]:
        """The share of used slots, where it is largest; grow the memory when it passes one half."""
        return jnp.max(self.used) / self.num_slots


Memory = TypeVar("Memory", bound=PerEpisode)

Share = Callable[..., tuple[UInt32[Array, "buckets 8 words"], Int32[Array, ""], Int32[Array, ""], Any]]
"""What a rollout does to one environment's table.

Takes the table, the number of the episode that was running before, the codes in use, the episode of each step
(0 is the one that was running), and the environment's inputs; gives the table, the codes in use, the codes
dropped, and an answer for each step.
"""


def empty(kind: type[Memory], num_envs: int, capacity: int, words: int) -> Memory:
    """Empty tables for `capacity` codes per episode, with at least twice as many slots of so many words."""
    buckets = table.buckets_for(capacity, tables=num_envs)
    return kind(
        slots=jnp.zeros((num_envs, buckets, table.WIDTH, words), jnp.uint32),
        # Number 0 is never an episode: it marks slots that were never written.
        episode=jnp.ones(num_envs, jnp.uint32),
        used=jnp.zeros(num_envs, jnp.int32),
        dropped=jnp.zeros((), jnp.int32),
    )


def over_rollout(
    memory: Memory, share: Share, starts: Bool[Array, "time envs"], *inputs: Any
) -> tuple[Memory, Any]:
    """The memory after a rollout, and an answer for each step, from what it does to each environment.

    starts:  an episode begins with this step.
    inputs:  arrays [time, envs, ...].
    """
    episode = jnp.cumsum(starts, axis=0, dtype=jnp.int32)
    over_envs = jax.vmap(share, in_axes=(0, 0, 0, *(1 for _ in (episode, *inputs))), out_axes=(0, 0, 0, 1))
    slots, used, dropped, answers = over_envs(memory.slots, memory.episode, memory.used, episode, *inputs)
    memory = type(memory)(
        slots=slots,
        episode=memory.episode + episode[-1].astype(jnp.uint32),
        used=used,
        dropped=memory.dropped + jnp.sum(dropped),
    )
    return memory, answers


def grow(memory: Memory, factor: int | None = None) -> Memory:
    """The same memory in tables `factor` times as large, a power of two; by default see `table.growth`.

    For between updates: what takes the memory as an argument compiles anew.
    Leading axes (seeds) may stand before those of the memory.
    """
    live = memory.slots[..., table.MARK] == memory.episode[..., None, None]
    envs, buckets = memory.slots.shape[-4:-2]
    factor = table.growth(envs * buckets) if factor is None else factor
    if factor == 1:
        return memory
    table.check_size(envs * buckets * factor)
    slots = table.grown(memory.slots, live, factor)
    return type(memory)(slots=slots, episode=memory.episode, used=memory.used, dropped=memory.dropped)
