"""Random network distillation: a view is novel while a predictor errs on a fixed random network's output.

The predictor learns from the views that the agent meets, so that its error falls where it has been often
(Burda et al. 2018). RND pays the error itself; NovelD compares the errors at both ends of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Key, Num, PyTree

from gobi import settings
from gobi.agents.impala import optimiser as rmsprop
from gobi.errors import unknown
from gobi.networks import symbols
from gobi.networks.layers import Linear, torch_linear
from gobi.rewards import real_steps
from gobi.rewards.any_embedding import AnyEmbedding, any_embedding, kind_of
from gobi.rewards.embeddings import SIDE, Embedding, narrow, through, wide
from gobi.rewards.real_steps import Real
from gobi.rewards.reward import Metrics
from gobi.types import Spec

Norm = Literal["plain", "squared"]
Kind = Literal["ride", "paper", "small"]
Optimiser = Literal["rmsprop", "adam"]
KINDS = ("ride", "paper", "small")
NORMS = ("plain", "squared")

UNITS = {"ride": 128, "paper": 1024, "small": 32}
"""Numbers in an embedding."""
CLIP = 40.0
"""The largest norm of the predictor's gradient."""


class MLP(eqx.Module):
    """Features as a vector: dense layers with ReLU between them."""

    layers: tuple[Linear, ...]

    def __call__(self, x: Float32[Array, "*batch features"]) -> Float32[Array, "*batch units"]:
        """The outputs of each row."""
        return through(self.layers, x, linear=True)


class Networks(eqx.Module):
    """What tells how novel a view is.

    encoder:    fixed at random; views to what the other two read. None where they read the views themselves.
    target:     fixed at random.
    predictor:  learns to say the same.
    """

    encoder: Embedding | AnyEmbedding | None
    target: Embedding | AnyEmbedding | MLP
    predictor: Embedding | AnyEmbedding | MLP

    def read(self, views: Num[Array, "..."]) -> Any:
        """What target and predictor read of views [..., *shape]."""
        return views if self.encoder is None else self.encoder(views)

    def novelty(self, views: Num[Array, "..."], norm: Norm) -> Float32[Array, "..."]:
        """nov(o) = ||predictor(o) - target(o)||, or its square."""
        x = self.read(views)
        return length(self.predictor(x) - self.target(x), norm)


def length(vectors: Float32[Array, "*batch units"], norm: Norm) -> Float32[Array, "*batch"]:
    """The Euclidean length of each vector (`plain`), or its square (`squared`).

    Where a vector is zero, so is the gradient, as in torch: a root's own would be no number. It does happen:
    networks without biases agree on a view of zeros.
    """
    squares = jnp.sum(jnp.square(vectors), axis=-1)
    if norm == "squared":
        return squares
    positive = squares > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squares, 1)), 0)


class Distilled(eqx.Module):
    """Networks in training: what a reward keeps in its state.

    networks:   of which the predictor changes.
    optimiser:  the state of the predictor's optimiser.
    """

    networks: Networks
    optimiser: PyTree


def on_views(key: Key[Array, ""], spec: Spec, kind: Kind) -> Networks:
    """Target and predictor are two embeddings of the view, alike but for their weights."""
    one, other = jax.random.split(key)
    return Networks(None, _embedding(one, spec, kind), _embedding(other, spec, kind))


def on_frozen_features(key: Key[Array, ""], spec: Spec, kind: Kind) -> Networks:
    """Target and predictor read the features of a random encoder that never learns.

    With `paper` the encoder is the policy's feature extractor, as it would be before training; the target has
    four layers of 128 units, the predictor layers of 1024, 1024, 128, 128 and 128.
    """
    encoder_key, one, other = jax.random.split(key, 3)
    units = UNITS[kind]
    narrow, wide = (32, 64) if kind == "small" else (128, 1024)
    return Networks(
        encoder=_embedding(encoder_key, spec, kind),
        target=mlp(one, (units, *[narrow] * 4)),
        predictor=mlp(other, (units, wide, wide, *[narrow] * 3)),
    )


