"""The panel beside a filmed episode, drawn with Pillow: numbers, the memory's growth, imagined views."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32, Int, UInt8

from gobi.envs.minigrid import cells
from gobi.errors import require

SIDE = 432
"""Pixels that the picture of the level may take in either direction."""
MARGIN, WIDTH = 12, 400
HEIGHT = SIDE + 2 * MARGIN
LEFT = SIDE + 2 * MARGIN + 8
"""Where the panel begins."""
CURVE_TOP, CURVE_HEIGHT, BARS_HEIGHT = 112, 64, 26
VIEWS_TOP = 238

BACKGROUND, LINES, QUIET, TEXT = (22, 24, 30), (62, 66, 78), (150, 154, 166), (236, 237, 240)
NEW, BLUE, GREEN = (255, 200, 60), (110, 180, 255), (110, 220, 120)
UNSEEN, FLOOR, WALL = (10, 11, 14), (58, 61, 70), (120, 124, 134)
COLOURS = ((255, 80, 80), (60, 200, 80), (90, 130, 255), (175, 95, 235), (245, 220, 60), (170, 170, 170))
"""Red, green, blue, purple, yellow, grey, bright enough for the floor's colour behind them."""
LAVA = (255, 128, 0)

Colour = tuple[int, int, int]
Picture = UInt8[np.ndarray, "height width 3"]


@dataclasses.dataclass(frozen=True)
class Imagined:
    """One imagined view, what led to it, whether it went to the memory, and whether it was new there."""

    name: str
    view: UInt8[np.ndarray, "7 7 3"]
    counted: bool
    new: bool


@dataclasses.dataclass(frozen=True)
class Moment:
    """One state of an episode, and the step that led to it.

    step:      its number.
    action:    what led here.
    reward:    the task's reward so far.
    bonus:     what the step was paid by the intrinsic reward; None at the start.
    factors:   what that is the product of.
    view:      what the agent sees.
    imagined:  the views imagined from here; None if the reward does not imagine.
    more:      new views among those imagined further ahead, which are not shown.
    """

    step: int
    action: str
    reward: float
    bonus: float | None
    factors: dict[str, float]
    view: UInt8[np.ndarray, "7 7 3"]
    imagined: list[Imagined] | None
    more: int


