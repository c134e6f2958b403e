"""ICM on control tasks: the error with which a step's outcome is predicted, in learned features."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Key, PyTree

from gobi import settings
from gobi.errors import unknown
from gobi.rewards.control import running
from gobi.rewards.control.encoder import VECTORS, Encoder, Raw, Vectors, after, before, encoder, num_features
from gobi.rewards.control.lessons import ControlReward
from gobi.rewards.control.running import STATISTICS, Running, Statistics
from gobi.rewards.distillation import MLP, NORMS, Norm, length, mlp
from gobi.rewards.reward import Metrics
from gobi.types import Spec, Transition

EMBEDDINGS = ("learned", "random")


class Models(eqx.Module):
    """The three networks.

    encoder:  frames to features.
    forward:  features and an action to the next features.
    inverse:  two consecutive features to the action between them, before a tanh.
    """

    encoder: Encoder | Raw
    forward: MLP
    inverse: MLP


class Curious(eqx.Module):
    """The state of `ICM`.

    models:     the networks.
    optimiser:  theirs (Adam).
    running:    of the bonuses so far.
    """

    models: Models
    optimiser: PyTree
    running: Running


class ICM(ControlReward):
    """||f(phi(o_t), a_t) - phi(o_{t+1})||^2 / 2, f the forward model (Pathak et al. 2017).

    After it has been paid, all networks take one step of Adam on the batch: forward and inverse losses are
    the same expression, of features and of actions.

    norm:        `squared`, halved, as in the GoBI paper, or `plain`.
    embedding:   `learned` by both models; `random`: phi never learns, and there is no inverse model.
    frames:      how many of the latest frames phi reads.
    forward:     the weight of the forward loss; `inverse` that of the inverse one.
    normalise:   divide by the running standard deviation of all sampled bonuses.
    statistics:  of that deviation, see `running.update`.
    hidden:      units of the one hidden layer of either model.
    units:       features.
    vectors:     how state vectors are read, see `encoder.encoder`.
    rate:        Adam's learning rate.
    """

    norm: Norm = eqx.field(static=True, default="squared")
    embedding: Literal["learned", "random"] = eqx.field(static=True, default="learned")
    frames: int = eqx.field(static=True, default=1)
    forward: float = eqx.field(static=True, default=0.2)
    inverse: float = eqx.field(static=True, default=0.8)
    normalise: bool = eqx.field(static=True, default=True)
    statistics: Statistics = eqx.field(static=True, default="welford")
    hidden: int = eqx.field(static=True, default=1024)
    units: int = eqx.field(static=True, default=50)
    vectors: Vectors = eqx.field(static=True, default="mlp")
    rate: float = eqx.field(static=True, default=1e-4)

    def __check_init__(self):
        known = {"norm": NORMS, "embedding": EMBEDDINGS, "statistics": STATISTICS, "vectors": VECTORS}
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise unknown(name, getattr(self, name), values)
        names = ("hidden", "units", "rate", "frames", "forward")
        settings.positive(**{name: getattr(self, name) for name in names})
        settings.at_least(0, inverse=self.inverse)

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        inverse = ("inverse_loss",) if self.embedding == "learned" else ()
        return ("surprise", "surprise_spread", "forward_loss", *inverse)

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int = 1) -> Curious:
        """Fresh networks."""
        del num_envs
        keys = jax.random.split(key, 3)
        network = encoder(keys[0], spec, self.units, self.vectors, self.frames)
        units = num_features(network, spec)
        models = Models(
            encoder=network,
            forward=mlp(keys[1], (units + spec.action_size, self.hidden, units)),
            inverse=mlp(keys[2], (2 * units, self.hidden, spec.action_size)),
        )
        optimiser = optax.adam(self.rate).init(models)  # pyright: ignore[reportArgumentType]
        return Curious(models, optimiser, running.begin())

    def step(self, state: Curious, transition: Transition) -> tuple[Curious, Float32[Array, " envs"]]:
        """Nothing is paid yet."""
        return state, jnp.zeros_like(transition.reward)

    def at_sampling(
        self, state: Curious, key: Key[Array, ""], stored: Float32[Array, " batch"], batch: Any
    ) -> tuple[Curious, Float32[Array, " batch"], Metrics]:
        """How wrong the forward model is on each transition; then the networks learn them."""
        del key, stored
        losses = jax.value_and_grad(self._loss, has_aux=True)
        (_, (surprise, logged)), gradient = losses(state.models, batch)
        changes, optimiser = optax.adam(self.rate).update(gradient, state.optimiser)
        models = eqx.apply_updates(state.models, changes)
        statistics = running.update(state.running, surprise, self.statistics)
        bonus = surprise / statistics.deviation if self.normalise else surprise
        logged |= {"surprise": jnp.mean(surprise), "surprise_spread": statistics.deviation}
        return Curious(models, optimiser, statistics), bonus, logged

    def _loss(
        self, models: Models, batch: Any
    ) -> tuple[Float32[Array, ""], tuple[Float32[Array, " batch"], Metrics]]:
        """The loss of the batch; and each row's forward error, which is the bonus."""
        both = jnp.concatenate([before(batch, self.frames), after(batch, self.frames)])
        left, reached = jnp.split(models.encoder(both), 2)
        if self.embedding == "random":
            left, reached = jax.lax.stop_gradient((left, reached))
        guess = models.forward(jnp.concatenate([left, batch.action], axis=-1))
        surprise = self._size(guess - reached)
        forward = jnp.mean(surprise)
        if self.embedding == "random":
            return self.forward * forward, (surprise, {"forward_loss": forward})
        action = jnp.tanh(models.inverse(jnp.concatenate([left, reached], axis=-1)))
        inverse = jnp.mean(self._size(action - batch.action))
        logged = {"forward_loss": forward, "inverse_loss": inverse}
        return self.forward * forward + self.inverse * inverse, (surprise, logged)

    def _size(self, errors: Float32[Array, "batch units"]) -> Float32[Array, " batch"]:
        return length(errors, self.norm) * (0.5 if self.norm == "squared" else 1.0)
