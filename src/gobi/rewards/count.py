"""COUNT: 1 / sqrt(N(o)), with N the number of times an observation was met since the start of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from gobi import settings
from gobi.memory import counts
from gobi.memory.codes import exact, mix
from gobi.rewards.real_steps import over_all
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition


class Count(Reward):
    """1 / sqrt(N(o_{t+1})), the step's own visit counted, so that a first visit pays 1.

    The paper counts "from the start of training"; its code keeps one dictionary per actor process, which
    is `shared=False` here: every parallel environment counts for itself.

    hash:      from observations to codes, a `SimHash` say; None is exact.
    view:      the view that is counted.
    shared:    one count for all environments, or one each.
    capacity:  room for codes to begin with; the table grows as it fills.
    """

    hash: Any = None
    view: str = eqx.field(static=True, default="observation")
    shared: bool = eqx.field(static=True, default=False)
    capacity: int = eqx.field(static=True, default=2**18)

    def __check_init__(self):
        settings.at_least(1, capacity=self.capacity)

    @property
    def reads(self) -> frozenset[str]:
        """The view that is counted."""
        return frozenset({self.view})

    @property
    def instead(self) -> Mapping[str, str]:
        """The observation may be counted."""
        return {self.view: "view=observation"}

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> counts.LifelongCounts:
        """Nothing has been counted."""
        del key, spec, num_envs
        return counts.empty(self.capacity)

    def rollout(
        self, state: counts.LifelongCounts, transitions: Transition
    ) -> tuple[counts.LifelongCounts, Float32[Array, "time envs"], Metrics]:
        """Counts the steps in the order of time, and of the environments within one time."""
        seen = transitions.after[self.view]
        codes = exact(seen, ndim=seen.ndim - 2) if self.hash is None else self.hash(seen)
        time, envs = transitions.reward.shape
        if not self.shared:
            codes = mix(codes, jnp.broadcast_to(jnp.arange(envs, dtype=jnp.uint32), (time, envs)))
        real = transitions.real
        valid = jnp.ones(time * envs, bool) if real is None else real.reshape(-1)
        state, count = counts.add(state, codes.reshape(-1, 2), valid)
        bonus = 1 / jnp.sqrt(count.astype(jnp.float32)).reshape(time, envs)
        if real is not None:
            bonus = jnp.where(real, bonus, 0)
        logged = {
            "lifelong": over_all(bonus, real),
            "distinct": state.used.astype(jnp.float32),
            "dropped/lifelong": state.dropped.astype(jnp.float32),
            "load/lifelong": state.load,
        }
        return state, bonus, logged

    def grow(self, state: counts.LifelongCounts, memories: frozenset[str]) -> counts.LifelongCounts:
        """Four times the room."""
        return counts.grow(state) if "lifelong" in memories else state
