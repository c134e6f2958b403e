"""A MiniGrid task as an environment: pure, unbatched functions for `jit`, `vmap` and `scan`."""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Integer, Key, UInt8

from gobi.envs.minigrid import rules, television, view
from gobi.envs.minigrid.generator import Generator
from gobi.envs.minigrid.state import State
from gobi.types import Spec, Timestep


@dataclasses.dataclass(frozen=True)
class MiniGrid:
    """One task. Hashable and without arrays, so it can be closed over or passed as a static argument.

    generator:  the task family and its sizes.
    id:         the name of the task; empty for one made by hand, which is then named after its sizes.
    """

    generator: Generator
    id: str = ""

    @functools.cached_property
    def spec(self) -> Spec:
        """Id, observation shape, number of actions and step limit."""
        return Spec(
            id=self.id or self.generator.name,
            observation_shape=(view.SIZE, view.SIZE, 3),
            observation_dtype="uint8",
            num_actions=rules.NUM_ACTIONS,
            max_steps=self.generator.max_steps,
        )

    def reset(self, key: Key[Array, ""]) -> tuple[State, Timestep]:
        """A new level and its first observation. For many levels, use a bank: it is far faster."""
        state = self.generator.one(key)
        return state, Timestep(self.observe(state), jnp.float32(0), jnp.array(False), jnp.array(False))

    def step(self, state: State, action: int | Integer[Array, ""]) -> tuple[State, Timestep]:
        """Plays one action. Deterministic; never resets by itself."""
        state, outcome = rules.move(state, jnp.asarray(action))
        state = television.redrawn(state)
        return state, Timestep(
            observation=self.observe(state),
            reward=jnp.where(outcome.success, self._reward(state), 0.0),
            terminated=outcome.terminated,
            truncated=state.step_count >= self.spec.max_steps,
        )

    def observe(self, state: State) -> UInt8[Array, "7 7 3"]:
        """The agent's view: [column, row, (object, colour, door state)]."""
        return view.egocentric(state, self.generator.see_through_walls)

    def panorama(self, state: State) -> UInt8[Array, "4 7 7 3"]:
        """The views to the right, back, left and front of the present heading."""
        return view.panorama(state, self.generator.see_through_walls)

    def full_grid(self, state: State) -> UInt8[Array, "width height 3"]:
        """The whole grid in the encoding of Farama's FullyObsWrapper."""
        return view.full_grid(state)

    def _reward(self, state: State) -> Float32[Array, ""]:
        """1 - 0.9 * steps / max_steps, from a table: float32 arithmetic would differ between devices."""
        steps = np.arange(self.spec.max_steps + 1)
        table = (1 - 0.9 * (steps / self.spec.max_steps)).astype(np.float32)
        return jnp.asarray(table).at[state.step_count].get(mode="clip")