def embedding(key: Key[Array, ""], kind: Kind) -> Embedding:
    """A fresh embedding of 7x7 views.

    ride:   that of RIDE's public code: integers / 255; convolutions of 32, 32 and 128 channels, all of stride
            2, which leave one place of the 49. Orthogonal weights, biases of zero.
    paper:  that of the GoBI paper, the policy's feature extractor: raw integers; convolutions of 32, 128 and
            512 channels, strides 1, 2 and 2; two dense layers of 1024 units with ReLU. Weights as above.
    small:  for laptops and tests: one-hot cells, dense layers of 64 and 32 units; torch's initial weights.
    """
    units = UNITS[kind]
    if kind == "small":
        sizes = (SIDE * SIDE * symbols.ALL_CLASSES, 64, units)
        return Embedding(None, mlp(key, sizes).layers, "onehot", linear=True)
    return narrow(key, units) if kind == "ride" else wide(key, units)


def _embedding(key: Key[Array, ""], spec: Spec, kind: Kind) -> Embedding | AnyEmbedding:
    """A fresh embedding of a task's observations; what are not 7x7 views get one as wide as the kind says."""
    if kind_of(spec) == "view":
        return embedding(key, kind)
    return any_embedding(key, spec, kind, UNITS[kind])


def mlp(key: Key[Array, ""], sizes: Sequence[int]) -> MLP:
    """Layers from each of these sizes to the next, with torch's initial weights."""
    keys = jax.random.split(key, len(sizes) - 1)
    return MLP(tuple(torch_linear(*made) for made in zip(keys, sizes[:-1], sizes[1:], strict=True)))


class Teaching(eqx.Module):
    """How the predictor learns from a rollout, in one step.

    optimiser:  RMSProp as torch has it (decay 0.99, epsilon 1e-5), or Adam.
    rate:       its learning rate, constant.
    norm:       of the error, the same that is paid.
    weight:     of the loss, which is averaged over environments.
    summed:     whether it is summed over time, or averaged as well.
    """

    optimiser: Optimiser = eqx.field(static=True)
    rate: float = eqx.field(static=True)
    norm: Norm = eqx.field(static=True)
    weight: float = eqx.field(static=True, default=1.0)
    summed: bool = eqx.field(static=True, default=False)

    def begin(self, networks: Networks) -> Distilled:
        """The networks, with an optimiser that has seen nothing."""
        predictor: Any = networks.predictor
        if self.optimiser == "adam":
            return Distilled(networks, optax.adam(self.rate).init(predictor))
        return Distilled(networks, rmsprop.init(predictor))

    def learn(
        self, state: Distilled, views: Num[Array, "time envs *shape"], real: Real = None
    ) -> tuple[Distilled, Metrics]:
        """One step of the predictor. Logs the loss before it, and the gradient's norm before clipping.

        real:  which of the views were reached by a step; the others teach nothing.
        """
        networks = state.networks
        x = networks.read(views)
        wanted = networks.target(x)

        def loss(predictor: Embedding | AnyEmbedding | MLP) -> Float32[Array, ""]:
            errors = length(predictor(x) - wanted, self.norm)
            if not self.summed and real is not None:
                return self.weight * real_steps.over_all(errors, real)
            errors = real_steps.over_envs(errors, real)
            return self.weight * (jnp.sum(errors) if self.summed else jnp.mean(errors))

        value, gradient = jax.value_and_grad(loss)(networks.predictor)
        size = rmsprop.norm(gradient)
        gradient = rmsprop.clip(gradient, size, CLIP)
        if self.optimiser == "adam":
            changes, optimiser = optax.adam(self.rate).update(gradient, state.optimiser)
            predictor = eqx.apply_updates(networks.predictor, changes)
        else:
            predictor, optimiser = rmsprop.step(networks.predictor, gradient, state.optimiser, self.rate)
        learned = Distilled(Networks(networks.encoder, networks.target, predictor), optimiser)
        logged = {"predictor_loss": value, "predictor_gradient_norm": size}
        return real_steps.if_any(real, learned, state), logged


def check_options(norm: str, network: str, **positive: float) -> None:
    """Refuses names that do not exist, and numbers that are not positive."""
    if norm not in NORMS:
        raise unknown("norm", norm, NORMS)
    if network not in KINDS:
        raise unknown("network", network, KINDS)
    settings.positive(**positive)
