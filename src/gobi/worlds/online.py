"""A world for any task: a model of what the next observation will be, learned along with the policy."""

from __future__ import annotations

from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Integer, Key, PyTree, Shaped

from gobi.errors import GobiError
from gobi.types import Spec, Transition, Views
from gobi.worlds.predictors import Predictor, predictor

MOST_TRIED = 8
"""Where there are more actions than this, some are drawn instead of trying each."""
DRAWN = 5
MEASURED_ROWS = 256
"""Rows of a rollout on which predictions are measured: enough for a curve, and cheap."""


class Learned(eqx.Module):
    """What the model keeps: its network, and the optimiser's state."""

    network: Predictor
    optimiser: PyTree


class OnlineModel(eqx.Module):
    """Imagines what actions would lead to with a network that learns from each rollout, from scratch.

    There is a prediction for each action, or for each of some that are drawn. With k > 1 each of these starts
    a chain that goes on with random actions; predictions then come step by step: all chains' first
    observations, all their second ones, and so on. Until it has learned, it predicts that nothing changes,
    and so adds nothing to what is within reach.

    num_actions:     actions are the integers below it; 0 where they are vectors.
    action_size:     actions are vectors of so many numbers in [-1, 1]; 0 where they are integers.
    sampled:         if not 0: this many actions per state, drawn evenly with replacement, instead of each.
    steps:           k.
    units:           of the hidden layers.
    gradient_steps:  Adam steps per rollout, each on `batch_size` of its transitions.
    """

    num_actions: int = eqx.field(static=True)
    action_size: int = eqx.field(static=True, default=0)
    sampled: int = eqx.field(static=True, default=0)
    steps: int = eqx.field(static=True, default=1)
    units: int = eqx.field(static=True, default=128)
    gradient_steps: int = eqx.field(static=True, default=32)
    batch_size: int = eqx.field(static=True, default=128)
    learning_rate: float = eqx.field(static=True, default=1e-3)

    def __check_init__(self):
        if min(self.steps, self.units, self.gradient_steps, self.batch_size) < 1 or self.sampled < 0:
            raise GobiError("steps, units, gradient_steps, batch_size must be at least 1, sampled at least 0")
        if (self.num_actions > 0) == (self.action_size > 0):
            raise GobiError("actions are either integers (num_actions) or vectors (action_size)")
        if not self.num_actions and not self.sampled:
            raise GobiError("of actions that are vectors, some must be drawn: sampled must be at least 1")
        if not self.learning_rate > 0:
            raise GobiError(f"learning_rate must be positive, got {self.learning_rate}")

    @classmethod
    def suited(cls, spec: Spec, **options: Any) -> OnlineModel:
        """One for a task: each action if there are few, else some; fewer gradient steps on pictures."""
        few = 0 < spec.num_actions <= MOST_TRIED
        pictures = spec.observation_dtype == "uint8" and not spec.classes
        cost = {"gradient_steps": 8, "batch_size": 64} if pictures else {}
        suited = {"sampled": 0 if few else DRAWN, **cost, **options}
        return cls(spec.num_actions, spec.action_size, **suited)

    @property
    def reads(self) -> frozenset[str]:
        """The views it needs."""
        return frozenset({"observation"})

    @property
    def actions(self) -> tuple[int, ...]:
        """The actions that there are, if they can be counted."""
        return tuple(range(self.num_actions))

    @property
    def chains(self) -> int:
        """Futures that are followed from each state."""
        return self.sampled or self.num_actions

    @property
    def predictions(self) -> int:
        """How many observations it imagines per state."""
        return self.chains * self.steps

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Learned:
        """A network that suits the task's observations."""
        del num_envs
        if (spec.num_actions, spec.action_size) != (self.num_actions, self.action_size):
            raise GobiError(
                f"this model is for {self.num_actions} actions of size {self.action_size}; {spec.id} has "
                f"{spec.num_actions} of size {spec.action_size}"
            )
        network = predictor(key, spec, self.units)
        return Learned(network, self._optimiser().init(cast(optax.Params, network)))

    def imagine(
        self, ws: Learned, keys: Key[Array, " n"], views: Views
    ) -> tuple[Shaped[Array, "n predictions ..."], Bool[Array, "n predictions"]]:
        """The predicted observations of each row; all of them are valid."""
        present = views["observation"]
        rows, chains = len(present), self.chains
        predicted = ws.network.predict(present, self._first_actions(keys))
        imagined = [predicted]
        for step in range(1, self.steps):
            again = jax.vmap(lambda key, step=step: jax.random.fold_in(key, step))(keys)
            actions = self._drawn(again, chains).reshape(rows * chains, 1, -1)
            each = predicted.reshape(rows * chains, *present.shape[1:])
            predicted = ws.network.predict(each, actions).reshape(predicted.shape)
            imagined.append(predicted)
        return jnp.concatenate(imagined, axis=1), jnp.ones((rows, self.predictions), bool)

    def learn(
        self, ws: Learned, key: Key[Array, ""], rollout: Transition
    ) -> tuple[Learned, dict[str, Float32[Array, ""]]]:
        """Measures the model on the rollout, which it has not seen; then learns from it.

        Lanes in which no step was made are left out, as if they were not there. The last step of an episode
        is one like any other.
        """
        before, action, after, weight = self._rows(rollout)
        count = jnp.sum(weight, dtype=jnp.int32)
        # Those that count come first, so that which rows are drawn depends on them alone.
        order = jnp.argsort(weight == 0, stable=True)

        def some(rows: Integer[Array, " m"]):
            return jax.tree.map(lambda part: part[order[rows]], (before, action, after, weight))

        # Spread over the whole rollout: an untrained policy's first steps are all alike.
        spread = jnp.arange(MEASURED_ROWS) * count // MEASURED_ROWS
        metrics = _measures(ws.network, *some(spread))
        noticing = ws.network.noticing(before, after, weight)

        def update(learned: Learned, step_key: Key[Array, ""]) -> tuple[Learned, None]:
            rows = jax.random.randint(step_key, (self.batch_size,), 0, jnp.maximum(count, 1))
            gradient = jax.grad(_mean_loss)(learned.network, *some(rows))
            changes, optimiser = self._optimiser().update(gradient, learned.optimiser)
            return Learned(eqx.apply_updates(learned.network, changes), optimiser), None

        keys = jax.random.split(key, self.gradient_steps)
        learned, _ = jax.lax.scan(update, Learned(noticing, ws.optimiser), keys)
        # Without a single step there is nothing to learn, and Adam would still move on.
        learned = jax.tree.map(lambda new, old: jnp.where(count > 0, new, old), learned, ws)
        return learned, metrics

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)

    def _first_actions(self, keys: Key[Array, " n"]) -> Float32[Array, "n chains size"]:
        if self.sampled:
            return self._drawn(keys, self.sampled)
        each = jnp.eye(self.num_actions)
        return jnp.broadcast_to(each, (len(keys), *each.shape))

    def _drawn(self, keys: Key[Array, " n"], count: int) -> Float32[Array, "n count size"]:
        """Actions for each row from its own key."""
        if self.num_actions:
            drawn = jax.vmap(lambda key: jax.random.randint(key, (count,), 0, self.num_actions))(keys)
            return jax.nn.one_hot(drawn, self.num_actions)
        shape = (count, self.action_size)
        return jax.vmap(lambda key: jax.random.uniform(key, shape, minval=-1, maxval=1))(keys)

    def _rows(self, rollout: Transition):
        """All steps in a row: observation, action as numbers, next observation, weight."""
        action = jax.nn.one_hot(rollout.action, self.num_actions) if self.num_actions else rollout.action
        parts = rollout.before["observation"], action, rollout.after["observation"], rollout.weights
        return jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), parts)


def _mean_loss(
    network: Predictor,
    before: Shaped[Array, "n ..."],
    action: Float32[Array, "n size"],
    after: Shaped[Array, "n ..."],
    weight: Float32[Array, " n"],
) -> Float32[Array, ""]:
    losses = network.loss(before, action, after)
    return jnp.sum(losses * weight) / jnp.maximum(jnp.sum(weight), 1)


def _measures(
    network: Predictor,
    before: Shaped[Array, "n ..."],
    action: Float32[Array, "n size"],
    after: Shaped[Array, "n ..."],
    weight: Float32[Array, " n"],
) -> dict[str, Float32[Array, ""]]:
    predicted = network.predict(before, action[:, None])[:, 0]
    quality = network.quality(before, predicted, after, weight)
    return {"world/loss": _mean_loss(network, before, action, after, weight), **quality}
