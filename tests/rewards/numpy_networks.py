"""The random networks of RND and NovelD worked out with numpy, one view at a time, in double precision."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from gobi.rewards.distillation import MLP, Distilled, Networks
from gobi.rewards.embeddings import Embedding


def doubled(networks: Any) -> Any:
    """The same weights, in double precision on the host."""
    return jax.tree.map(lambda weights: np.asarray(weights, np.float64), networks)


def novelty(networks: Networks, view: np.ndarray, norm: str = "plain") -> float:
    """How far the predictor is from the target on one view."""
    read = view if networks.encoder is None else embedded(networks.encoder, view)
    error = output(networks.predictor, read) - output(networks.target, read)
    return float(error @ error) if norm == "squared" else float(np.sqrt(error @ error))


def novelties(networks: Networks, views: np.ndarray, norm: str = "plain") -> np.ndarray:
    """The novelty of each of many views; equal ones are worked out once."""
    networks = doubled(networks)
    rows = views.reshape(-1, 7, 7, 3)
    different, which = np.unique(rows, axis=0, return_inverse=True)
    values = np.array([novelty(networks, view, norm) for view in different])
    return values[which.reshape(-1)].reshape(views.shape[:-3])


def output(network: Embedding | MLP, read: np.ndarray) -> np.ndarray:
    """What a network says of one view, or of one row of features."""
    return dense(network.layers, read, linear=True) if isinstance(network, MLP) else embedded(network, read)


def embedded(network: Embedding, view: np.ndarray) -> np.ndarray:
    """The embedding of one view."""
    if network.inputs == "onehot":
        x = np.concatenate([np.eye(size)[view[..., c]] for c, size in enumerate((11, 6, 3))], axis=-1)
    else:
        x = view / (255 if network.inputs == "scaled" else 1)
    for convolution in network.convolutions.convolutions if network.convolutions else ():
        x = elu(convolved(x, convolution.linear.weight, convolution.linear.bias, convolution.stride))
    return dense(network.dense, x.reshape(-1), network.linear)


def dense(layers: Any, x: np.ndarray, linear: bool) -> np.ndarray:
    for index, layer in enumerate(layers):
        x = x @ layer.weight + layer.bias
        if index < len(layers) - 1 or not linear:
            x = np.maximum(x, 0)
    return x


def convolved(picture: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """A 3x3 convolution with a border of zeros, place by place."""
    kernel = weight.reshape(3, 3, picture.shape[-1], -1)
    padded = np.pad(picture, [(1, 1), (1, 1), (0, 0)])
    places = range(0, picture.shape[0], stride)
    return np.array(
        [[np.tensordot(padded[x : x + 3, y : y + 3], kernel, axes=3) + bias for y in places] for x in places]
    )


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def loss(state: Distilled, views: np.ndarray, norm: str, weight: float, summed: bool) -> float:
    """The predictor's loss on a rollout [time, envs, ...]: mean over environments, sum or mean over time."""
    by_time = novelties(state.networks, views, norm).mean(axis=1)
    return weight * float(by_time.sum() if summed else by_time.mean())


def slopes(loss: Any, weights: np.ndarray, places: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The derivative of a loss by some of the weights, by moving each of them a little to both sides."""
    found = []
    for place in places:
        moved = []
        for change in (step, -step):
            changed = weights.copy()
            changed.flat[place] += change
            moved.append(loss(changed))
        found.append((moved[0] - moved[1]) / (2 * step))
    return np.array(found)
