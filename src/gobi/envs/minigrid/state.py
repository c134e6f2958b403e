"""The whole state of one MiniGrid episode."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt16, UInt32

from gobi.envs.minigrid import cells


class State(eqx.Module):
    """Everything that the rules read or change. A level is a state at step 0.

    grid:        packed cells (see `cells`), indexed [x, y] with y pointing down, as Farama does.
    position:    x and y of the agent.
    direction:   0 right, 1 down, 2 left, 3 up.
    carrying:    the packed cell in the agent's hands, with its contents if it is a box; 0 if none.
    target:      object and colour whose picking up ends the episode; 0 where a goal square does.
    step_count:  steps taken in this episode.
    noise:       what the colours of a noisy television come from (see `television`); None without one.
    """

    grid: UInt16[Array, "width height"]
    position: Int32[Array, "2"]
    direction: Int32[Array, ""]
    carrying: UInt16[Array, ""]
    target: UInt16[Array, ""]
    step_count: Int32[Array, ""]
    noise: UInt32[Array, ""] | None = None


def level(
    grid: UInt16[Array, "width height"],
    position: Int32[Array, "2"],
    direction: Int32[Array, ""],
    target: UInt16[Array, ""] | None = None,
) -> State:
    """A state at step 0, with empty hands."""
    return State(
        grid=grid,
        position=position,
        direction=direction,
        # Each part is an array of its own: a caller may donate the state.
        carrying=jnp.array(cells.NOTHING),
        target=jnp.array(cells.NOTHING) if target is None else target,
        step_count=jnp.int32(0),
    )


def nth(states: State, number: int) -> State:
    """One of the states that are stacked along the first axis."""
    return jax.tree.map(lambda part: part[number], states)


def reachable_cells(state: State) -> Int32[Array, ""]:
    """How many cells the agent could stand on if every door were open and nothing lay about."""
    free = cells.object_of(state.grid) != cells.WALL
    return jnp.sum(reached_from(free, state.position), dtype=jnp.int32)


def reached_from(
    free: Bool[Array, "width height"], position: Int32[Array, "2"]
) -> Bool[Array, "width height"]:
    """The free cells that can be reached from a position over free cells, itself included."""
    start = jnp.zeros_like(free).at[position[0], position[1]].set(True)

    def spread(reached):
        padded = jnp.pad(reached, 1)
        beside = padded[2:, 1:-1] | padded[:-2, 1:-1] | padded[1:-1, 2:] | padded[1:-1, :-2]
        return (reached | beside) & free

    def spreading(carry):
        return jnp.any(carry[0] != carry[1])

    def onwards(carry):
        return spread(carry[0]), carry[0]

    reached, _ = jax.lax.while_loop(spreading, onwards, (start, jnp.zeros_like(start)))
    return reached
