"""The real simulator as a world: every action sequence of up to k steps, played out."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Key, PyTree, UInt8

from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.rules import NUM_ACTIONS
from gobi.errors import GobiError
from gobi.types import Spec, Transition, Views

MOST_PREDICTIONS = 10_000
"""A tree of this many views per state is more than any memory here is sized for."""


class Simulator(eqx.Module):
    """Expands the full tree of futures by the rules of the task (privileged: it reads the state itself).

    Predictions come level by level: first what each action leads to, then each of those with each action in
    the same order, and so on. The view that ends an episode is a prediction like any other; what would come
    after it is not valid. The state that imagination starts from counts as running, even if it is a last one.

    env:      the task.
    actions:  what is tried; `done` (6) changes nothing, so it is left out as in the public code.
    steps:    k, the depth of the tree.
    """

    env: MiniGrid = eqx.field(static=True)
    actions: tuple[int, ...] = eqx.field(static=True, default=(0, 1, 2, 3, 4, 5))
    steps: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        if self.steps < 1:
            raise GobiError(f"a world looks at least one step ahead, got steps={self.steps}")
        if not self.actions or not all(0 <= action < NUM_ACTIONS for action in self.actions):
            raise GobiError(f"actions must be in 0 .. {NUM_ACTIONS - 1}, got {self.actions}")
        if self.predictions > MOST_PREDICTIONS:
            raise GobiError(
                f"{len(self.actions)} actions over {self.steps} steps are {self.predictions} predictions "
                f"per state, more than {MOST_PREDICTIONS}: take fewer steps"
            )

    @property
    def reads(self) -> frozenset[str]:
        """The views it needs."""
        return frozenset({"state"})

    @property
    def predictions(self) -> int:
        """How many views it imagines per state."""
        return sum(len(self.actions) ** depth for depth in range(1, self.steps + 1))

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> PyTree:
        """Nothing to keep."""
        del key, spec, num_envs
        return ()

    def imagine(
        self, ws: PyTree, keys: Key[Array, " n"], views: Views
    ) -> tuple[UInt8[Array, "n predictions 7 7 3"], Bool[Array, "n predictions"]]:
        """All futures of each row's state, and which of them can happen."""
        del ws, keys
        return jax.vmap(self._tree)(views["state"])

    def learn(
        self, ws: PyTree, key: Key[Array, ""], rollout: Transition
    ) -> tuple[PyTree, dict[str, Float32[Array, ""]]]:
        """There is nothing to learn."""
        del key, rollout
        return ws, {}

    def _tree(self, state: PyTree) -> tuple[UInt8[Array, "predictions 7 7 3"], Bool[Array, " predictions"]]:
        """The futures of one state."""
        actions = jnp.array(self.actions, jnp.int32)
        each_action = jax.vmap(self.env.step, in_axes=(None, 0))
        nodes, running = jax.tree.map(lambda part: part[None], state), jnp.ones(1, bool)
        views, valid = [], []
        for _ in range(self.steps):
            children, timestep = jax.vmap(each_action, in_axes=(0, None))(nodes, actions)
            nodes = jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), children)
            views.append(timestep.observation.reshape(-1, *timestep.observation.shape[2:]))
            valid.append(jnp.repeat(running, len(self.actions)))
            running = valid[-1] & ~timestep.done.reshape(-1)
        return jnp.concatenate(views), jnp.concatenate(valid)
