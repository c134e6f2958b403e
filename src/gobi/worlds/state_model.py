"""A world for control from state vectors: it learns what actions lead to, and imagines random ones."""

from __future__ import annotations

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Int32, Key, PyTree

from gobi.errors import GobiError, unknown
from gobi.types import Spec
from gobi.worlds.predictor_layers import Standard, unseen
from gobi.worlds.predictors import Predictor, predictor
from gobi.worlds.random_actions import DRAWS, random_actions


class StateModelState(eqx.Module):
    """What the model has learned.

    network:    from a state and an action to the next state, both standardised.
    standard:   how states are standardised.
    optimiser:  Adam's state; None where it is not to learn any more.
    learned:    gradient steps taken.
    """

    network: Predictor
    standard: Standard
    optimiser: PyTree
    learned: Int32[Array, ""]


class StateModel(eqx.Module):
    """Answers what `gobi.worlds.rssm.RSSM` answers, where the state is seen and nothing need be remembered.

    A belief is the state itself. States are told, and imagined, in units of their own spread about their
    mean, so that one hash suits all tasks. Until it has learned, it foresees no change.

    size:           numbers of a state.
    action_size:    numbers of an action.
    steps:          k, how far it imagines; 0 imagines nothing, as a control.
    actions:        n, how many futures; each takes a fresh random action at every step.
    draws:          random actions are `uniform` in -1 .. 1, or `normal` and cut off there.
    units:          of the hidden layers.
    """

    size: int = eqx.field(static=True)
    action_size: int = eqx.field(static=True)
    steps: int = eqx.field(static=True, default=1)
    actions: int = eqx.field(static=True, default=5)
    draws: str = eqx.field(static=True, default="uniform")
    units: int = eqx.field(static=True, default=128)
    learning_rate: float = eqx.field(static=True, default=1e-3)

    def __check_init__(self):
        if min(self.size, self.action_size, self.actions, self.units) < 1 or self.steps < 0:
            raise GobiError("size, action_size, actions and units of a StateModel are at least 1, steps 0")
        if self.draws not in DRAWS:
            raise unknown("draws", self.draws, DRAWS)

    @property
    def predictions(self) -> int:
        """How many states it imagines per state."""
        return self.actions * self.steps

    @property
    def needed(self) -> bool:
        """It is, even if nothing is imagined: for the scale of states."""
        return True

    def init(self, key: Key[Array, ""], spec: Spec) -> StateModelState:
        """A model that has learned nothing."""
        if (spec.observation_shape, spec.action_size) != ((self.size,), self.action_size):
            raise GobiError(
                f"this model is for states of {self.size} numbers and actions of {self.action_size}; "
                f"'{spec.id}' has {list(spec.observation_shape)} and {spec.action_size}"
            )
        network = predictor(key, spec, self.units)
        optimiser = self._optimiser().init(cast(optax.Params, network))
        return StateModelState(network, unseen(self.size), optimiser, jnp.zeros((), jnp.int32))

    def as_it_is(self, ws: StateModelState) -> StateModelState:
        """What of its state it imagines with: a caller may keep it while the world goes on learning."""
        return StateModelState(ws.network, ws.standard, None, ws.learned)

    def first_belief(self) -> Float32[Array, " size"]:
        """Before an episode's first state."""
        return jnp.zeros(self.size)

    def observe(
        self,
        ws: StateModelState,
        belief: Float32[Array, "*batch size"],
        action: Float32[Array, "*batch acted"],
        frame: Float32[Array, "*batch size"],
        key: Key[Array, ""],
    ) -> Float32[Array, "*batch size"]:
        """The state that is seen: it says all there is to know."""
        del ws, belief, action, key
        return frame

    def imagine(
        self, ws: StateModelState, belief: Float32[Array, " size"], key: Key[Array, ""]
    ) -> Float32[Array, "predictions size"]:
        """States of n random futures, standardised: all first steps, then all second ones, ..."""
        state = jnp.broadcast_to(ws.standard(belief), (self.actions, self.size))
        followed = [jnp.zeros((0, self.size))]
        for step_key in jax.random.split(key, self.steps):
            action = random_actions(step_key, self.draws, self.actions, self.action_size)
            state = ws.network.predict(state, action[:, None])[:, 0]
            followed.append(state)
        return jnp.concatenate(followed)

    def present(
        self, ws: StateModelState, belief: Float32[Array, "*batch size"], frame: Float32[Array, "*batch size"]
    ) -> Float32[Array, "*batch size"]:
        """The present state as imagined ones are, to be hashed beside them."""
        del belief
        return ws.standard(frame)

    def learn(
        self,
        ws: StateModelState,
        key: Key[Array, ""],
        frames: Float32[Array, "batch time size"],
        actions: Float32[Array, "batch time acted"],
    ) -> tuple[StateModelState, dict[str, Float32[Array, ""]]]:
        """One gradient step on all steps of sequences, measured before; actions[:, t] led to frames[:, t]."""
        del key
        standard = ws.standard.noticing(frames.reshape(-1, self.size))
        states = standard(frames)
        before, after = states[:, :-1].reshape(-1, self.size), states[:, 1:].reshape(-1, self.size)
        action = actions[:, 1:].reshape(-1, self.action_size)
        each = jnp.ones(len(before))
        network = ws.network.noticing(before, after, each)
        predicted = network.predict(before, action[:, None])[:, 0]

        def loss(network: Predictor) -> Float32[Array, ""]:
            return jnp.mean(network.loss(before, action, after))

        value, gradient = jax.value_and_grad(loss)(network)
        changes, optimiser = self._optimiser().update(gradient, ws.optimiser)
        metrics = {"world/loss": value, **network.quality(before, predicted, after, each)}
        learned = StateModelState(eqx.apply_updates(network, changes), standard, optimiser, ws.learned + 1)
        return learned, metrics

    def _optimiser(self) -> optax.GradientTransformation:
        # As one vector: few large operations and few arrays.
        return optax.flatten(optax.adam(self.learning_rate))
