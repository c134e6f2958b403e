"""What was done already: for each observation of the present episode, the set of actions executed from it.

The public code of the paper needs it: there, imagination stops at the first action that was already executed
from an equal observation in this episode.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from gobi.memory import table


class Executed(eqx.Module):
    """Observations acted from in the present episode of each environment, with their actions.

    slots:    the table of each environment: a code, the episode it was written in, and its actions as bits.
    episode:  the number of the present episode.
    used:     how many codes of the present episode are in the table.
    dropped:  codes that found no slot, since the start; their actions were forgotten.
    """

    slots: UInt32[Array, "*seeds envs buckets 8 4"]
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


def empty(num_envs: int, capacity: int) -> Executed:
    """Nothing done yet, and room for `capacity` observations per episode (`max_steps` are enough)."""
    buckets = table.buckets_for(capacity, tables=num_envs)
    return Executed(
        slots=jnp.zeros((num_envs, buckets, table.WIDTH, 4), jnp.uint32),
        episode=jnp.ones(num_envs, jnp.uint32),
        used=jnp.zeros(num_envs, jnp.int32),
        dropped=jnp.zeros((), jnp.int32),
    )


def query_and_add(
    memory: Executed,
    observed: UInt32[Array, "time envs 2"],
    acted_from: UInt32[Array, "time envs 2"],
    actions: Int32[Array, "time envs"],
    starts: Bool[Array, "time envs"],
) -> tuple[Executed, UInt32[Array, "time envs"]]:
    """Adds the actions of a whole rollout; returns the set of actions executed from what each step observed.

    observed:    code of the observation that is asked for; asking leaves no trace.
    acted_from:  code of the observation in which `actions` was executed.
    actions:     0 to 31; bit a of the answer stands for action a.
    starts:      an episode begins with this step: the environment's memory is emptied first.

    As if step by step: empty where an episode starts, add the step's action, then ask.
    """
    episode = jnp.cumsum(starts, axis=0, dtype=jnp.int32)
    slots, used, dropped, masks = jax.vmap(
        _query_and_add, in_axes=(0, 0, 0, 1, 1, 1, 1), out_axes=(0, 0, 0, 1)
    )(memory.slots, memory.episode, memory.used, observed, acted_from, actions, episode)
    memory = Executed(
        slots=slots,
        episode=memory.episode + episode[-1].astype(jnp.uint32),
        used=used,
        dropped=memory.dropped + jnp.sum(dropped),
    )
    return memory, masks


def grow(memory: Executed, factor: int = 4) -> Executed:
    """The same memory in tables `factor` times as large, a power of two.

    For between updates: what takes the memory as an argument compiles anew.
    Leading axes (seeds) may stand before those of the memory.
    """
    live = memory.slots[..., table.MARK] == memory.episode[..., None, None]
    slots = table.grown(memory.slots, live, factor)
    return Executed(slots=slots, episode=memory.episode, used=memory.used, dropped=memory.dropped)


def _query_and_add(
    slots: UInt32[Array, "buckets 8 4"],
    present: UInt32[Array, ""],
    used: Int32[Array, ""],
    observed: UInt32[Array, "time 2"],
    acted_from: UInt32[Array, "time 2"],
    actions: Int32[Array, "time"],
    episode: Int32[Array, "time"],
) -> tuple[UInt32[Array, "buckets 8 4"], Int32[Array, ""], Int32[Array, ""], UInt32[Array, "time"]]:
    """One environment's share. Additions and questions are one sequence, sorted together."""
    added = jnp.uint32(1) << actions.astype(jnp.uint32)
    codes = jnp.stack([acted_from, observed], axis=1).reshape(-1, 2)
    bits = jnp.stack([added, jnp.zeros_like(added)], axis=1).reshape(-1)
    episode = jnp.repeat(episode, 2)

    batch = table.runs(codes, jnp.ones(codes.shape[0], bool), episode)
    episode = episode[batch.order]
    found, at = table.look_up(slots, batch.codes, lambda marks: marks == present)
    found &= episode == 0
    before = jnp.where(found, slots.reshape(-1, 4)[at, 3], 0)
    masks = before | _union_so_far(bits[batch.order], batch.first)

    ended = jnp.max(episode)
    now = present + ended.astype(jnp.uint32)
    marks = jnp.broadcast_to(now, masks.shape)
    rows = jnp.concatenate([batch.codes, marks[:, None], masks[:, None]], axis=-1)
    # The last of a run holds the union of the whole run; it is empty where there were only questions.
    kept = batch.last & (episode == ended) & (masks > 0)
    slots = table.overwrite(slots, rows, at, kept & found)
    wanted = kept & ~found
    slots, dropped = table.place(slots, rows, wanted, lambda marks: marks == now)
    used = jnp.where(ended == 0, used, 0) + jnp.sum(wanted, dtype=jnp.int32) - dropped
    return slots, used, dropped, table.unsorted(batch, masks).reshape(-1, 2)[:, 1]


def _union_so_far(bits: UInt32[Array, "m"], first: Bool[Array, "m"]) -> UInt32[Array, "m"]:
    """For each element the union of the sets from the beginning of its run to itself."""

    def combine(left, right):
        return jnp.where(right[1], right[0], left[0] | right[0]), left[1] | right[1]

    return jax.lax.associative_scan(combine, (bits, first))[0]
