"""The pictures of a filmed control episode, drawn with Pillow: the task, numbers, plots, imagined frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int, UInt8

from gobi.analysis.panel import BACKGROUND, BLUE, GREEN, LINES, NEW, QUIET, TEXT, Picture, write
from gobi.errors import require

SIDE = 320
"""Pixels of the picture of the task, in either direction."""
MARGIN, GAP, WIDTH = 12, 20, 400
LEFT = MARGIN + SIDE + GAP
"""Where the numbers begin."""
TILE = 80
"""Pixels of the small pictures below the large one."""
HEIGHT = MARGIN + SIDE + 28 + TILE + MARGIN
SHAPE = (HEIGHT, LEFT + WIDTH + MARGIN, 3)
"""Of one picture of the film."""
PLOT_TOP, PLOT_HEIGHT, BARS_HEIGHT = 96, 64, 30
"""The running plot, as high as it is when frames are shown below it."""
FRAMES_TOP = PLOT_TOP + PLOT_HEIGHT + BARS_HEIGHT + 36
FRAMES_HEIGHT = HEIGHT - MARGIN - FRAMES_TOP
LARGEST_FRAME, BETWEEN = 128, 4
SEEN = "what it sees"

SmallFrame = UInt8[np.ndarray, "64 64 3"]


@dataclasses.dataclass(frozen=True)
class Imagined:
    """What the world model makes of one state.

    reconstructed:  its own picture of the state.
    frames:         one step ahead, after random actions.
    new:            which of those the memory had not held.
    own_new:        whether it had not held the state's own frame.
    counted:        whether they went to the memory at all.
    more:           new ones among those further ahead, which are not shown.
    """

    reconstructed: SmallFrame
    frames: UInt8[np.ndarray, "n 64 64 3"]
    new: Bool[np.ndarray, " n"]
    own_new: bool
    counted: bool
    more: int


@dataclasses.dataclass(frozen=True)
class Moment:
    """One state of an episode, and the step that led to it.

    step:      its number.
    action:    what led here, numbers in -1 .. 1; None at the start.
    earned:    the task's reward so far.
    bonus:     of the step; None at the start.
    factors:   what the bonus is the product of.
    seen:      the frame that the agent sees; None if it sees the state instead.
    imagined:  None if the reward imagines no pictures.
    """

    step: int
    action: Float32[np.ndarray, " size"] | None
    earned: float
    bonus: float | None
    factors: Mapping[str, float]
    seen: Picture | None
    imagined: Imagined | None


@dataclasses.dataclass(frozen=True)
class Panel:
    """What stays the same during a film.

    curve:    what the running plot shows.
    values:   its values, one for each state.
    bonuses:  one for each step; None if there are none to show.
    """

    heading: str
    max_steps: int
    curve: str
    values: Float32[np.ndarray, " states"] | Int[np.ndarray, " states"]
    bonuses: Float32[np.ndarray, " steps"] | None

    def beside(self, picture: Picture, moment: Moment) -> UInt8[np.ndarray, "frame_height frame_width 3"]:
        """One picture of the film: the task on the left, what is told about it around."""
        image = require("PIL.Image", extra="minigrid")
        frame = image.new("RGB", (SHAPE[1], SHAPE[0]), BACKGROUND)
        frame.paste(image.fromarray(picture).resize((SIDE, SIDE)), (MARGIN, MARGIN))
        draw = require("PIL.ImageDraw", extra="minigrid").Draw(frame)
        self._numbers(draw, moment)
        self._plot(draw, moment)
        _below(frame, draw, moment)
        if moment.imagined is not None:
            _frames(frame, draw, moment.imagined)
        return np.asarray(frame)

    def _numbers(self, draw: Any, moment: Moment) -> None:
        right = LEFT + WIDTH
        write(draw, (LEFT, MARGIN), self.heading, 14, QUIET)
        write(draw, (right, MARGIN), f"step {moment.step} of {self.max_steps}", 14, QUIET, "ra")
        earned = GREEN if moment.earned > 0 else TEXT
        write(draw, (LEFT, MARGIN + 22), f"return {moment.earned:.1f}", 24, earned)
        if self.bonuses is not None:
            colour = NEW if moment.bonus else QUIET
            write(draw, (LEFT, MARGIN + 54), _bonus_text(moment), 16, colour)

    def _plot(self, draw: Any, moment: Moment) -> None:
        """What the episode has come to so far, and the bonuses as bars below it."""
        alone = moment.imagined is None
        height = HEIGHT - MARGIN - BARS_HEIGHT - PLOT_TOP if alone else PLOT_HEIGHT
        floor, ceiling = PLOT_TOP + height, PLOT_TOP + 20
        bottom = floor + (BARS_HEIGHT if self.bonuses is not None else 0)
        draw.rectangle((LEFT, PLOT_TOP, LEFT + WIDTH - 1, bottom), outline=LINES)
        across = np.linspace(LEFT + 3, LEFT + WIDTH - 4, max(len(self.values), 2))
        down = floor - 3 - self.values / max(float(self.values.max()), 1e-9) * (floor - 3 - ceiling)
        points = [(float(across[state]), float(down[state])) for state in range(moment.step + 1)]
        if len(points) > 1:
            draw.line(points, fill=BLUE, width=2)
        x, y = points[-1]
        draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=BLUE)
        if self.bonuses is not None:
            draw.line((LEFT, floor, LEFT + WIDTH - 1, floor), fill=LINES)
            tallest = max(float(self.bonuses.max(initial=0)), 1e-9)
            for step in np.flatnonzero(self.bonuses[: moment.step]):
                x, top = float(across[step + 1]), bottom - self.bonuses[step] / tallest * (BARS_HEIGHT - 4)
                draw.line((x, bottom - 1, x, float(top)), fill=NEW, width=1)
        value = self.values[moment.step]
        text = f"{value}" if isinstance(value, np.integer) else f"{value:.1f}"
        write(draw, (LEFT + 8, PLOT_TOP + 4), f"{self.curve} = {text}", 14, BLUE)


def _below(frame: Any, draw: Any, moment: Moment) -> None:
    """Below the task: what the agent sees of it, what its world model makes of that, and the action."""
    top, left = MARGIN + SIDE + 28, MARGIN
    small = {SEEN: moment.seen}
    if moment.imagined is not None:
        small["as the model has it"] = moment.imagined.reconstructed
    for name, picture in small.items():
        if picture is not None:
            write(draw, (left, top - 20), name, 12, QUIET)
            bright = name == SEEN and moment.imagined is not None and moment.imagined.own_new
            draw.rectangle((left, top, left + TILE - 1, top + TILE - 1), fill=NEW if bright else LINES)
            frame.paste(_resized(picture, TILE - 4), (left + 2, top + 2))
            left += 120
    write(draw, (left, top - 20), "action", 12, QUIET)
    _action(draw, moment.action, (left, top, MARGIN + SIDE - 1, top + TILE - 1))


def _action(draw: Any, action: np.ndarray | None, box: tuple[int, int, int, int]) -> None:
    """A bar for each number of an action, up from the middle or down."""
    left, top, right, bottom = box
    middle = (top + bottom) // 2
    draw.rectangle(box, outline=LINES)
    draw.line((left, middle, right, middle), fill=LINES)
    if action is None:
        return
    edges = np.linspace(left + 3, right - 3, len(action) + 1)
    for number, one in enumerate(action):
        # A single bar over the whole width would look like a wall.
        centre, half = float(edges[number : number + 2].mean()), min(float(edges[1] - edges[0]) / 2 - 1, 10)
        end = middle - float(one) * (middle - top - 2)
        draw.rectangle((centre - half, min(middle, end), centre + half, max(middle, end)), fill=BLUE)


def _frames(frame: Any, draw: Any, imagined: Imagined) -> None:
    """The frames imagined one step ahead; those that were new in a bright frame."""
    write(draw, (LEFT, FRAMES_TOP - 22), _imagined_text(imagined), 14, QUIET)
    size = tile_size(len(imagined.frames))
    columns = WIDTH // (size + BETWEEN)
    for number, (picture, new) in enumerate(zip(imagined.frames, imagined.new, strict=True)):
        x = LEFT + number % columns * (size + BETWEEN)
        y = FRAMES_TOP + number // columns * (size + BETWEEN)
        draw.rectangle((x, y, x + size - 1, y + size - 1), fill=NEW if new else LINES)
        frame.paste(_resized(picture, size - 4, dim=not imagined.counted), (x + 2, y + 2))


def tile_size(count: int) -> int:
    """The largest side at which so many square frames fit below the plot."""
    for size in range(LARGEST_FRAME, 1, -1):
        if (WIDTH // (size + BETWEEN)) * ((FRAMES_HEIGHT + BETWEEN) // (size + BETWEEN)) >= count:
            return size
    return 1


def _imagined_text(imagined: Imagined) -> str:
    if not imagined.counted:
        return "what is imagined from here does not count"
    beyond = f"; {imagined.more} more further ahead" if imagined.more else ""
    return f"imagined from here, {imagined.new.sum()} of {len(imagined.new)} new{beyond}"


def _bonus_text(moment: Moment) -> str:
    if moment.bonus is None:
        return "no bonus yet"
    product = " x ".join(f"{name} {_short(value)}" for name, value in moment.factors.items())
    return f"bonus {_short(moment.bonus)} = {product}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


def _resized(picture: np.ndarray, size: int, dim: bool = False) -> Any:
    image = require("PIL.Image", extra="minigrid")
    made = image.fromarray(picture).resize((size, size), image.Resampling.BILINEAR)
    return made.point(lambda value: value // 3) if dim else made
