"""A world that imagines nothing: the control that shows what imagination adds."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Key, PyTree, UInt8

from gobi.types import Spec, Transition, Views


class Nowhere(eqx.Module):
    """No predictions. Reachability then pays for views that are new in the episode, and for nothing else."""

    actions: tuple[int, ...] = eqx.field(static=True, default=())
    predictions: int = eqx.field(static=True, default=0)

    @property
    def reads(self) -> frozenset[str]:
        """Nothing."""
        return frozenset()

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> PyTree:
        """Nothing to keep."""
        del key, spec, num_envs
        return ()

    def imagine(
        self, ws: PyTree, keys: Key[Array, " n"], views: Views
    ) -> tuple[UInt8[Array, "n 0 7 7 3"], Bool[Array, "n 0"]]:
        """No views."""
        del ws, views
        return jnp.zeros((len(keys), 0, 7, 7, 3), jnp.uint8), jnp.zeros((len(keys), 0), bool)

    def learn(
        self, ws: PyTree, key: Key[Array, ""], rollout: Transition
    ) -> tuple[PyTree, dict[str, Float32[Array, ""]]]:
        """Nothing to learn."""
        del key, rollout
        return ws, {}
