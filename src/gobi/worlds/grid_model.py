"""A learned world: a grid model that imagines from the panorama, fixed or learning along with the policy."""

from __future__ import annotations

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Integer, Key, PyTree, UInt8

from gobi.envs.minigrid.rules import NUM_ACTIONS
from gobi.errors import GobiError
from gobi.types import Spec, Transition, Views
from gobi.worlds.erasure import Erase, erased
from gobi.worlds.network import FRONT, Network, accuracy
from gobi.worlds.networks import from_settings
from gobi.worlds.optimising import Batch, learned, rows_of

MODES = ("fixed", "finetuned", "online")
SEES = ("panorama", "view")
MEASURED_ROWS = 256
"""Rows of a rollout on which the accuracy is measured: enough for a curve, and cheap."""
ROWS_AT_ONCE = 128
"""Rows from which a small network imagines together: what comes between its layers then stays in the
cache of a CPU core."""


class Learning(eqx.Module):
    """What a world that learns keeps: its own copy of the network, and the optimiser's state."""

    network: Network
    optimiser: PyTree


class GridModel(eqx.Module):
    """Imagines with a network, all rows and actions in one large batch.

    With k = 1 there is a prediction for each action (times `samples`). With k > 1 each of these starts a
    chain that goes on with random actions; predictions then come step by step: all chains' first views, all
    their second ones, and so on.

    network:         pre-trained for `fixed` and `finetuned`; for `online` only its settings matter.
    mode:            `fixed`; `finetuned`: learns on from each rollout; `online`: the same from scratch.
    actions:         what is tried in every state.
    sampled:         if not 0: this many actions per state instead, drawn from all seven with replacement.
    steps:           k.
    samples:         futures per action of a stochastic network. The first of several is the most likely one.
    sees:            the `panorama`; or the agent's own `view` alone, the cells of the other three unseen.
    erase_targets:   learn to predict views without keys, balls and boxes; `lying`: but with what is carried.
    gradient_steps:  Adam steps per rollout, each on `batch_size` of its transitions.
    """

    network: Network
    mode: str = eqx.field(static=True, default="fixed")
    actions: tuple[int, ...] = eqx.field(static=True, default=(0, 1, 2, 3, 4, 5))
    sampled: int = eqx.field(static=True, default=0)
    steps: int = eqx.field(static=True, default=1)
    samples: int = eqx.field(static=True, default=1)
    sees: str = eqx.field(static=True, default="panorama")
    erase_targets: Erase = eqx.field(static=True, default=False)
    gradient_steps: int = eqx.field(static=True, default=4)
    batch_size: int = eqx.field(static=True, default=256)
    learning_rate: float = eqx.field(static=True, default=5e-4)

    def __check_init__(self):
        if self.mode not in MODES:
            raise GobiError(f"a grid model's mode must be one of {', '.join(MODES)}, got '{self.mode}'")
        if min(self.steps, self.samples, self.gradient_steps, self.batch_size) < 1 or self.sampled < 0:
            raise GobiError(
                "steps, samples, gradient_steps, batch_size must be at least 1, sampled at least 0"
            )
        if not self.actions or not all(0 <= action < NUM_ACTIONS for action in self.actions):
            raise GobiError(f"actions must be in 0 .. {NUM_ACTIONS - 1}, got {self.actions}")
        if self.steps > 1 and self.network.settings.predicts != "panorama":
            raise GobiError(f"{self.steps} steps ahead need a network with predicts='panorama'")
        if self.sees not in SEES:
            raise GobiError(f"a grid model sees one of {', '.join(SEES)}, got '{self.sees}'")
        if self.sees == "view" and self.network.settings.predicts == "panorama":
            raise GobiError("a model that sees the view alone cannot learn to predict panoramas")
        if self.samples > 1 and not self.network.stochastic:
            kind = self.network.settings.kind
            raise GobiError(f"the network '{kind}' is deterministic: {self.samples} samples would be equal")

    @property
    def reads(self) -> frozenset[str]:
        """The views it needs."""
        return frozenset({"panorama" if self.sees == "panorama" else "observation"})

    @property
    def chains(self) -> int:
        """Futures that are followed from each state."""
        return (self.sampled or len(self.actions)) * self.samples

    @property
    def predictions(self) -> int:
        """How many views it imagines per state."""
        return self.chains * self.steps

    @property
    def repeatable(self) -> bool:
        """Whether equal views always lead to equal predictions, whatever the keys."""
        return not (self.network.stochastic or self.sampled) and self.steps == 1

    @property
    def rows_at_once(self) -> int | None:
        """How many rows are best imagined from together; None is all of them."""
        return None if self.network.settings.size == "paper" else ROWS_AT_ONCE

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Learning | tuple[()]:
        """Nothing for a fixed model, which all seeds share; else a network of one's own and its optimiser."""
        del spec, num_envs
        if self.mode == "fixed":
            return ()
        if self.mode == "online":
            network = from_settings(self.network.settings, key)
        else:
            network = jax.tree.map(jnp.copy, self.network)
        return Learning(network, self._optimiser().init(cast(optax.Params, network)))

    def imagine(
        self, ws: PyTree, keys: Key[Array, " n"], views: Views
    ) -> tuple[UInt8[Array, "n predictions 7 7 3"], Bool[Array, "n predictions"]]:
        """The predicted views of each row; all of them are valid."""
        network = ws.network if isinstance(ws, Learning) else self.network
        panorama = self._seen(views)
        rows = len(panorama)
        step_keys = jax.vmap(lambda key: jax.random.split(key, 2 * self.steps), out_axes=1)(keys)
        actions = self._first_actions(step_keys[0])
        predicted = network.predict(network.encode(panorama), actions, step_keys[1], self._noise())
        imagined = [self._front(predicted)]
        for step in range(1, self.steps):
            each = predicted.reshape(rows * self.chains, 4, 7, 7, 3)
            actions = _draw_actions(step_keys[2 * step], self.chains).reshape(-1, 1)
            chain_keys = jax.vmap(lambda key: jax.random.split(key, self.chains))(step_keys[2 * step + 1])
            predicted = network.predict(network.encode(each), actions, chain_keys.reshape(-1), jnp.ones(1))
            predicted = predicted.reshape(rows, self.chains, 4, 7, 7, 3)
            imagined.append(self._front(predicted))
        return jnp.concatenate(imagined, axis=1), jnp.ones((rows, self.predictions), bool)

    def learn(
        self, ws: PyTree, key: Key[Array, ""], rollout: Transition
    ) -> tuple[PyTree, dict[str, Float32[Array, ""]]]:
        """Measures the model on the rollout; then, unless it is fixed, learns from it.

        Steps that end an episode are left out, as in pre-training. The measures are taken before learning,
        so they tell how well the model predicts what it has not seen.
        """
        data = self._data(rollout)
        rows = len(data.action)
        measure_key, learn_key = jax.random.split(key)
        network = ws.network if isinstance(ws, Learning) else self.network
        # Spread over the whole rollout: an untrained policy's first steps are all alike.
        spread = slice(0, rows, max(1, rows // MEASURED_ROWS))
        metrics = measures(network, rows_of(rows_of(data, spread), slice(0, MEASURED_ROWS)), measure_key)
        if not isinstance(ws, Learning):
            return ws, metrics

        def update(learning: Learning, step_key: Key[Array, ""]) -> tuple[Learning, None]:
            row_key, noise_key = jax.random.split(step_key)
            batch = rows_of(data, jax.random.randint(row_key, (self.batch_size,), 0, rows))
            network, state, _ = learned(
                self._optimiser(), learning.network, learning.optimiser, batch, noise_key
            )
            return Learning(network, state), None

        ws, _ = jax.lax.scan(update, ws, jax.random.split(learn_key, self.gradient_steps))
        return ws, metrics

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)

    def _first_actions(self, keys: Key[Array, " n"]) -> Integer[Array, "n chains"]:
        if self.sampled:
            actions = _draw_actions(keys, self.sampled)
        else:
            actions = jnp.broadcast_to(jnp.array(self.actions, jnp.int32), (len(keys), len(self.actions)))
        return jnp.repeat(actions, self.samples, axis=1)

    def _noise(self) -> Float32[Array, " chains"]:
        """How much randomness each chain starts with: none in the first of several samples of an action."""
        number = jnp.arange(self.chains) % self.samples
        return jnp.where((number == 0) & (self.samples > 1), 0.0, 1.0)

    def _front(self, predicted: UInt8[Array, "n a views 7 7 3"]) -> UInt8[Array, "n a 7 7 3"]:
        """The view straight ahead: the last of a panorama, or the only one."""
        return predicted[:, :, -1]

    def _seen(self, views: Views) -> UInt8[Array, "*batch 4 7 7 3"]:
        """The panorama, as far as it was looked at."""
        if self.sees == "panorama":
            return views["panorama"]
        ahead = views["observation"]
        return jnp.stack([*[jnp.zeros_like(ahead)] * FRONT, ahead], axis=-4)

    def _data(self, rollout: Transition) -> Batch:
        """All steps in a row, with weight 0 where an episode ended."""
        flat = jax.tree.map(
            lambda array: array.reshape(-1, *array.shape[2:]),
            (self._seen(rollout.before), rollout.action, self._seen(rollout.after), rollout.done),
        )
        panorama, action, after, done = flat
        target = after if self.network.settings.predicts == "panorama" else after[:, FRONT:]
        target = erased(target, self.erase_targets)
        return Batch(panorama, action, target, (~done).astype(jnp.float32))


def measures(network: Network, batch: Batch, key: Key[Array, ""]) -> dict[str, Float32[Array, ""]]:
    """Loss, share of exactly predicted views, share of right cells.

    In two halves, one after the other: in a loop of its own, what is predicted is not fused with the making
    of the views. LLVM would compile that for many minutes.
    """
    parts = 2 if len(batch.action) % 2 == 0 else 1
    loss_key, predict_key = jax.random.split(key)
    keys = jax.random.split(predict_key, len(batch.action)).reshape(parts, -1)

    def summed(part: tuple[Batch, Key[Array, " rows"], Key[Array, ""]]) -> Float32[Array, "3"]:
        rows, row_keys, key = part
        predicted = network.predict(
            network.encode(rows.panorama), rows.action[:, None], row_keys, jnp.ones(1)
        )
        losses = network.loss(rows.panorama, rows.action, rows.target, key)
        per_row = jnp.stack([losses, *accuracy(predicted[:, 0], rows.target)])
        return jnp.sum(per_row * rows.weight, axis=-1)

    halves = jax.tree.map(lambda array: array.reshape(parts, -1, *array.shape[1:]), batch)
    sums = jax.lax.map(summed, (halves, keys, jax.random.split(loss_key, parts)))
    loss, exact, right = jnp.sum(sums, axis=0) / jnp.maximum(jnp.sum(batch.weight), 1)
    return {"world/loss": loss, "world/exact": exact, "world/cells": right}


def _draw_actions(keys: Key[Array, " n"], count: int) -> Integer[Array, "n count"]:
    """Actions for each row from its own key, out of all seven."""
    return jax.vmap(lambda key: jax.random.randint(key, (count,), 0, NUM_ACTIONS))(keys)
