"""Pictures of what the world model sees, remembers and imagines. Needs the extra `plot`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Key, UInt8

from gobi.errors import GobiError, require
from gobi.worlds.rssm.recurrence import Belief
from gobi.worlds.rssm.world import RSSM, RSSMState

ROWS = ("real", "reconstructed", "a step ahead", "imagined")


def picture(
    path: Path | str,
    world: RSSM,
    ws: RSSMState,
    frames: UInt8[Array | np.ndarray, "time h w 3"],
    actions: Float32[Array | np.ndarray, "time size"],
    key: Key[Array, ""],
    count: int = 6,
) -> None:
    """Writes a PNG of an episode's frames and what the model makes of them, in `count` columns.

    Below each real frame: the model's reconstruction of it; what the model expected there after the action
    that led to it; and what it imagines to be possible from there, the first of its random futures.
    """
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise GobiError(f"cannot write '{path}': the name must end in .png")
    if not len(frames):
        raise GobiError("an episode without frames cannot be drawn")
    figure_module = require("matplotlib.figure", extra="plot")
    chosen = np.unique(np.linspace(0, len(frames) - 1, count).astype(int))
    shown = np.asarray(looked(world, ws, jnp.asarray(frames), jnp.asarray(actions), jnp.asarray(chosen), key))
    figure = figure_module.Figure(figsize=(1.5 * len(chosen), 1.5 * len(ROWS)), layout="constrained")
    axes = figure.subplots(len(ROWS), len(chosen), squeeze=False)
    for row, column in np.ndindex(*axes.shape):
        _draw(axes[row, column], shown[row, column])
    for axis, name in zip(axes[:, 0], ROWS, strict=True):
        axis.set_ylabel(name, fontsize=8)
    for axis, number in zip(axes[0], chosen, strict=True):
        axis.set_title(f"step {number}", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


@functools.partial(jax.jit, static_argnums=0)
def looked(
    world: RSSM,
    ws: RSSMState,
    frames: UInt8[Array, "time h w 3"],
    actions: Float32[Array, "time size"],
    chosen: Any,
    key: Key[Array, ""],
) -> Float32[Array, "rows chosen 64 64 3"]:
    """Real, reconstructed, expected and imagined frames at the chosen steps of an episode."""

    def step(belief: Belief, now: Any) -> tuple[Belief, tuple[Belief, Belief]]:
        action, frame, key = now
        expected_key, key = jax.random.split(key)
        expected = world.follow(ws, belief, action, expected_key)
        belief = world.observe(ws, belief, action, frame, key)
        return belief, (belief, expected)

    filter_key, imagine_key = jax.random.split(key)
    keys = jax.random.split(filter_key, len(frames))
    _, both = jax.lax.scan(step, world.first_belief(), (actions, frames, keys))
    beliefs, expected = jax.tree.map(lambda array: array[chosen], both)
    imagined = jax.vmap(lambda belief, key: world.imagine(ws, belief, key)[0])(
        beliefs, jax.random.split(imagine_key, len(chosen))
    )
    rows = world.shrink(frames[chosen]), world.decode(ws, beliefs), world.decode(ws, expected), imagined
    return jnp.stack(rows)


def _draw(axis: Any, frame: Float32[np.ndarray, "64 64 3"]) -> None:
    axis.imshow(np.clip(frame + 0.5, 0, 1))
    axis.set_xticks([])
    axis.set_yticks([])
