"""Draws the pictures of docs/what_is_gobi.md with the library's own parts: `python docs/pictures.py`.

A grid model is trained on random play (a minute or two on two CPU cores); then an episode is played on a
level of another seed, paid by GoBI, and drawn: the episodic memory along it, and imagined against real views.
Needs the extras `minigrid` and `plot`.
"""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
from jaxtyping import Float32, Int, UInt8
from PIL import Image, ImageDraw

import gobi
from gobi import worlds
from gobi.analysis import panel
from gobi.analysis.film import remembered
from gobi.envs.minigrid import MiniGrid, State, cells, numbered_levels, render, rules, solver
from gobi.envs.minigrid.state import nth
from gobi.memory import exact
from gobi.rewards import GoBI
from gobi.training.loop import views
from gobi.types import Transition

IMAGES = Path(__file__).parent / "images"
TASK, LEVEL = "MiniGrid-MultiRoom-N4-S5-v1", 5
WANDERING = 24
"""Steps at random in the first room, before the way to the goal is taken."""
TRANSITIONS, EPOCHS = 60_000, 5


@dataclasses.dataclass(frozen=True)
class Played:
    """An episode of T steps, with what GoBI made of it.

    states:    T + 1 of them, stacked.
    seen:      what the agent saw in each.
    imagined:  what the model imagined from each, one view for each of six actions.
    new:       which codes of a state were new to the memory: its own first, then those of what was imagined.
    sizes:     the memory's size after each state.
    actions:   what was done.
    bonuses:   what GoBI paid.
    """

    states: State
    seen: UInt8[np.ndarray, "states 7 7 3"]
    imagined: UInt8[np.ndarray, "states 6 7 7 3"]
    new: Any
    sizes: Int[np.ndarray, " states"]
    actions: list[int]
    bonuses: Float32[np.ndarray, " steps"]


def main() -> None:
    """Trains the model, plays the episode, writes the pictures, and prints the numbers the page quotes."""
    env = gobi.make(TASK)
    world = trained_world(env)
    played = episode(env, world)
    file = io.BytesIO()
    memory_figure(env, played).savefig(file, dpi=100)
    for name, picture in (("memory", Image.open(file)), ("imagined", imagined_picture(env, played))):
        small = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
        small.save(IMAGES / f"{name}.png", optimize=True)
    room = played.sizes[WANDERING] - played.sizes[0]
    print(f"m at the start {played.sizes[0]}, after {WANDERING} steps {played.sizes[WANDERING]} (+{room}),")
    print(
        f"at the end {played.sizes[-1]} after {len(played.actions)} steps; bonus {played.bonuses.sum():.1f}"
    )


def trained_world(env: MiniGrid) -> worlds.GridModel:
    """A model that has seen random play, as the paper's has."""
    key = jax.random.key(0)
    data = worlds.distinct(worlds.collect(env, key, TRANSITIONS))
    network = worlds.train(worlds.build("copying", size="compact", key=key), data, key, epochs=EPOCHS)
    held_out = worlds.distinct(worlds.collect(env, jax.random.key(1), 10_000))
    print(worlds.report(network, held_out, key, training_data=data).table())
    return worlds.GridModel(network)


def episode(env: MiniGrid, world: worlds.GridModel) -> Played:
    """Wanders, then walks to the goal; GoBI pays with empty memories at the start."""
    start = nth(numbered_levels(env, 1, LEVEL, 1), 0)
    actions = np.random.default_rng(0).integers(0, 3, WANDERING).tolist()
    step = jax.jit(env.step)
    states = [start]
    for action in actions:
        states.append(step(states[-1], jnp.int32(action))[0])
    plan = solver.solve(states[-1])
    assert plan is not None
    rewards = [0.0] * len(actions)
    for action in plan:
        state, timestep = step(states[-1], jnp.int32(action))
        states.append(state)
        rewards.append(float(timestep.reward))
    together = jax.tree.map(lambda *parts: jnp.stack(parts), *states)
    return _paid(env, world, together, [*actions, *plan], np.array(rewards, np.float32))


