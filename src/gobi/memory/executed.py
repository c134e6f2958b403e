"""What was done already: for each observation of the present episode, the set of actions executed from it.

The public code of the paper needs it: there, imagination stops at the first action that was already executed
from an equal observation in this episode.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt32

from gobi.memory import per_episode, table


class Executed(per_episode.PerEpisode):
    """Observations acted from in the present episode of each environment, with their actions.

    A slot holds a code, the episode it was written in, and the actions as bits. The actions of a code without
    a slot are forgotten.
    """


def empty(num_envs: int, capacity: int) -> Executed:
    """Nothing done yet, and room for `capacity` observations per episode (`max_steps` are enough)."""
    return per_episode.empty(Executed, num_envs, capacity, words=4)


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
    return per_episode.over_rollout(memory, _query_and_add, starts, observed, acted_from, actions)


def grow(memory: Executed, factor: int | None = None) -> Executed:
    """The same memory in tables `factor` times as large, see `per_episode.grow`."""
    return per_episode.grow(memory, factor)


def _query_and_add(
    slots: UInt32[Array, "buckets 8 4"],
    present: UInt32[Array, ""],
    used: Int32[Array, ""],
    episode: Int32[Array, "time"],
    observed: UInt32[Array, "time 2"],
    acted_from: UInt32[Array, "time 2"],
    actions: Int32[Array, "time"],
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
