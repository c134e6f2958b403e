"""The features of everything that is in a replay: a row for each of its slots."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32


class Features(eqx.Module):
    """Rows, by the replay's slots.

    rows:   features.
    there:  whether a transition of the replay starts at the slot.
    """

    rows: Float32[Array, "*seeds slots units"]
    there: Bool[Array, "*seeds slots"]


def empty(slots: int, units: int) -> Features:
    """Nothing yet."""
    return Features(jnp.zeros((slots, units)), jnp.zeros(slots, bool))


def enter(
    features: Features,
    slot: Int32[Array, " envs"],
    rows: Float32[Array, "envs units"],
    done: Bool[Array, " envs"],
) -> Features:
    """The row of a transition, at the slot from which it starts.

    In the next slot the replay writes the frame that was reached, and at an episode's end the next episode's
    first frame after that: what they held of an earlier round is in the replay no longer.
    """
    slots = features.there.shape[0]
    lost = jnp.stack([slot + 1, slot + 1 + done], axis=-1) % slots
    return Features(
        rows=features.rows.at[slot].set(rows), there=features.there.at[lost].set(False).at[slot].set(True)
    )
