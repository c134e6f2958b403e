"""Whether two observations are within a few steps: episodic curiosity's network, and how it learns."""

from __future__ import annotations

import math
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32, Key, Num, PyTree

from gobi.networks import symbols
from gobi.networks.layers import ConvStack, Linear, conv_stack, num_patches, orthogonal_linear, product
from gobi.rewards import real_steps
from gobi.rewards.any_embedding import AnyEmbedding, any_embedding, kind_of
from gobi.rewards.real_steps import Real
from gobi.rewards.reward import Metrics
from gobi.types import Spec

SIZES = ("paper", "small")
INPUTS = ("onehot", "raw")
ALIKE = ("near", "drawn")
STRIDES = {"paper": (1, 2, 2), "small": (2, 2)}
CHANNELS = {"paper": (32, 128, 512), "small": (16, 32)}
UNITS = {"paper": 512, "small": 64}
HIDDEN = {"paper": 4, "small": 2}
"""Layers of the comparator: four of 512 units in episodic curiosity's own paper."""


class Comparator(eqx.Module):
    """Two observations to the logit of their being a few steps apart: one embedding for both, then an MLP.

    The MLP's first layer is the sum of a product with what is remembered and one with what is seen now, so
    that each of them is worked out once, however many it is compared with.

    convolutions:  over the cells of a grid; for other observations an embedding by what they are; None where
                   they are bytes, which are read bit by bit.
    dense:         to the embedding.
    first:         the MLP's first layer, of both embeddings in a row.
    hidden:        its other layers.
    output:        the logit.
    inputs:        how cells are read: `onehot` or `raw`.
    """

    convolutions: ConvStack | AnyEmbedding | None
    dense: Linear
    first: Linear
    hidden: tuple[Linear, ...]
    output: Linear
    inputs: str = eqx.field(static=True)

    def embed(self, observations: Num[Array, "rows *shape"]) -> Float32[Array, "rows units"]:
        """The embedding of each observation."""
        if self.convolutions is None:
            bits = (observations[..., None] >> jnp.arange(8, dtype=jnp.uint8)) & 1
            x = bits.reshape(len(bits), -1).astype(jnp.float32)
        elif isinstance(self.convolutions, AnyEmbedding):
            x = self.convolutions(observations)
        else:
            x = self.convolutions(symbols.encode_views(observations, self.inputs, jnp.float32))
        return jax.nn.relu(self.dense(x))

    def remembered(self, embedding: Float32[Array, "*rows units"]) -> Float32[Array, "*rows hidden"]:
        """An embedding's part in the first layer, on the side of what is remembered."""
        return product(embedding, self.first.weight[: embedding.shape[-1]])

    def present(self, embedding: Float32[Array, "*rows units"]) -> Float32[Array, "*rows hidden"]:
        """An embedding's part in the first layer, on the side of what is seen now."""
        return product(embedding, self.first.weight[embedding.shape[-1] :]) + self.first.bias

    def logit(
        self, remembered: Float32[Array, "*rows hidden"], present: Float32[Array, "*rows hidden"]
    ) -> Float32[Array, "*rows"]:
        """How likely the two are to be within reach, from the parts of both."""
        x = jax.nn.relu(remembered + present)
        for layer in self.hidden:
            x = jax.nn.relu(layer(x))
        return self.output(x)[..., 0]


def comparator(key: Key[Array, ""], spec: Spec, size: str = "paper", inputs: str = "onehot") -> Comparator:
    """A fresh network for a task's observations.

    paper:  convolutions of 32, 128, 512 channels as the policy's, 512 units, four hidden layers of 512.
    small:  convolutions of 16 and 32 channels, 64 units, two hidden layers of 64.

    Observations that are not 7x7 views are read by `any_embedding` of the same size instead, or bit by bit
    where they are bytes of which no more is known.
    """
    at_cells, at_dense, at_first, at_output, *at_hidden = jax.random.split(key, 4 + HIDDEN[size] - 1)
    units = UNITS[size]
    shape = spec.observation_shape
    if spec.observation_dtype == "uint8" and not spec.classes and len(shape) != 3:
        convolutions, features = None, 8 * math.prod(shape)
    elif kind_of(spec) == "view":
        convolutions = conv_stack(
            at_cells, symbols.input_channels(inputs), CHANNELS[size], strides=STRIDES[size]
        )
        features = CHANNELS[size][-1] * _left(shape[0], STRIDES[size]) * _left(shape[1], STRIDES[size])
    else:
        convolutions, features = any_embedding(at_cells, spec, size, units, linear=False), units
    return Comparator(
        convolutions=convolutions,
        dense=orthogonal_linear(at_dense, features, units),
        first=orthogonal_linear(at_first, 2 * units, units),
        hidden=tuple(orthogonal_linear(one, units, units) for one in at_hidden),
        output=orthogonal_linear(at_output, units, 1, gain=1.0),
        inputs=inputs,
    )