@dataclasses.dataclass(frozen=True)
class Panel:
    """What stays the same during a film.

    curve:    what the running plot shows.
    sizes:    its values, one for each state.
    bonuses:  one for each step; None if there are none to show.
    """

    heading: str
    max_steps: int
    curve: str
    sizes: Int[np.ndarray, " states"]
    bonuses: Float32[np.ndarray, " steps"] | None

    def beside(self, picture: Picture, moment: Moment) -> UInt8[np.ndarray, "frame_height frame_width 3"]:
        """One frame: the picture on the left, the panel on the right."""
        image = require("PIL.Image", extra="minigrid")
        frame = image.new("RGB", (LEFT + WIDTH + MARGIN, HEIGHT), BACKGROUND)
        height, width = picture.shape[:2]
        frame.paste(image.fromarray(picture), (MARGIN + (SIDE - width) // 2, (HEIGHT - height) // 2))
        draw = require("PIL.ImageDraw", extra="minigrid").Draw(frame)
        self._numbers(draw, moment)
        self._curve(draw, moment)
        if moment.imagined is None:
            write(draw, (LEFT, VIEWS_TOP - 24), "what the agent sees", 14, QUIET)
            frame.paste(view_picture(moment.view, 26), (LEFT, VIEWS_TOP))
        else:
            _views(frame, draw, moment.imagined, moment.more)
        return np.asarray(frame)

    def _numbers(self, draw: Any, moment: Moment) -> None:
        right = LEFT + WIDTH
        write(draw, (LEFT, MARGIN), self.heading, 14, QUIET)
        write(draw, (right, MARGIN), f"step {moment.step} of at most {self.max_steps}", 14, QUIET, "ra")
        write(draw, (LEFT, MARGIN + 24), moment.action, 24, TEXT)
        earned = GREEN if moment.reward > 0 else QUIET
        write(draw, (right, MARGIN + 28), f"task reward {moment.reward:.3f}", 18, earned, "ra")
        if self.bonuses is not None:
            write(draw, (LEFT, MARGIN + 60), _bonus_text(moment), 16, NEW if moment.bonus else QUIET)

    def _curve(self, draw: Any, moment: Moment) -> None:
        """The running plot, and the bonuses as bars below it."""
        states = len(self.sizes)
        across = np.linspace(LEFT, LEFT + WIDTH - 1, max(states, 2))
        floor = CURVE_TOP + CURVE_HEIGHT
        bottom = floor + (BARS_HEIGHT if self.bonuses is not None else 0)
        draw.rectangle((LEFT, CURVE_TOP - 8, LEFT + WIDTH - 1, bottom), outline=LINES)
        heights = floor - 2 - self.sizes / max(1, self.sizes.max()) * (CURVE_HEIGHT - 2)
        points = [(float(across[i]), float(heights[i])) for i in range(moment.step + 1)]
        if len(points) > 1:
            draw.line(points, fill=BLUE, width=2)
        x, y = points[-1]
        draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=BLUE)
        if self.bonuses is not None and moment.step:
            tallest = max(1e-9, float(self.bonuses.max()))
            for step in range(moment.step):
                top = bottom - self.bonuses[step] / tallest * (BARS_HEIGHT - 4)
                draw.line((float(across[step + 1]), bottom, float(across[step + 1]), float(top)), NEW, 2)
        write(draw, (LEFT + 8, CURVE_TOP - 3), f"{self.curve} = {self.sizes[moment.step]}", 14, BLUE)


def view_picture(view: UInt8[np.ndarray, "7 7 3"], size: int) -> Any:
    """A picture of a view with so many pixels per cell, the agent at the bottom looking up."""
    image = require("PIL.Image", extra="minigrid")
    made = image.new("RGB", (7 * size + 1, 7 * size + 1), BACKGROUND)
    for x, y in np.ndindex(7, 7):
        here = (x, y) == (3, 6)
        kind, colour, state = (int(number) for number in view[x, y])
        made.paste(_tile(kind, colour, state, size, here), (x * size, y * size))
    return made


@functools.lru_cache(maxsize=4096)
def _tile(kind: int, colour: int, state: int, size: int, here: bool) -> Any:
    """One cell. A model may imagine what no level holds; it is drawn as far as it makes sense."""
    image = require("PIL.Image", extra="minigrid")
    made = image.new("RGB", (size, size), _ground(kind, colour))
    draw = require("PIL.ImageDraw", extra="minigrid").Draw(made)
    if kind != cells.UNSEEN:
        draw.line((0, 0, size, 0), fill=BACKGROUND)
        draw.line((0, 0, 0, size), fill=BACKGROUND)
    paint = COLOURS[min(colour, len(COLOURS) - 1)]
    inner = (size // 5 + 1, size // 5 + 1, size - 1 - size // 5, size - 1 - size // 5)
    if kind == cells.DOOR:
        draw.rectangle((1, 1, size - 1, size - 1), outline=paint, fill=_door(state, paint), width=2)
        if state == cells.LOCKED:
            draw.ellipse((size // 2 - 1, size // 2 - 1, size // 2 + 2, size // 2 + 2), fill=BACKGROUND)
    elif kind == cells.KEY:
        middle = size // 2
        draw.ellipse((middle - size // 4, 1, middle + size // 4, middle), outline=paint, width=2)
        draw.line((middle, middle, middle, size - 2), fill=paint, width=2)
        draw.line((middle, size - 3, middle + size // 4, size - 3), fill=paint, width=2)
    elif kind == cells.BALL:
        draw.ellipse(inner, fill=paint)
    elif kind == cells.BOX:
        draw.rectangle(inner, outline=paint, width=2)
    elif here and kind == cells.EMPTY:
        draw.polygon([(size // 2, 2), (size - 3, size - 2), (3, size - 2)], fill=COLOURS[cells.RED])
    return made


def _ground(kind: int, colour: int) -> Colour:
    grounds = {
        cells.UNSEEN: UNSEEN, cells.WALL: WALL, cells.GOAL: COLOURS[cells.GREEN], cells.LAVA: LAVA,
        cells.FLOOR: COLOURS[min(colour, len(COLOURS) - 1)],
    }  # fmt: skip
    return grounds.get(kind, FLOOR)


def _door(state: int, paint: Colour) -> Colour:
    """Open doors show the floor, others a darker shade of their colour."""
    return FLOOR if state == cells.OPEN else (paint[0] // 2, paint[1] // 2, paint[2] // 2)


def _views(frame: Any, draw: Any, imagined: Sequence[Imagined], more: int) -> None:
    """The imagined views in two rows, or in three smaller ones; those that were new in a bright frame."""
    few = len(imagined) <= 8
    columns, rows = (max(3, -(-len(imagined) // 2)), 2) if few else (6, 3)
    size, label = (11, 12) if few else (7, 10)
    shown = imagined[: columns * rows]
    write(draw, (LEFT, VIEWS_TOP - 24), _imagined_text(shown, more), 14, QUIET)
    across, down = WIDTH // columns, (HEIGHT - MARGIN - VIEWS_TOP + 6) // rows
    for number, one in enumerate(shown):
        x, y = LEFT + number % columns * across, VIEWS_TOP + number // columns * down
        colour = NEW if one.new else QUIET if one.counted else LINES
        write(draw, (x + 2, y), one.name, label, colour)
        top = y + label + 5
        picture = view_picture(one.view, size)
        if not one.counted:
            picture = picture.point(lambda value: value // 3)
        edge = 7 * size
        draw.rectangle((x, top - 2, x + edge + 4, top + edge + 2), fill=NEW if one.new else LINES)
        frame.paste(picture, (x + 2, top))


def _imagined_text(shown: Sequence[Imagined], more: int) -> str:
    if not any(one.counted for one in shown):
        return "nothing is imagined from the last state"
    beyond = f"; {more} more further ahead" if more else ""
    return f"imagined from here, {sum(one.new for one in shown)} of {len(shown)} new{beyond}"


def _bonus_text(moment: Moment) -> str:
    if moment.bonus is None:
        return "no bonus yet"
    return f"bonus {moment.bonus:.2f} = " + " x ".join(
        f"{name} {_short(value)}" for name, value in moment.factors.items()
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


def write(
    draw: Any, place: tuple[int, int], text: str, size: int, colour: Colour, anchor: str = "la"
) -> None:
    """Writes a line of text where it is anchored."""
    draw.text(place, text, fill=colour, font=_font(size), anchor=anchor)


@functools.lru_cache
def _font(size: int) -> Any:
    return require("PIL.ImageFont", extra="minigrid").load_default(size)
