"""The learned features of RIDE and ICM worked out with numpy, one view at a time, in double precision."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpy_networks import convolved, elu

from gobi.rewards.dynamics import Dynamics


def doubled(network: Dynamics) -> Any:
    """The same weights, in double precision on the host."""
    return jax.tree.map(lambda weights: np.asarray(weights, np.float64), network)


def embedded(network: Any, view: np.ndarray) -> np.ndarray:
    """The embedding of one view."""
    embedding = network.embedding
    if embedding.inputs == "onehot":
        x = np.concatenate([np.eye(size)[view[..., c]] for c, size in enumerate((11, 6, 3))], axis=-1)
    else:
        x = view / (255 if embedding.inputs == "scaled" else 1)
    for layer in embedding.convolutions.convolutions:
        x = elu(convolved(x, layer.linear.weight, layer.linear.bias, layer.stride))
    x = x.reshape(-1)
    for layer in embedding.dense:
        x = np.maximum(x @ layer.weight + layer.bias, 0)
    return x


def embeddings(network: Dynamics, views: Any) -> np.ndarray:
    """The embedding of each of many views; equal ones are worked out once."""
    views, weights = np.asarray(views), doubled(network)
    different, which = np.unique(views.reshape(-1, 7, 7, 3), axis=0, return_inverse=True)
    values = np.stack([embedded(weights, view) for view in different])
    return values[which.reshape(-1)].reshape(*views.shape[:-3], -1)


def two_layers(layers: Any, x: np.ndarray) -> np.ndarray:
    hidden = np.maximum(x @ np.float64(layers.hidden.weight) + np.float64(layers.hidden.bias), 0)
    return hidden @ np.float64(layers.output.weight) + np.float64(layers.output.bias)


def forward_error(network: Dynamics, before: np.ndarray, after: np.ndarray, action: Any) -> np.ndarray:
    """How long the difference is between what is predicted and what came."""
    one_hot = np.eye(network.num_actions)[np.asarray(action)]
    predicted = two_layers(network.forward, np.concatenate([before, one_hot], axis=-1))
    return np.sqrt(np.sum((predicted - after) ** 2, axis=-1))


def inverse_error(network: Dynamics, before: np.ndarray, after: np.ndarray, action: Any) -> np.ndarray:
    """Minus the log probability of each action."""
    logits = two_layers(network.inverse, np.concatenate([before, after], axis=-1))
    chosen = np.take_along_axis(logits, np.asarray(action)[..., None], axis=-1)[..., 0]
    return np.log(np.sum(np.exp(logits), axis=-1)) - chosen
