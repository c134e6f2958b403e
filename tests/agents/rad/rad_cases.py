"""Small learners and batches that the tests of RAD share."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gobi.agents.rad import RAD, Batch, Learner
from gobi.types import Spec

PIXELS = Spec("pixels", (20, 20, 3), "uint8", 0, 500, 2)
VECTORS = Spec("vectors", (3,), "float32", 0, 500, 2)
SMALL = RAD(hidden=16, features=6, channels=4, crop=16)
N = 8


@functools.cache
def compiled(rad: RAD = SMALL, full: bool = True):
    return jax.jit(functools.partial(rad.update, full=full))


@functools.cache
def compiled_act(rad: RAD = SMALL, explore: bool = False):
    return jax.jit(functools.partial(rad.act, explore=explore))


@functools.cache
def begun(spec: Spec, rad: RAD = SMALL) -> Learner:
    """A learner whose target, biases and scales differ from what they begin with."""
    learner = jax.jit(lambda key: rad.init(key, spec))(jax.random.key(0))
    random = np.random.default_rng(0)

    def shaken(leaf):
        return leaf + random.normal(0, 0.1, leaf.shape).astype(np.float32)

    parts = (jax.tree.map(shaken, part) for part in (learner.actor, learner.critic, learner.target))
    actor, critic, target = parts
    return Learner(
        actor,
        critic,
        target,
        learner.log_temperature,
        learner.actor_adam,
        learner.critic_adam,
        learner.temperature_adam,
    )


def batch_of(spec: Spec, seed: int = 0, terminated: bool = False) -> Batch:
    random = np.random.default_rng(seed)
    pixels = spec is PIXELS
    frames = (
        random.integers(0, 256, (N, 4, 20, 20, 3), dtype=np.uint8)
        if pixels
        else random.normal(size=(N, 2, 3)).astype(np.float32)
    )
    return Batch(
        index=jnp.arange(N),
        frames=jnp.asarray(frames),
        action=jnp.asarray(random.uniform(-1, 1, (N, 2)), jnp.float32),
        reward=jnp.asarray(random.normal(size=N), jnp.float32),
        terminated=jnp.full(N, terminated) | (jnp.arange(N) == 3),
        stored=jnp.zeros(N),
    )
