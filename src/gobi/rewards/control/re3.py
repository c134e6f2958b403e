"""RE3 on control tasks: distance to the nearest neighbours in the replay, in a random encoder's features."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from gobi.errors import GobiError, unknown
from gobi.rewards.control import features, running
from gobi.rewards.control.distances import kth_distance
from gobi.rewards.control.encoder import VECTORS, Encoder, Raw, Vectors, encoder, num_features
from gobi.rewards.control.features import Features
from gobi.rewards.control.lessons import ControlReward
from gobi.rewards.control.running import STATISTICS, Running, Statistics
from gobi.rewards.reward import Metrics
from gobi.types import Spec, Transition

FORMS = ("over_std", "log")


class Entropy(eqx.Module):
    """The state of `RE3`.

    encoder:   the random one, which never learns.
    features:  of all frames in the replay from which a transition starts.
    running:   of the distances so far.
    """

    encoder: Encoder | Raw
    features: Features
    running: Running


class RE3(ControlReward):
    """d / std(d), or log(d + 1): d is the distance of o_t to its k-th nearest neighbour in the replay.

    A frame's features enter when it is left; distances are taken anew whenever a transition is replayed, to
    all features that are in the replay then. Seo et al., 2021.

    k:           which neighbour, the frame itself not counted.
    form:        `over_std`: d by the running standard deviation of all sampled d, as RE3's code for control
                 does. `log`: log(d + 1), as both papers write it.
    statistics:  of the running standard deviation, see `running.update`. RE3's published numbers, and the
                 coefficients that we take from it, come from its code, mistake included.
    units:       features.
    vectors:     how state vectors are read, see `encoder.encoder`.
    capacity:    slots of the replay.
    """

    k: int = eqx.field(static=True, default=3)
    form: Literal["over_std", "log"] = eqx.field(static=True, default="over_std")
    statistics: Statistics = eqx.field(static=True, default="as_coded")
    units: int = eqx.field(static=True, default=50)
    vectors: Vectors = eqx.field(static=True, default="mlp")
    capacity: int = eqx.field(static=True, default=100_000)

    def __check_init__(self):
        known = {"form": FORMS, "statistics": STATISTICS, "vectors": VECTORS}
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise unknown(name, getattr(self, name), values)
        if self.k < 1 or self.units < 1 or self.capacity <= self.k:
            raise GobiError(
                "k and units must be at least 1 and capacity above k, got "
                f"k={self.k}, units={self.units}, capacity={self.capacity}"
            )

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("re3/bonus", "re3/distance", "re3/spread")

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int = 1) -> Entropy:
        """A random encoder, and no features."""
        del num_envs
        network = encoder(key, spec, self.units, self.vectors)
        return Entropy(network, features.empty(self.capacity, num_features(network, spec)), running.begin())

    def step(self, state: Entropy, transition: Transition) -> tuple[Entropy, Float32[Array, " envs"]]:
        """Enters the features of the frame that was left; nothing is paid yet."""
        # Neighbours may be nearer to each other than a GPU's default precision (TF32) can tell.
        with jax.default_matmul_precision("highest"):
            rows = state.encoder(transition.before["frame"])
        entered = features.enter(state.features, transition.before["slot"], rows, transition.done)
        return Entropy(state.encoder, entered, state.running), jnp.zeros_like(transition.reward)

    def at_sampling(
        self, state: Entropy, key: Key[Array, ""], stored: Float32[Array, " batch"], batch: Any
    ) -> tuple[Entropy, Float32[Array, " batch"], Metrics]:
        """The bonus of each replayed transition, from all that is in the replay now."""
        del key, stored
        rows, there = state.features.rows, state.features.there
        # One more than k: each frame is its own nearest neighbour.
        apart = kth_distance(rows[batch.index], rows, there, self.k + 1)
        statistics = running.update(state.running, apart, self.statistics)
        bonus = apart / statistics.deviation if self.form == "over_std" else jnp.log1p(apart)
        logged = {
            "re3/bonus": jnp.mean(bonus),
            "re3/distance": jnp.mean(apart),
            "re3/spread": statistics.deviation,
        }
        return Entropy(state.encoder, state.features, statistics), bonus, logged
