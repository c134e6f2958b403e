"""What became of the last episodes: returns, and how much of the level each of them saw."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from gobi.envs.minigrid import MiniGrid, State, cells
from gobi.envs.minigrid.rooms import RoomGrid
from gobi.memory import episodic

KEPT = 100
"""Means are over this many of the last finished episodes."""

MEASURES = ("return", "success", "length", "cells", "doors", "rooms", "reachable_share")


class Walk(eqx.Module):
    """Where the agents went in a rollout.

    first:     the step begins an episode.
    done:      the step ends one.
    start:     where the agent stood before the step.
    place:     where it stands after it, before any new episode.
    on_door:   whether that is in a doorway.
    reward:    the task's reward of the step.
    length:    steps of the episode so far, this one counted.
    floor:     cells of the level that can be reached at all.
    """

    first: Bool[Array, "time envs"]
    done: Bool[Array, "time envs"]
    start: Int32[Array, "time envs 2"]
    place: Int32[Array, "time envs 2"]
    on_door: Bool[Array, "time envs"]
    reward: Float32[Array, "time envs"]
    length: Int32[Array, "time envs"]
    floor: Int32[Array, "time envs"]


class Episodes(eqx.Module):
    """Running sums of the episodes under way, and the last finished ones.

    visited:   the cells and rooms of each environment's episode.
    so_far:    return, cells, doors and rooms of the episodes under way.
    finished:  how many have been finished.
    ring:      the measures of the last `KEPT` of them, in a ring.
    """

    visited: episodic.EpisodicSet
    so_far: Float32[Array, "envs 4"]
    finished: Int32[Array, ""]
    ring: Float32[Array, "kept measures"]


def empty(env: MiniGrid, num_envs: int) -> Episodes:
    """No episode has been finished."""
    width, height = env.generator.size
    return Episodes(
        visited=episodic.empty(num_envs, 4 * width * height),
        so_far=jnp.zeros((num_envs, 4)),
        finished=jnp.int32(0),
        ring=jnp.zeros((KEPT, len(MEASURES))),
    )


def add(env: MiniGrid, episodes: Episodes, walk: Walk) -> Episodes:
    """Follows a rollout, and enters the episodes that end in it in order."""
    codes = jnp.stack([*_codes(env, walk.start), *_codes(env, walk.place)], axis=2)
    always = jnp.ones_like(walk.first)
    # A doorway is in neither of its rooms.
    valid = jnp.stack([walk.first, walk.first, always, ~walk.on_door], axis=2)
    visited, new = episodic.insert(episodes.visited, codes, valid, walk.first)
    counted = new.astype(jnp.float32)
    entered = counted[..., 2] * walk.on_door
    cell, room = counted[..., 0] + counted[..., 2], counted[..., 1] + counted[..., 3]
    gains = jnp.stack([walk.reward, cell, entered, room], axis=-1)
    totals = _since_start(gains, walk.first, episodes.so_far)
    returns, cell_count, doors, rooms = jnp.moveaxis(totals, -1, 0)
    if _room_step(env) is None:
        # Rooms in a chain, or one behind the other: each doorway leads to one more.
        rooms = doors + 1
    measures = [
        returns,
        (walk.reward > 0).astype(jnp.float32),
        walk.length.astype(jnp.float32),
        cell_count,
        doors,
        rooms,
        cell_count / jnp.maximum(walk.floor, 1),
    ]
    ring, finished = _keep(episodes, jnp.stack(measures, axis=-1), walk.done)
    return Episodes(visited, jnp.where(walk.done[-1][:, None], 0.0, totals[-1]), finished, ring)


def means(episodes: Episodes) -> dict[str, Float32[Array, ""]]:
    """Means over the last finished episodes; not a number before the first."""
    count = jnp.minimum(episodes.finished, KEPT)
    kept = jnp.arange(KEPT)[:, None] < count
    mean = jnp.sum(jnp.where(kept, episodes.ring, 0.0), axis=0) / count
    return dict(zip(MEASURES, mean, strict=True)) | {"episodes": episodes.finished.astype(jnp.float32)}


def on_door(states: State) -> Bool[Array, "*batch"]:
    """Whether agents stand in doorways."""

    def one(grid, position):
        return cells.object_of(grid[position[0], position[1]]) == cells.DOOR

    for _ in states.direction.shape:
        one = jax.vmap(one)
    return one(states.grid, states.position)


def _room_step(env: MiniGrid) -> int | None:
    """Cells from one room to the next where rooms form a regular grid."""
    layout = getattr(env.generator, "rooms", None)
    return layout.room_size - 1 if isinstance(layout, RoomGrid) else None


def _codes(env: MiniGrid, place: Int32[Array, "time envs 2"]):
    """The cell and the room of a place, as codes that cannot be confused."""
    x, y = place[..., 0], place[..., 1]
    step = _room_step(env) or 1
    cell, room = x * 1024 + y, (x // step) * 1024 + y // step
    return [
        jnp.stack([value.astype(jnp.uint32), jnp.full(value.shape, kind, jnp.uint32)], axis=-1)
        for kind, value in enumerate((cell, room))
    ]


def _since_start(
    gains: Float32[Array, "time envs n"], first: Bool[Array, "time envs"], before: Float32[Array, "envs n"]
) -> Float32[Array, "time envs n"]:
    """Running sums that start anew where an episode begins."""

    def joined(earlier, later):
        fresh = later[1]
        return jnp.where(fresh, later[0], earlier[0] + later[0]), earlier[1] | fresh

    first = jnp.broadcast_to(first[..., None], gains.shape)
    gains = gains.at[0].add(jnp.where(first[0], 0.0, before))
    return jax.lax.associative_scan(joined, (gains, first))[0]


def _keep(
    episodes: Episodes, measures: Float32[Array, "time envs measures"], done: Bool[Array, "time envs"]
) -> tuple[Float32[Array, "kept measures"], Int32[Array, ""]]:
    rank = jnp.cumsum(done.reshape(-1), dtype=jnp.int32)
    total = rank[-1]
    wanted = done.reshape(-1) & (rank > total - KEPT)
    slot = jnp.where(wanted, (episodes.finished + rank - 1) % KEPT, KEPT)
    ring = episodes.ring.at[slot].set(measures.reshape(-1, len(MEASURES)), mode="drop")
    return ring, episodes.finished + total
