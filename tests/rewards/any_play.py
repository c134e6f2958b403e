"""Play on tasks of every kind: a walk in a square, seen as numbers, as a picture or as symbols."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from gobi.rewards.count import Count
from gobi.rewards.e3b import E3B
from gobi.rewards.ec import EC
from gobi.rewards.icm import ICM
from gobi.rewards.ngu import NGU
from gobi.rewards.noveld import NovelD
from gobi.rewards.re3 import RE3
from gobi.rewards.reward import Reward
from gobi.rewards.ride import RIDE
from gobi.rewards.rnd import RND
from gobi.types import Spec, Transition

SIDE = 6
MOVES = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])

SPECS = {
    "numbers": Spec("numbers", (3,), "float32", 0, max_steps=9, action_size=2),
    "pictures": Spec("pictures", (8, 6, 2), "uint8", 4, max_steps=9),
    "symbols": Spec("symbols", (2,), "int32", 4, max_steps=9, classes=SIDE),
}

REWARDS: dict[str, Reward] = {
    "count": Count(capacity=64),
    "rnd": RND(network="small", rate=1e-3),
    "noveld": NovelD(network="small", counted="observation", rate=1e-3),
    "ride": RIDE(network="small", counted="observation", rate=1e-3),
    "icm": ICM(network="small", rate=1e-3),
    "ngu": NGU(network="small", k=3, units=8, rate=1e-3),
    "e3b": E3B(network="small", units=8, rate=1e-3),
    "re3": RE3(room=20, units=8, form="over_std"),
    "ec": EC(size="small", capacity=4, near=1, far=3, window=12, pairs=32, batches=2, warmup=0, rate=1e-3),
}


def seen(kind: str, place: np.ndarray) -> np.ndarray:
    """What is observed at places [..., 2]."""
    if kind == "symbols":
        return place.astype(np.int32)
    if kind == "numbers":
        return np.concatenate([place, np.ones_like(place[..., :1])], axis=-1).astype(np.float32) / SIDE - 0.5
    across, down = np.meshgrid(np.arange(8), np.arange(6), indexing="ij")
    near = (abs(across - 1.2 * place[..., :1, None]) < 1.2) & (abs(down - place[..., 1:, None]) < 1.2)
    return np.stack([255 * near, np.full(near.shape, 9)], axis=-1).astype(np.uint8)


def play(kind: str, time: int, envs: int, seed: int = 0) -> Transition:
    """Random steps, walls around, and episodes of four to nine steps."""
    draw, spec = np.random.default_rng(seed), SPECS[kind]
    moves = draw.integers(0, 4, (time, envs))
    done = draw.random((time, envs)) < 0.1
    age, place = np.zeros(envs, int), draw.integers(0, SIDE, (envs, 2))
    before, after = np.zeros((2, time, envs, 2), int)
    for t in range(time):
        before[t] = place
        after[t] = place = np.clip(place + MOVES[moves[t]], 0, SIDE - 1)
        age = age + 1
        done[t] = (done[t] & (age >= 4)) | (age >= spec.max_steps)
        place = np.where(done[t][:, None], draw.integers(0, SIDE, (envs, 2)), place)
        age = np.where(done[t], 0, age)
    action = MOVES[moves].astype(np.float32) if spec.action_size else moves.astype(np.int32)
    return Transition(
        before={"observation": jnp.asarray(seen(kind, before))},
        action=jnp.asarray(action),
        after={"observation": jnp.asarray(seen(kind, after))},
        reward=jnp.zeros((time, envs)),
        terminated=jnp.asarray(done),
        truncated=jnp.zeros((time, envs), bool),
    )
