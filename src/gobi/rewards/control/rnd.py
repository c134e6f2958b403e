"""RND on control tasks: how far a trained network is from a fixed random one on the frame reached."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Key, PyTree, Shaped

from gobi import settings
from gobi.errors import unknown
from gobi.rewards.control import running
from gobi.rewards.control.encoder import VECTORS, Encoder, Raw, Vectors, after, encoder, num_features
from gobi.rewards.control.lessons import ControlReward
from gobi.rewards.control.running import STATISTICS, Running, Statistics
from gobi.rewards.distillation import MLP, NORMS, Norm, length, mlp
from gobi.rewards.reward import Metrics
from gobi.types import Spec, Transition

EMBEDDINGS = ("frozen", "own")
OUTPUTS = 128
"""Numbers that target and predictor give."""


class Branch(eqx.Module):
    """Target or predictor: an encoder of its own, or none, and dense layers."""

    encoder: Encoder | Raw | None
    layers: MLP

    def __call__(self, x: Shaped[Array, "batch ..."]) -> Float32[Array, "batch outputs"]:
        """The outputs for each frame, or for each row of features where there is no encoder."""
        return self.layers(x if self.encoder is None else self.encoder(x))


class Distilled(eqx.Module):
    """The state of `RND`.

    encoder:    the frozen one that both read; None where each has its own.
    features:   what it makes of the frames that were reached, by the slot that was left; None likewise.
    target:     fixed at random.
    predictor:  learns to say the same.
    optimiser:  of the predictor (Adam).
    running:    of the bonuses so far.
    """

    encoder: Encoder | Raw | None
    features: Float32[Array, "*seeds slots units"] | None
    target: Branch
    predictor: Branch
    optimiser: PyTree
    running: Running


class RND(ControlReward):
    """||predictor(o_{t+1}) - target(o_{t+1})||^2, with the predictor of before the batch (Burda et al. 2018).

    After it has been paid, the predictor takes one step of Adam on the batch's mean squared error.

    norm:        `squared`, as in the GoBI paper, or `plain`.
    embedding:   `frozen`: target and predictor are dense layers on a random encoder that never learns (as in
                 MADE's code, which is RE3's with RND inside); it reads each frame once, when it is collected.
                 `own`: each has an encoder of its own, and the predictor's learns too (as in Burda et al.).
    normalise:   divide by the running standard deviation of all sampled bonuses.
    statistics:  of that deviation, see `running.update`.
    hidden:      units of a hidden layer; the target has one, the predictor three.
    units:       features of an encoder.
    vectors:     how state vectors are read, see `encoder.encoder`.
    rate:        Adam's learning rate.
    capacity:    slots of the replay.
    """

    norm: Norm = eqx.field(static=True, default="squared")
    embedding: Literal["frozen", "own"] = eqx.field(static=True, default="frozen")
    normalise: bool = eqx.field(static=True, default=True)
    statistics: Statistics = eqx.field(static=True, default="welford")
    hidden: int = eqx.field(static=True, default=512)
    units: int = eqx.field(static=True, default=50)
    vectors: Vectors = eqx.field(static=True, default="mlp")
    rate: float = eqx.field(static=True, default=2e-4)
    capacity: int = eqx.field(static=True, default=100_000)

    def __check_init__(self):
        known = {"norm": NORMS, "embedding": EMBEDDINGS, "statistics": STATISTICS, "vectors": VECTORS}
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise unknown(name, getattr(self, name), values)
        names = ("hidden", "units", "rate", "capacity")
        settings.positive(**{name: getattr(self, name) for name in names})

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("novelty", "novelty_spread", "predictor_loss")

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int = 1) -> Distilled:
        """Random networks."""
        del num_envs
        keys = jax.random.split(key, 4)
        one = encoder(keys[0], spec, self.units, self.vectors)
        frozen = self.embedding == "frozen"
        units = num_features(one, spec)
        other = None if frozen else encoder(keys[3], spec, self.units, self.vectors)
        predictor = Branch(other, mlp(keys[2], (units, *[self.hidden] * 3, OUTPUTS)))
        return Distilled(
            encoder=one if frozen else None,
            features=jnp.zeros((self.capacity, units)) if frozen else None,
            target=Branch(None if frozen else one, mlp(keys[1], (units, self.hidden, OUTPUTS))),
            predictor=predictor,
            optimiser=optax.adam(self.rate).init(predictor),  # pyright: ignore[reportArgumentType]
            running=running.begin(),
        )

    def step(self, state: Distilled, transition: Transition) -> tuple[Distilled, Float32[Array, " envs"]]:
        """Keeps the frozen features of the frame that was reached; nothing is paid yet."""
        if state.encoder is not None and state.features is not None:
            rows = state.encoder(transition.after["frame"])
            kept = state.features.at[transition.before["slot"]].set(rows)
            state = eqx.tree_at(lambda s: s.features, state, kept)
        return state, jnp.zeros_like(transition.reward)

    def at_sampling(
        self, state: Distilled, key: Key[Array, ""], stored: Float32[Array, " batch"], batch: Any
    ) -> tuple[Distilled, Float32[Array, " batch"], Metrics]:
        """The novelty of each frame that was reached; then the predictor learns them."""
        del key, stored
        x = after(batch) if state.features is None else state.features[batch.index]
        wanted = state.target(x)

        def loss(predictor: Branch) -> tuple[Float32[Array, ""], Float32[Array, "batch outputs"]]:
            errors = predictor(x) - wanted
            return jnp.mean(jnp.square(errors)), errors

        (value, errors), gradient = jax.value_and_grad(loss, has_aux=True)(state.predictor)
        changes, optimiser = optax.adam(self.rate).update(gradient, state.optimiser)
        predictor = eqx.apply_updates(state.predictor, changes)

        novelty = length(errors, self.norm)
        statistics = running.update(state.running, novelty, self.statistics)
        bonus = novelty / statistics.deviation if self.normalise else novelty
        state = eqx.tree_at(
            lambda s: (s.predictor, s.optimiser, s.running), state, (predictor, optimiser, statistics)
        )
        logged = {
            "novelty": jnp.mean(novelty),
            "predictor_loss": value,
            "novelty_spread": statistics.deviation,
        }
        return state, bonus, logged
