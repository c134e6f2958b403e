"""Small places whose rules are known: a point that is pushed, a board with a walker, a square that slides.

Random play in them, and a model that has learned from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gobi.types import Spec, Transition
from gobi.worlds import OnlineModel

ENVS, TIME = 4, 64
compiled = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
)


def point(place: np.ndarray, push: np.ndarray) -> np.ndarray:
    """A point in a square that is pushed about; the farther to the right, the less it moves."""
    return np.clip(place + 0.1 * push * (1.5 - place[:, :1]), -1, 1).astype(np.float32)


def walk(grid: np.ndarray, action: np.ndarray) -> np.ndarray:
    """A 4x5 board of floor (0) with the walker (2) on it, and a wall (1) that stands in its way."""
    after = grid.copy()
    for board, move in zip(after, action, strict=True):
        (row,), (column,) = np.nonzero(board == 2)
        to = row + (0, 1, 0, -1)[move], column + (1, 0, -1, 0)[move]
        if 0 <= to[0] < 4 and 0 <= to[1] < 5 and board[to] != 1:
            board[row, column], board[to] = 0, 2
    return after


def slide(picture: np.ndarray, action: np.ndarray) -> np.ndarray:
    """A light square on a dark ground that moves by two pixels along its row; at the edge it comes around."""
    return np.stack([np.roll(one, 2 * move - 2, axis=1) for one, move in zip(picture, action, strict=True)])


def boards(draws: np.random.Generator) -> np.ndarray:
    made = np.zeros((ENVS, 4, 5), np.uint8)
    made[:, 2, 1:4] = 1
    made[np.arange(ENVS), 0, draws.integers(0, 5, ENVS)] = 2
    return made


def squares(draws: np.random.Generator) -> np.ndarray:
    made = np.full((ENVS, 18, 20, 1), 30, np.uint8)
    for one in made:
        row, column = draws.integers(0, 14), draws.integers(0, 16)
        one[row : row + 4, column : column + 4] = 200
    return made


PLACES: dict[str, tuple[Spec, Callable[..., Any], Callable[..., Any]]] = {
    "numbers": (
        Spec("point", (2,), "float32", 0, max_steps=30, action_size=2),
        lambda draws: draws.uniform(-1, 1, (ENVS, 2)).astype(np.float32),
        point,
    ),
    "symbols": (Spec("board", (4, 5), "uint8", 4, max_steps=30, classes=3), boards, walk),
    "pixels": (Spec("square", (18, 20, 1), "uint8", 3, max_steps=30), squares, slide),
}


def play(kind: str, seed: int = 0, time: int = TIME) -> Transition:
    """Random play in all lanes, whose episodes end after 30 steps, each lane's at its own time."""
    spec, begin, step = PLACES[kind]
    draws = np.random.default_rng(seed)
    now, steps = begin(draws), []
    for t in range(time):
        if spec.action_size:
            action = draws.uniform(-1, 1, (ENVS, spec.action_size)).astype(np.float32)
        else:
            action = draws.integers(0, spec.num_actions, ENVS).astype(np.int32)
        after = step(now, action)
        over = (t + 7 * np.arange(ENVS)) % 30 == 29
        steps.append((now, action, after, over))
        now = np.where(over.reshape(-1, *[1] * (now.ndim - 1)), begin(draws), after)
    before, action, after, over = (jnp.asarray(np.stack(parts)) for parts in zip(*steps, strict=True))
    seen = {"observation": before}, {"observation": after}
    return Transition(seen[0], action, seen[1], jnp.zeros(over.shape), jnp.zeros(over.shape, bool), over)


def begun(world: OnlineModel, spec: Spec) -> Any:
    """The model's state before it has learned."""
    return compiled(lambda key: world.init(key, spec, ENVS))(jax.random.key(0))


def imagined(world: OnlineModel, ws: Any, keys: Any, rows: Any) -> np.ndarray:
    """What the model predicts for each row."""
    found, valid = compiled(lambda ws, keys, rows: world.imagine(ws, keys, {"observation": rows}))(
        ws, keys, rows
    )
    assert valid.all()
    return np.asarray(found)


def lessons(kind: str, count: int, **options: Any):
    """A model, its state after each of some rollouts, and what it measured before learning from each."""
    spec = PLACES[kind][0]
    world = OnlineModel.suited(spec, units=64, **options)
    learn = compiled(lambda ws, key, rollout: world.learn(ws, key, rollout))
    ws, measured = begun(world, spec), []
    for number in range(count):
        ws, metrics = learn(ws, jax.random.key(number), play(kind, seed=number))
        measured.append({name: float(value) for name, value in metrics.items()})
    return world, ws, measured


@functools.cache
def learned(kind: str):
    return lessons(kind, {"numbers": 8, "symbols": 12, "pixels": 16}[kind])
