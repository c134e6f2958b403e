"""Pre-training a grid model on random play, all of it on the device."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Key, PyTree, UInt8

from gobi.errors import GobiError
from gobi.worlds.collecting import Transitions
from gobi.worlds.erasure import Erase, erased
from gobi.worlds.network import FRONT, Network
from gobi.worlds.optimising import Batch, learned, rows_of


def targets(network: Network, data: Transitions, erase: Erase = False) -> UInt8[Array, "n views 7 7 3"]:
    """What the network should predict for each row: the next view or the next panorama."""
    after = jnp.asarray(data.after if network.views == 4 else data.after[:, FRONT:])
    return erased(after, erase)


def train(
    network: Network,
    data: Transitions,
    key: Key[Array, ""],
    epochs: int = 5,
    learning_rate: float = 2e-3,
    schedule: str = "cosine",
    batch_size: int = 256,
    erase_targets: Erase = False,
    progress: Callable[[int, int, float], None] | None = None,
) -> Network:
    """The network after `epochs` rounds through the data with Adam.

    The public code's are 80 epochs at a constant 5e-4. `progress` is called after each epoch with its number,
    their total, and the mean loss.
    """
    if epochs < 1 or batch_size < 1:
        raise GobiError(f"training needs epochs and batch_size of at least 1, got {epochs} and {batch_size}")
    if schedule not in ("constant", "cosine"):
        raise GobiError(f"schedule must be constant or cosine, got '{schedule}'")
    batch_size = min(batch_size, len(data))
    steps = epochs * -(-len(data) // batch_size)
    cosine = optax.cosine_decay_schedule(learning_rate, steps)
    optimiser = optax.adam(cosine if schedule == "cosine" else learning_rate)
    batch = Batch(
        panorama=jnp.asarray(data.panorama),
        action=jnp.asarray(data.action),
        target=targets(network, data, erase_targets),
        weight=jnp.ones(len(data)),
    )
    epoch = jax.jit(functools.partial(_epoch, optimiser, batch_size), donate_argnums=(0, 1))
    state = jax.jit(optimiser.init)(network)
    # The caller keeps its network: the copy is what each epoch may overwrite.
    network = jax.tree.map(jnp.copy, network)
    for number in range(epochs):
        network, state, loss = epoch(network, state, batch, jax.random.fold_in(key, number))
        if progress is not None:
            progress(number + 1, epochs, float(loss))
    return network


def _epoch(
    optimiser: optax.GradientTransformation,
    batch_size: int,
    network: Network,
    state: PyTree,
    data: Batch,
    key: Key[Array, ""],
) -> tuple[Network, PyTree, Float32[Array, ""]]:
    """Once through the data in a new order; the last batch is filled up with rows of the first."""
    rows = len(data.action)
    shuffle_key, noise_key = jax.random.split(key)
    steps = -(-rows // batch_size)
    order = jnp.resize(jax.random.permutation(shuffle_key, rows), (steps, batch_size))

    def step(carry: tuple[Network, PyTree], inputs):
        chosen, step_key = inputs
        network, state, loss = learned(optimiser, *carry, rows_of(data, chosen), step_key)
        return (network, state), loss

    keys = jax.random.split(noise_key, steps)
    (network, state), losses = jax.lax.scan(step, (network, state), (order, keys))
    return network, state, jnp.mean(losses)