def _paid(
    env: MiniGrid,
    world: worlds.GridModel,
    states: State,
    actions: list[int],
    rewards: Float32[np.ndarray, " n"],
) -> Played:
    """The episode as a rollout of one lane, through the reward itself."""
    reward, steps = GoBI(world), len(actions)
    seen = jax.vmap(env.observe)(states)
    everything = views(env, reward.reads, jax.tree.map(lambda part: part[:, None], states), seen[:, None])
    last = jnp.arange(steps)[:, None] == steps - 1
    rollout = Transition(
        before=jax.tree.map(lambda part: part[:-1], everything),
        action=jnp.array(actions, jnp.int32)[:, None],
        after=jax.tree.map(lambda part: part[1:], everything),
        reward=jnp.asarray(rewards)[:, None],
        terminated=last,
        truncated=jnp.zeros_like(last),
    )
    rs = reward.init(jax.random.key(0), env.spec, 1)
    _, bonuses, _ = reward.rollout(rs, rollout)
    rows = {"panorama": everything["panorama"][:, 0]}
    imagined, valid = world.imagine(rs[0].world, jax.random.split(jax.random.key(0), steps + 1), rows)
    codes = exact(jnp.concatenate([seen[:, None], imagined], axis=1), ndim=3)
    counted = np.concatenate([np.ones((steps + 1, 1), bool), np.asarray(valid)], axis=1)
    new, sizes = remembered(np.asarray(codes), counted)
    growth = reward.first.rollout(rs[0], rollout)[1]
    assert (np.diff(sizes) == np.asarray(growth)[:, 0]).all(), "the picture must show what is paid"
    return Played(
        states, np.asarray(seen), np.asarray(imagined), new, sizes, actions, np.asarray(bonuses)[:, 0]
    )


