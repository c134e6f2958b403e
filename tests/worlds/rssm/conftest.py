"""What the tests of the RSSM share: small networks, and films of a square that goes where actions say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.types import Spec
from gobi.worlds.rssm import RSSM, RSSMState


@pytest.fixture(scope="session")
def drawn() -> Callable[..., Any]:
    """Weights for a tree of shapes, by NumPy: as JAX would draw them, each shape is compiled by itself."""

    def weights(shapes: Any, seed: int = 0) -> Any:
        rng = np.random.default_rng(seed)

        def leaf(shape: Any) -> jax.Array:
            if len(shape.shape) < 2:
                return jnp.zeros(shape.shape, shape.dtype)
            fans = np.prod(shape.shape[:-2]) * sum(shape.shape[-2:])
            bound = np.sqrt(6 / fans)
            return jnp.asarray(rng.uniform(-bound, bound, shape.shape).astype(np.float32))

        return jax.tree.map(leaf, shapes)

    return weights


@pytest.fixture(scope="session")
def started(drawn) -> Callable[[RSSM, Spec], RSSMState]:
    """A world's state with such weights, and an optimiser that has seen nothing."""

    def state(world: RSSM, spec: Spec) -> RSSMState:
        shapes = jax.eval_shape(lambda: world.init(jax.random.key(0), spec))
        optimiser = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes.optimiser)
        return RSSMState(drawn(shapes.network), optimiser, jnp.zeros((), jnp.int32))

    return state


@pytest.fixture(scope="session")
def film() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Films [batch, time] of a square in one of three places; an action of -1 or 1 moves it round by one."""

    def made(rng: np.random.Generator, batch: int, time: int) -> tuple[np.ndarray, np.ndarray]:
        actions = rng.choice([-1.0, 1.0], (batch, time, 1)).astype(np.float32)
        actions[:, 0] = 0
        places = (rng.integers(0, 3, (batch, 1)) + np.cumsum(actions[..., 0], axis=1).astype(int)) % 3
        frames = np.full((batch, time, 64, 64, 3), 60, np.uint8)
        for row, step in np.ndindex(batch, time):
            left = 2 + 20 * places[row, step]
            frames[row, step, 16:48, left : left + 20] = (250, 200, 30)
        return frames, actions

    return made
