"""Episodic memory: a set of codes for each parallel environment, emptied when a new episode starts there."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from gobi.memory import table


class EpisodicSet(eqx.Module):
    """Codes seen in the present episode of each environment.

    slots:    the table of each environment: a code and the episode it was written in; slots of older episodes
              are free, so that emptying costs nothing.
    episode:  the number of the present episode.
    used:     how many codes of the present episode are in the table.
    dropped:  codes that found no slot, since the start; 0 in a table that is large enough. A code without
              one is not remembered: it is new in every call in which it comes, and dropped again.
    """

    slots: UInt32[Array, "*seeds envs buckets 8 3"]
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


def empty(num_envs: int, capacity: int) -> EpisodicSet:
    """Empty sets for `capacity` codes per episode, in tables of at least twice as many slots.

    An episode of `max_steps` steps with `P` predictions each has at most (max_steps + 1) * (P + 1) codes.
    """
    buckets = table.buckets_for(capacity, tables=num_envs)
    return EpisodicSet(
        slots=jnp.zeros((num_envs, buckets, table.WIDTH, 3), jnp.uint32),
        # Number 0 is never an episode: it marks slots that were never written.
        episode=jnp.ones(num_envs, jnp.uint32),
        used=jnp.zeros(num_envs, jnp.int32),
        dropped=jnp.zeros((), jnp.int32),
    )


def insert(
    memory: EpisodicSet,
    codes: UInt32[Array, "time envs n 2"],
    valid: Bool[Array, "time envs n"],
    starts: Bool[Array, "time envs"],
) -> tuple[EpisodicSet, Bool[Array, "time envs n"]]:
    """Adds the codes of a whole rollout and says which of them were new to their episode.

    codes:   up to n codes per step.
    valid:   which of them count; the others are never new and leave no trace.
    starts:  an episode begins with this step: the environment's set is emptied before the step's codes come.

    The same as adding them step by step, and within a step by index, one at a time; the first of equal codes
    in an episode is the new one. Only where codes are dropped may it matter how steps are divided into calls.
    """
    time, envs, n = valid.shape

    def by_env(array: jax.Array) -> jax.Array:
        return jnp.moveaxis(array, 1, 0).reshape(envs, time * n, *array.shape[3:])

    episode = jnp.cumsum(starts, axis=0, dtype=jnp.int32)
    slots, used, dropped, new = jax.vmap(_insert)(
        memory.slots,
        memory.episode,
        memory.used,
        by_env(codes),
        by_env(valid),
        by_env(jnp.broadcast_to(episode[:, :, None], valid.shape)),
    )
    memory = EpisodicSet(
        slots=slots,
        episode=memory.episode + episode[-1].astype(jnp.uint32),
        used=used,
        dropped=memory.dropped + jnp.sum(dropped),
    )
    return memory, jnp.moveaxis(new.reshape(envs, time, n), 0, 1)


def grow(memory: EpisodicSet, factor: int = 4) -> EpisodicSet:
    """The same sets in tables `factor` times as large, a power of two.

    For between updates: what takes the memory as an argument compiles anew.
    Leading axes (seeds) may stand before those of the memory.
    """
    live = memory.slots[..., table.MARK] == memory.episode[..., None, None]
    slots = table.grown(memory.slots, live, factor)
    return EpisodicSet(slots=slots, episode=memory.episode, used=memory.used, dropped=memory.dropped)


def _insert(
    slots: UInt32[Array, "buckets 8 3"],
    present: UInt32[Array, ""],
    used: Int32[Array, ""],
    codes: UInt32[Array, "m 2"],
    valid: Bool[Array, "m"],
    episode: Int32[Array, "m"],
) -> tuple[UInt32[Array, "buckets 8 3"], Int32[Array, ""], Int32[Array, ""], Bool[Array, "m"]]:
    """One environment's share: its table, codes in use, codes dropped, and which codes were new.

    Episode 0 is the one that was running before; only its codes may be in the table already. Only those of
    the last one need a place in it: an episode that begins and ends in between never meets its codes again.
    """
    batch = table.runs(codes, valid, episode)
    episode = episode[batch.order]
    found, _ = table.look_up(slots, batch.codes, lambda marks: marks == present)
    new = batch.first & ~(found & (episode == 0))

    ended = jnp.max(episode)
    now = present + ended.astype(jnp.uint32)
    rows = jnp.concatenate([batch.codes, jnp.broadcast_to(now, (codes.shape[0], 1))], axis=-1)
    wanted = new & (episode == ended)
    slots, dropped = table.place(slots, rows, wanted, lambda marks: marks == now)
    used = jnp.where(ended == 0, used, 0) + jnp.sum(wanted, dtype=jnp.int32) - dropped
    return slots, used, dropped, table.unsorted(batch, new)