def _left(length: int, strides: tuple[int, ...]) -> int:
    """What the convolutions leave of a side."""
    for stride in strides:
        length = num_patches(length, stride, border=1)
    return length


class Lessons(eqx.Module):
    """A comparator that learns, and the steps that its pairs are drawn from.

    network:       the comparator.
    optimiser:     Adam's state.
    observations:  the last ones of each environment, so that far pairs exist however short the rollouts are.
    episodes:      the episode each of them is of; -1 where there has been none yet.
    episode:       the number of each environment's present episode.
    count:         lessons so far: rollouts that had both near and far pairs.
    """

    network: Comparator
    optimiser: PyTree
    observations: Num[Array, "window envs *shape"]
    episodes: Int32[Array, "window envs"]
    episode: Int32[Array, " envs"]
    count: Int32[Array, ""]


def lessons(network: Comparator, spec: Spec, num_envs: int, window: int) -> Lessons:
    """Nothing has been seen yet."""
    return Lessons(
        network=network,
        optimiser=optax.adam(1.0).init(cast(optax.Params, network)),
        observations=jnp.zeros(
            (window, num_envs, *spec.observation_shape), jnp.dtype(spec.observation_dtype)
        ),
        episodes=jnp.full((window, num_envs), -1, jnp.int32),
        episode=jnp.zeros(num_envs, jnp.int32),
        count=jnp.int32(0),
    )


def lesson(
    state: Lessons,
    key: Key[Array, ""],
    observations: Num[Array, "time envs *shape"],
    done: Bool[Array, "time envs"],
    *,
    near: int,
    far: int,
    pairs: int,
    batches: int,
    learning_rate: float,
    alike: str = "near",
    real: Real = None,
) -> tuple[Lessons, Metrics]:
    """Adds a rollout to the window, then makes `batches` steps of Adam on `pairs` pairs each.

    observations:  where the actions were taken. An episode's last state is not among them: it is never
                   compared with anything either.
    near, far:     pairs at most `near` steps apart are within reach, those more than `far` apart are not.
    alike:         equal observations are within reach however far apart (`near`), or as their steps say
                   (`drawn`).
    real:          which steps were made at all; the others never enter the window.

    Without a pair of each kind in the window nothing is learned.
    """
    untaught = state
    state = _seen(state, observations, done, real)
    optimiser = optax.adam(learning_rate)

    def batch(carry: tuple[Comparator, PyTree], key: Key[Array, ""]):
        network, moments = carry
        one, other, within, possible = draw_pairs(key, state.episodes, near, far, pairs)
        flat = state.observations.reshape(-1, *state.observations.shape[2:])
        if alike == "near":
            same = flat[one] == flat[other]
            within |= jnp.all(same.reshape(pairs, -1), axis=1)
        (loss, accuracy), slope = jax.value_and_grad(_loss, has_aux=True)(
            network, flat[one], flat[other], within
        )
        update, moved = optimiser.update(slope, moments)
        changed = optax.apply_updates(cast(optax.Params, network), update), moved
        # Where there is nothing to tell apart, not even Adam's momentum may move the network.
        carry = jax.tree.map(lambda new, old: jnp.where(possible, new, old), changed, carry)
        return carry, (loss, accuracy, possible)

    carry, (loss, accuracy, possible) = jax.lax.scan(
        batch, (state.network, state.optimiser), jax.random.split(key, batches)
    )
    count = state.count + possible[-1].astype(jnp.int32)
    state = eqx.tree_at(lambda s: (s.network, s.optimiser, s.count), state, (*carry, count))
    logged = {
        "ec/loss": jnp.mean(loss),
        "ec/accuracy": jnp.mean(accuracy),
        "ec/taught": possible[-1].astype(jnp.float32),
    }
    return real_steps.if_any(real, state, untaught), logged


