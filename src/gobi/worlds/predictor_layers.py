"""The layers of networks that predict observations, and what they know of how large those usually are."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key

from gobi.networks.layers import Conv3x3, Linear, orthogonal_linear

CHANNELS = 32
LATELY = 0.02
"""The least weight of a rollout in what is known of the size of changes."""
FARTHEST = 10.0
"""From the mean of a number, in its spreads, at most."""
LEAST = 1e-6
"""The size of changes that have never been seen."""


class Dense(eqx.Module):
    """Layers on the features, joined by the action, then two more; the last begins at 0."""

    first: Linear
    second: Linear
    action: Linear
    third: Linear
    last: Linear

    def __call__(
        self, features: Float[Array, "n f"], actions: Float32[Array, "n a size"]
    ) -> Float32[Array, "n a outputs"]:
        """The outputs for each action."""
        hidden = self.second(jax.nn.relu(self.first(features)))
        hidden = jax.nn.relu(hidden[:, None] + self.action(actions))
        return self.last(jax.nn.relu(self.third(hidden)))


class Local(eqx.Module):
    """The same with 3x3 convolutions on a grid: what happens to a cell, by what is around it."""

    first: Conv3x3
    action: Linear
    second: Conv3x3
    last: Linear

    def __call__(
        self, grid: Float[Array, "n h w c"], actions: Float32[Array, "n a size"]
    ) -> Float32[Array, "n a h w outputs"]:
        """The outputs of each cell for each action."""
        hidden = self.first(grid)[:, None] + self.action(actions)[:, :, None, None]
        return self.last(jax.nn.relu(self.second(jax.nn.relu(hidden))))


class Change(eqx.Module):
    """How large changes usually are.

    squares:  the mean square of the changes of each number, or of all of them together.
    noticed:  how many were seen.
    """

    squares: Float32[Array, "..."]
    noticed: Float32[Array, ""]

    @property
    def scale(self) -> Float32[Array, "..."]:
        """Their root mean square: known, not learned."""
        return jax.lax.stop_gradient(jnp.sqrt(self.squares) + LEAST)

    def noticing(self, squares: Float32[Array, "..."], count: Float32[Array, ""]) -> Change:
        """After a rollout with `count` changes of this mean square."""
        noticed = self.noticed + count
        return Change(self.squares + _weight(count, noticed) * (squares - self.squares), noticed)


class Standard(eqx.Module):
    """Where each of some numbers usually lies.

    mean:     of each.
    squares:  mean square of their distance from it.
    noticed:  how many were seen; before any, numbers stay as they are.
    """

    mean: Float32[Array, "*seeds size"]
    squares: Float32[Array, "*seeds size"]
    noticed: Float32[Array, "*seeds"]

    def __call__(self, numbers: Float32[Array, "*batch size"]) -> Float32[Array, "*batch size"]:
        """The same in units of their spread about their mean, cut off far from it.

        What has never changed yet has next to no spread, and may suddenly be anywhere.
        """
        return jnp.clip((numbers - self.mean) / jnp.sqrt(self.squares + LEAST), -FARTHEST, FARTHEST)

    def noticing(self, numbers: Float32[Array, "n size"]) -> Standard:
        """After so many more; what came lately counts for more than what is long past."""
        noticed = self.noticed + len(numbers)
        weight = _weight(jnp.float32(len(numbers)), noticed)
        apart = jnp.mean(numbers, axis=0) - self.mean
        squares = (1 - weight) * self.squares + weight * jnp.var(numbers, axis=0)
        return Standard(
            self.mean + weight * apart, squares + weight * (1 - weight) * jnp.square(apart), noticed
        )


def unseen(size: int) -> Standard:
    """Before anything was seen."""
    return Standard(jnp.zeros(size), jnp.ones(size), jnp.float32(0))


def _weight(count: Float32[Array, ""], all_of_them: Float32[Array, ""]) -> Float32[Array, ""]:
    """Of so many new ones among all."""
    return jnp.where(count > 0, jnp.maximum(count / jnp.maximum(all_of_them, 1), LATELY), 0.0)


def unnoticed(shape: tuple[int, ...]) -> Change:
    """Before anything has changed; one number for each of this shape."""
    return Change(jnp.zeros(shape), jnp.float32(0))


def dense(key: Key[Array, ""], features: int, action_size: int, outputs: int, units: int) -> Dense:
    """New layers for so many features and numbers of an action."""
    one, two, three, four = jax.random.split(key, 4)
    return Dense(
        orthogonal_linear(one, features, units),
        orthogonal_linear(two, units, units),
        orthogonal_linear(three, action_size, units),
        orthogonal_linear(four, units, units),
        _silent(units, outputs),
    )


def local(key: Key[Array, ""], channels: int, action_size: int) -> Local:
    """New convolutions, with as many outputs of a cell as it has channels."""
    one, two, three = jax.random.split(key, 3)
    return Local(
        Conv3x3(orthogonal_linear(one, 9 * channels, CHANNELS), stride=1),
        orthogonal_linear(two, action_size, CHANNELS),
        Conv3x3(orthogonal_linear(three, 9 * CHANNELS, CHANNELS), stride=1),
        _silent(CHANNELS, channels),
    )


def _silent(inputs: int, outputs: int) -> Linear:
    """A last layer that says nothing until it learns."""
    return Linear(jnp.zeros((inputs, outputs)), jnp.zeros(outputs))


def mean_square(x: Float32[Array, "n ..."], weight: Float32[Array, " n"]) -> Float32[Array, "..."]:
    """The mean over rows of the squares, by weight."""
    total = jnp.maximum(jnp.sum(weight), 1)
    return jnp.tensordot(weight, jnp.square(x), axes=1) / total