def memory_figure(env: MiniGrid, played: Played) -> matplotlib.figure.Figure:
    """Five moments of the episode above the memory's size and the bonus of each step."""
    opened = [step + 1 for step, action in enumerate(played.actions) if action == rules.TOGGLE]
    moments = [0, WANDERING, *opened[:3]][:5]
    figure = matplotlib.figure.Figure(figsize=(9, 6.2), layout="constrained")
    rows = figure.add_gridspec(3, len(moments), height_ratios=(1.35, 1.3, 0.7))
    for column, moment in enumerate(moments):
        axis = figure.add_subplot(rows[0, column])
        axis.imshow(_cropped(env, played, moment))
        axis.set_title(_title(moment, opened), fontsize=9)
        axis.set_axis_off()
    above, below = figure.add_subplot(rows[1, :]), figure.add_subplot(rows[2, :])
    steps = np.arange(len(played.sizes))
    above.step(steps, played.sizes, where="post", color="#0072B2", linewidth=2)
    above.set_ylabel("memory m")
    below.bar(steps[1:], played.bonuses, color="#C84E00", width=0.8)
    below.set_ylabel("bonus")
    below.set_xlabel("step")
    for axis in (above, below):
        axis.set_xlim(-1, len(steps))
        axis.axvspan(0, WANDERING, color="0.93", zorder=0)
        axis.spines[["top", "right"]].set_visible(False)
        for number, at in enumerate(opened):
            axis.axvline(at, color="0.6", linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
            if axis is above:
                axis.text(at + 0.2, 2, f"door {number + 1}", fontsize=8, color="0.35")
    above.text(0.5, played.sizes.max() * 0.93, "wandering in the first room", fontsize=9, color="0.35")
    above.set_ylim(0, None)
    return figure


def _title(moment: int, opened: list[int]) -> str:
    if moment in opened:
        return f"step {moment}, door {opened.index(moment) + 1} opens"
    return f"step {moment}"


def _cropped(env: MiniGrid, played: Played, moment: int) -> UInt8[np.ndarray, "height width 3"]:
    """The level as Farama draws it, without the empty space around its rooms."""
    tile = 16
    picture = render.frame(env, nth(played.states, moment), tile)
    walls = np.argwhere(np.asarray(env.full_grid(nth(played.states, 0)))[..., 0] == cells.WALL)
    (left, top), (right, bottom) = walls.min(axis=0), walls.max(axis=0) + 1
    return picture[top * tile : bottom * tile, left * tile : right * tile]


def imagined_picture(env: MiniGrid, played: Played) -> Image.Image:
    """What the model imagines from two states, beside what each action really leads to."""
    before_door = played.actions.index(rules.TOGGLE)
    moments = ((0, "The first state of the episode."), (before_door, "In front of a closed door."))
    picture = Image.new("RGB", (LEFT + 6 * COLUMN, len(moments) * BLOCK), panel.BACKGROUND)
    for number, (moment, words) in enumerate(moments):
        _situation(picture, number * BLOCK + 12, env, played, moment, words)
    return picture


SMALL, LARGE = 8, 13
"""Pixels per cell."""
COLUMN, LEFT, BLOCK = 7 * LARGE + 14, 220, 270


def _situation(
    picture: Image.Image, top: int, env: MiniGrid, played: Played, moment: int, words: str
) -> None:
    """One state: the panorama on the left; on the right a column for each action, imagined above real."""
    draw = ImageDraw.Draw(picture)
    state = nth(played.states, moment)
    panel.write(draw, (12, top), words, 16, panel.TEXT)
    panel.write(draw, (12, top + 28), "what the model reads", 12, panel.QUIET)
    for number, (name, view) in enumerate(zip(LOOKS, np.asarray(env.panorama(state)), strict=True)):
        x, y = 12 + number % 2 * (7 * SMALL + 12), top + 48 + number // 2 * (7 * SMALL + 26)
        panel.write(draw, (x, y), name, 11, panel.QUIET)
        picture.paste(panel.view_picture(view, SMALL), (x, y + 15))
    real = jax.vmap(lambda action: env.step(state, action)[1].observation)(jnp.arange(6))
    for action in range(6):
        x = LEFT + action * COLUMN
        imagined, came, new = (
            played.imagined[moment, action],
            np.asarray(real[action]),
            played.new[moment, action + 1],
        )
        panel.write(draw, (x, top + 28), rules.ACTION_NAMES[action], 12, panel.NEW if new else panel.QUIET)
        _view(picture, (x, top + 48), imagined, panel.NEW if new else panel.LINES, wrong=imagined != came)
        _view(picture, (x, top + 48 + COLUMN), came, panel.LINES)
    for text, y in (("imagined", top + 48), ("real", top + 48 + COLUMN)):
        panel.write(draw, (LEFT - 10, y + 7 * LARGE // 2), text, 13, panel.TEXT, "rm")


LOOKS = ("right", "back", "left", "front")


def _view(
    picture: Image.Image,
    place: tuple[int, int],
    view: UInt8[np.ndarray, "7 7 3"],
    frame: panel.Colour,
    wrong: Any = None,
) -> None:
    """A view in a frame, its wrong cells outlined in red."""
    draw, (x, y), side = ImageDraw.Draw(picture), place, 7 * LARGE
    draw.rectangle((x - 3, y - 3, x + side + 3, y + side + 3), fill=frame)
    picture.paste(panel.view_picture(view, LARGE), place)
    for column, row in () if wrong is None else np.argwhere(wrong.any(axis=-1)):
        corner = (x + column * LARGE, y + row * LARGE)
        draw.rectangle(
            (*corner, corner[0] + LARGE, corner[1] + LARGE), outline=panel.COLOURS[cells.RED], width=2
        )


if __name__ == "__main__":
    main()
