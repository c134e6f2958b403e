"""RE3: how far a state is from its nearest neighbours among the last ones, in a random encoder's features."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from gobi.errors import GobiError, unknown
from gobi.memory.neighbours import nearest
from gobi.networks import symbols
from gobi.networks.layers import conv_stack
from gobi.rewards.any_embedding import AnyEmbedding, any_embedding, kind_of
from gobi.rewards.embeddings import Embedding
from gobi.rewards.real_steps import over_all
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition

CHANNELS = (16, 32)
FORMS, NEIGHBOURS, INPUTS = ("log", "over_std"), ("kth", "mean"), ("raw", "onehot")
LEAST = 1e-8
"""A standard deviation to divide by, at least."""


class Recent(eqx.Module):
    """The state of `RE3`.

    buffer:   the features of the last observations of all environments; the oldest is written over.
    added:    how many have been entered; once the buffer is full, that less some whole rooms.
    encoder:  the random one.
    counted, mean, squares:  distances so far, their mean, and the sum of squared deviations from it.
    """

    buffer: Float32[Array, "room units"]
    added: Int32[Array, ""]
    encoder: Embedding | AnyEmbedding
    counted: Float32[Array, ""]
    mean: Float32[Array, ""]
    squares: Float32[Array, ""]


class RE3(Reward):
    """log(d + 1), d being the distance of o_{t+1} to its k-th nearest neighbour in a fixed encoder's space.

    The neighbours are sought among the last observations of all environments, of earlier steps only. Nothing
    is paid while there are fewer than k. Seo et al., 2021.

    k:           which neighbour.
    neighbours:  `kth` takes the k-th, `mean` the mean of the distances to the k nearest.
    form:        `log`, or `over_std`: d by the standard deviation of all distances so far, as in the public
                 code for control from pixels.
    room:        observations in the buffer.
    units:       features.
    inputs:      how the encoder reads the cells of 7x7 views: `raw` or `onehot`.
    """

    k: int = eqx.field(static=True, default=3)
    neighbours: str = eqx.field(static=True, default="kth")
    form: str = eqx.field(static=True, default="log")
    room: int = eqx.field(static=True, default=10_000)
    units: int = eqx.field(static=True, default=64)
    inputs: str = eqx.field(static=True, default="raw")

    def __check_init__(self):
        known = {"form": FORMS, "neighbours": NEIGHBOURS, "inputs": INPUTS}
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise unknown(name, getattr(self, name), values)
        if self.k < 1 or self.units < 1 or self.room < self.k:
            raise GobiError(
                "k and units must be at least 1 and room at least k, got "
                f"k={self.k}, units={self.units}, room={self.room}"
            )

    @property
    def reads(self) -> frozenset[str]:
        """The agent's own view."""
        return frozenset({"observation"})

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("re3/distance",)

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Recent:
        """A random encoder and an empty buffer."""
        del num_envs
        return Recent(
            buffer=jnp.zeros((self.room, self.units)),
            added=jnp.int32(0),
            encoder=self._encoder(key, spec),
            counted=jnp.float32(1e-4),
            mean=jnp.float32(0),
            squares=jnp.float32(1e-4),
        )

    def _encoder(self, key: Key[Array, ""], spec: Spec) -> Embedding | AnyEmbedding:
        if kind_of(spec) != "view":
            return any_embedding(key, spec, "small", self.units)
        # 7x7 cells become 4x4, 2x2 and 1: the last channels are the features.
        stack = conv_stack(key, symbols.input_channels(self.inputs), (*CHANNELS, self.units), (2, 2, 2))
        return Embedding(stack, (), "raw" if self.inputs == "raw" else "onehot")

    def rollout(
        self, state: Recent, transitions: Transition
    ) -> tuple[Recent, Float32[Array, "time envs"], Metrics]:
        """All distances of the rollout in one product."""
        time, envs = transitions.reward.shape
        real = jnp.ones((time, envs), bool) if transitions.real is None else transitions.real
        rows = state.encoder(transitions.after["observation"]).reshape(time * envs, self.units)
        points = jnp.concatenate([state.buffer, rows])
        squares = nearest(rows, points, self._there(state, real), self.k)
        enough = jnp.isfinite(squares[:, -1])
        apart = jnp.sqrt(squares)
        apart = apart[:, -1] if self.neighbours == "kth" else jnp.mean(apart, axis=-1)
        apart = jnp.where(enough, apart, 0.0).reshape(time, envs)
        state, spread = _spread(state, apart, enough.reshape(time, envs) & real)
        bonus = jnp.log1p(apart) if self.form == "log" else apart / spread[:, None]
        logged = {
            "re3/bonus": over_all(bonus, transitions.real),
            "re3/distance": over_all(apart, transitions.real),
            "re3/spread": spread[-1],
        }
        return self._entered(state, rows, real), bonus, logged

    def _there(self, state: Recent, real: Bool[Array, "time envs"]) -> Bool[Array, "queries points"]:
        """Which of the buffer and the rollout each step sees: the last ones before it, as many as have room.

        Observations are numbered from the rollout's first on, so that those of the buffer are negative. Where
        no step was made there is nothing to see, and nothing to number.
        """
        envs = real.shape[1]
        slots = jnp.arange(self.room)
        age = 1 + (state.added - 1 - slots) % self.room
        number = jnp.concatenate([-age, _numbers(real)])
        written = jnp.concatenate([slots < state.added, real.reshape(-1)])
        made = jnp.sum(real, axis=1, dtype=jnp.int32)
        now = jnp.repeat(jnp.cumsum(made) - made, envs)[:, None]
        return written & (number < now) & (number >= now - self.room)

    def _entered(
        self, state: Recent, rows: Float32[Array, "rows units"], real: Bool[Array, "time envs"]
    ) -> Recent:
        """The buffer with the features of the steps that were made, the last ones if there are too many."""
        number, made = _numbers(real), jnp.sum(real, dtype=jnp.int32)
        kept = real.reshape(-1) & (number >= made - self.room)
        # Beyond the end nothing is written.
        place = jnp.where(kept, (state.added + number) % self.room, self.room)
        total = state.added + made
        # A full buffer is told by any number from its room on: kept small, it never overflows.
        added = jnp.where(total < self.room, total, self.room + total % self.room)
        buffer = state.buffer.at[place].set(rows, mode="drop")
        return eqx.tree_at(lambda s: (s.buffer, s.added), state, (buffer, added))


def _numbers(real: Bool[Array, "time envs"]) -> Int32[Array, " rows"]:
    """The steps that were made, numbered in the order of time, and of the environments within one time."""
    return jnp.cumsum(real.reshape(-1), dtype=jnp.int32) - 1


def _spread(
    state: Recent, apart: Float32[Array, "time envs"], enough: Bool[Array, "time envs"]
) -> tuple[Recent, Float32[Array, " time"]]:
    """The standard deviation of all distances up to each step, those of the step included.

    It begins at 1, with next to no weight.
    """
    from_mean = jnp.where(enough, apart - state.mean, 0.0)
    counted = state.counted + jnp.cumsum(jnp.sum(enough, axis=1, dtype=jnp.float32))
    moved = jnp.cumsum(jnp.sum(from_mean, axis=1)) / counted
    squares = state.squares + jnp.cumsum(jnp.sum(jnp.square(from_mean), axis=1))
    squares = jnp.maximum(squares - counted * jnp.square(moved), 0.0)
    state = eqx.tree_at(
        lambda s: (s.counted, s.mean, s.squares), state, (counted[-1], state.mean + moved[-1], squares[-1])
    )
    return state, jnp.maximum(jnp.sqrt(squares / counted), LEAST)
