"""Episodic counts: how often each code was met in the present episode of its environment."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt32

from gobi.memory import per_episode, table

COUNT = 3
"""The word of a slot that holds the count."""


class EpisodicCounts(per_episode.PerEpisode):
    """Codes met in the present episode of each environment, with their counts.

    A slot holds a code, the episode it was written in, and the count. A code without a slot is not
    remembered: in every call in which it comes its count begins at 1, and it is dropped again.
    """


def empty(num_envs: int, capacity: int) -> EpisodicCounts:
    """Nothing met yet, and room for `capacity` codes per episode, in tables of at least twice as many slots.

    With one code per step and the first state's, max_steps + 1 are enough.
    """
    return per_episode.empty(EpisodicCounts, num_envs, capacity, words=4)


def add(
    memory: EpisodicCounts,
    codes: UInt32[Array, "time envs n 2"],
    valid: Bool[Array, "time envs n"],
    starts: Bool[Array, "time envs"],
) -> tuple[EpisodicCounts, Int32[Array, "time envs n"]]:
    """Adds one to the count of each code of a whole rollout, and returns the count each one then had.

    codes:   up to n codes per step.
    valid:   which of them count; the others leave no trace, and 0 is returned for them.
    starts:  an episode begins with this step: the environment's counts are emptied before its codes come.

    The same as adding them step by step, and within a step by index, one at a time. Only where codes are
    dropped may it matter how steps are divided into calls.
    """
    return per_episode.over_rollout(memory, _add, starts, codes, valid)


def grow(memory: EpisodicCounts, factor: int | None = None) -> EpisodicCounts:
    """The same counts in tables `factor` times as large, see `per_episode.grow`."""
    return per_episode.grow(memory, factor)


def _add(
    slots: UInt32[Array, "buckets 8 4"],
    present: UInt32[Array, ""],
    used: Int32[Array, ""],
    episode: Int32[Array, "time"],
    codes: UInt32[Array, "time n 2"],
    valid: Bool[Array, "time n"],
) -> tuple[UInt32[Array, "buckets 8 4"], Int32[Array, ""], Int32[Array, ""], Int32[Array, "time n"]]:
    """One environment's share: its table, codes in use, codes dropped, and the counts.

    As in the episodic set, only codes of episode 0 may be in the table, only the last one's are written.
    """
    ended = episode[-1]
    episode = jnp.repeat(episode, valid.shape[1])
    batch = table.runs(codes.reshape(-1, 2), valid.reshape(-1), episode)
    episode = episode[batch.order]
    found, at = table.look_up(slots, batch.codes, lambda marks: marks == present)
    found &= episode == 0
    before = jnp.where(found, slots.reshape(-1, 4)[at, COUNT], 0)
    place_in_run = jnp.arange(episode.size, dtype=jnp.int32) - batch.start
    counts = before + place_in_run.astype(jnp.uint32) + 1

    now = present + ended.astype(jnp.uint32)
    marks = jnp.broadcast_to(now, counts.shape)
    rows = jnp.concatenate([batch.codes, marks[:, None], counts[:, None]], axis=-1)
    # The last of a run holds the count of the whole run.
    kept = batch.last & (episode == ended)
    slots = table.overwrite(slots, rows, at, kept & found)
    wanted = kept & ~found
    slots, dropped = table.place(slots, rows, wanted, lambda marks: marks == now)
    used = jnp.where(ended == 0, used, 0) + jnp.sum(wanted, dtype=jnp.int32) - dropped
    counts = jnp.where(batch.valid, counts.astype(jnp.int32), 0)
    return slots, used, dropped, table.unsorted(batch, counts).reshape(valid.shape)