def _seen(
    state: Lessons,
    observations: Num[Array, "time envs *shape"],
    done: Bool[Array, "time envs"],
    real: Real,
) -> Lessons:
    """The window after a rollout: the last steps of each environment."""
    window = len(state.episodes)
    ended = done if real is None else done & real
    before = jnp.concatenate([jnp.zeros_like(done[:1]), ended[:-1]])
    episodes = state.episode + jnp.cumsum(before, axis=0, dtype=jnp.int32)
    everything = jnp.concatenate([state.observations, observations])
    numbers = jnp.concatenate([state.episodes, episodes])
    if real is not None:
        # Each environment's steps that were made come last, in their order, and the window ends with them.
        there = jnp.concatenate([state.episodes >= 0, real])
        order = jnp.argsort(there, axis=0, stable=True)
        lanes = jnp.arange(order.shape[1])
        everything, numbers = everything[order, lanes], jnp.where(there, numbers, -1)[order, lanes]
    return eqx.tree_at(
        lambda s: (s.observations, s.episodes, s.episode),
        state,
        (everything[-window:], numbers[-window:], episodes[-1] + ended[-1]),
    )


def draw_pairs(
    key: Key[Array, ""], episodes: Int32[Array, "window envs"], near: int, far: int, count: int
) -> tuple[Int32[Array, " count"], Int32[Array, " count"], Bool[Array, " count"], Bool[Array, ""]]:
    """Pairs of steps of one episode each, as rows of the flattened window; the first half is within reach.

    Of each kind, the earlier step is any that has a later one to go with it, and the later one any of those;
    then the two are swapped in every second pair or so. Last comes whether there are pairs of both kinds.
    """
    window, envs = episodes.shape
    rows = jnp.arange(window, dtype=jnp.int32)[:, None]
    ends = jnp.concatenate([episodes[1:] != episodes[:-1], jnp.ones((1, envs), bool)])
    last = jax.lax.cummin(jnp.where(ends, rows, window), axis=0, reverse=True)
    later = jnp.where(episodes >= 0, last - rows, 0).reshape(-1)

    which, gap, swap = jax.random.split(key, 3)
    kinds = zip(jax.random.split(which), jax.random.split(gap), (True, False), strict=True)
    sides, possible = [], []
    for at, by, within in kinds:
        least = 1 if within else far + 1
        up_to = jnp.cumsum(later >= least, dtype=jnp.int32)
        chosen = jax.random.randint(at, (count // 2,), 0, jnp.maximum(up_to[-1], 1))
        row = jnp.searchsorted(up_to, chosen, side="right").astype(jnp.int32)
        most = jnp.minimum(later[row], near) if within else later[row]
        step = jax.random.randint(by, (count // 2,), least, jnp.maximum(most, least) + 1)
        # One step later is a whole row of environments further on.
        sides.append((row, row + envs * step))
        possible.append(up_to[-1] > 0)
    earlier, after = (jnp.concatenate(parts) for parts in zip(*sides, strict=True))
    swapped = jax.random.bernoulli(swap, shape=earlier.shape)
    one, other = jnp.where(swapped, after, earlier), jnp.where(swapped, earlier, after)
    return one, other, jnp.arange(len(one)) < count // 2, possible[0] & possible[1]


def _loss(
    network: Comparator,
    one: Num[Array, "pairs *shape"],
    other: Num[Array, "pairs *shape"],
    within: Bool[Array, " pairs"],
) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
    """The cross-entropy of near against far, and how many are told right."""
    embeddings = network.embed(jnp.concatenate([one, other]))
    remembered, present = jnp.split(embeddings, 2)
    logits = network.logit(network.remembered(remembered), network.present(present))
    loss = optax.sigmoid_binary_cross_entropy(logits, within.astype(jnp.float32))
    return jnp.mean(loss), jnp.mean((logits > 0) == within)
