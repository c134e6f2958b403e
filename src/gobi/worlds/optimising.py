"""One step of learning for a grid model, the same in pre-training and during a run."""

from __future__ import annotations

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Integer, Key, PyTree, UInt8

from gobi.worlds.network import Network


class Batch(NamedTuple):
    """Rows to learn from or to be measured on; a row of weight 0 counts for nothing."""

    panorama: UInt8[Array, "n 4 7 7 3"]
    action: Integer[Array, " n"]
    target: UInt8[Array, "n views 7 7 3"]
    weight: Float32[Array, " n"]


def rows_of(batch: Batch, rows: slice | Integer[Array, " m"]) -> Batch:
    """Some of the rows."""
    return jax.tree.map(lambda array: array[rows], batch)


def mean_loss(network: Network, batch: Batch, key: Key[Array, ""]) -> Float32[Array, ""]:
    """The network's loss, averaged over the rows by weight."""
    losses = network.loss(batch.panorama, batch.action, batch.target, key)
    return jnp.sum(losses * batch.weight) / jnp.maximum(jnp.sum(batch.weight), 1)


def learned(
    optimiser: optax.GradientTransformation,
    network: Network,
    state: PyTree,
    batch: Batch,
    key: Key[Array, ""],
) -> tuple[Network, PyTree, Float32[Array, ""]]:
    """Network and optimiser's state after one step on a batch, and the loss before it."""
    loss, gradient = jax.value_and_grad(mean_loss)(network, batch, key)
    changes, state = optimiser.update(gradient, state)
    return cast(Network, optax.apply_updates(cast(optax.Params, network), changes)), state, loss
