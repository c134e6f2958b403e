"""Episodic memory: a set of codes for each parallel environment, emptied when a new episode starts there."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt32

from gobi.memory import per_episode, table


class EpisodicSet(per_episode.PerEpisode):
    """Codes seen in the present episode of each environment.

    A slot holds a code and the episode it was written in, no more. A code without a slot is not remembered:
    it is new in every call in which it comes, and dropped again.
    """


def empty(num_envs: int, capacity: int) -> EpisodicSet:
    """Empty sets for `capacity` codes per episode, in tables of at least twice as many slots.

    An episode of `max_steps` steps with `P` predictions each has at most (max_steps + 1) * (P + 1) codes.
    """
    return per_episode.empty(EpisodicSet, num_envs, capacity, words=3)


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
    return per_episode.over_rollout(memory, _insert, starts, codes, valid)


def grow(memory: EpisodicSet, factor: int | None = None) -> EpisodicSet:
    """The same sets in tables `factor` times as large, see `per_episode.grow`."""
    return per_episode.grow(memory, factor)


def _insert(
    slots: UInt32[Array, "buckets 8 3"],
    present: UInt32[Array, ""],
    used: Int32[Array, ""],
    episode: Int32[Array, "time"],
    codes: UInt32[Array, "time n 2"],
    valid: Bool[Array, "time n"],
) -> tuple[UInt32[Array, "buckets 8 3"], Int32[Array, ""], Int32[Array, ""], Bool[Array, "time n"]]:
    """One environment's share: its table, codes in use, codes dropped, and which codes were new.

    Episode 0 is the one that was running before; only its codes may be in the table already. Only those of
    the last one need a place in it: an episode that begins and ends in between never meets its codes again.
    """
    ended = episode[-1]
    episode = jnp.repeat(episode, valid.shape[1])
    batch = table.runs(codes.reshape(-1, 2), valid.reshape(-1), episode)
    episode = episode[batch.order]
    found, _ = table.look_up(slots, batch.codes, lambda marks: marks == present)
    new = batch.first & ~(found & (episode == 0))

    now = present + ended.astype(jnp.uint32)
    rows = jnp.concatenate([batch.codes, jnp.broadcast_to(now, (new.size, 1))], axis=-1)
    wanted = new & (episode == ended)
    slots, dropped = table.place(slots, rows, wanted, lambda marks: marks == now)
    used = jnp.where(ended == 0, used, 0) + jnp.sum(wanted, dtype=jnp.int32) - dropped
    return slots, used, dropped, table.unsorted(batch, new).reshape(valid.shape)
