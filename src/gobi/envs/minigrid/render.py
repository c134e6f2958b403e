"""Pictures of states and films of episodes, drawn by Farama's own renderer. Needs the extra `minigrid`."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from gobi.envs.minigrid import oracle
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.state import State
from gobi.errors import GobiError, require
from gobi.types import Timestep

Frame = UInt8[np.ndarray, "height width 3"]

SUFFIXES = (".gif", ".mp4", ".png")
"""What `save` can write."""

PICTURE_SIDE = 480
"""Pixels along the longer side of a picture, at most; large enough to tell a key from a ball."""
MIN_TILE, MAX_TILE = 8, 32
MAX_FPS = 50
"""Viewers slow a faster GIF down to ten frames a second."""
SHEET_COLUMNS, SHEET_ROWS, SHEET_GAP = 4, 3, 8


def tile_size_for(env: MiniGrid) -> int:
    """Pixels per cell such that the whole grid makes a picture of a handy size."""
    return int(np.clip(PICTURE_SIDE // max(env.generator.size), MIN_TILE, MAX_TILE))


def frame(env: MiniGrid, state: State, tile_size: int | None = None) -> Frame:
    """The picture of one state, the agent's view lit up."""
    return _draw(oracle.new_farama(env), state, tile_size or tile_size_for(env))


def episode(env: MiniGrid, state: State, actions: Sequence[int], tile_size: int | None = None) -> list[Frame]:
    """The pictures of a state and of every state that the actions lead to from there: one more than actions.

    What happens after the end of an episode is not drawn: actions that come later are left out.
    """
    tile_size = tile_size or tile_size_for(env)
    farama = oracle.new_farama(env)
    frames = [_draw(farama, state, tile_size)]
    for action in actions:
        state, timestep = _step(env, state, jnp.int32(action))
        frames.append(_draw(farama, state, tile_size))
        if timestep.done:
            break
    return frames


def save(path: Path | str, frames: Sequence[Frame], fps: int = 10) -> None:
    """Writes frames as a GIF, an MP4 or a PNG, by the suffix of the path; folders are made as needed.

    Several frames become one PNG as a contact sheet: at most twelve of them, evenly spaced, in reading order.
    """
    path = Path(path)
    check_output(path, fps)
    if not frames:
        raise GobiError(f"there is no frame to write to {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    writers = {".gif": _save_gif, ".mp4": _save_mp4, ".png": _save_png}
    writers[path.suffix.lower()](path, frames, fps)


def check_output(path: Path, fps: int = 10) -> None:
    """Refuses what `save` could not write, so that no work is done for it."""
    if path.suffix.lower() not in SUFFIXES:
        raise GobiError(f"cannot write '{path}': the name must end in one of {', '.join(SUFFIXES)}")
    if not 1 <= fps <= MAX_FPS:
        raise GobiError(f"a film needs 1 to {MAX_FPS} frames per second, got {fps}")
    require("PIL", extra="minigrid")
    if path.suffix.lower() == ".mp4":
        require("imageio_ffmpeg", extra="minigrid")


def contact_sheet(frames: Sequence[Frame]) -> UInt8[np.ndarray, "sheet_height sheet_width 3"]:
    """One picture of several frames, the first and the last among them; a single frame stays as it is."""
    count = min(len(frames), SHEET_COLUMNS * SHEET_ROWS)
    chosen = [frames[round(place)] for place in np.linspace(0, len(frames) - 1, count)]
    columns = min(count, SHEET_COLUMNS)
    rows = -(-count // columns)
    height, width = frames[0].shape[:2]
    down, across = height + SHEET_GAP, width + SHEET_GAP
    sheet = np.full((rows * down - SHEET_GAP, columns * across - SHEET_GAP, 3), 255, np.uint8)
    for number, one in enumerate(chosen):
        top, left = number // columns * down, number % columns * across
        sheet[top : top + height, left : left + width] = one
    return sheet


@functools.partial(jax.jit, static_argnums=0)
def _step(env: MiniGrid, state: State, action: Int32[Array, ""]) -> tuple[State, Timestep]:
    return env.step(state, action)


def _draw(farama: Any, state: State, tile_size: int) -> Frame:
    oracle.to_farama(state, farama)
    return np.asarray(farama.unwrapped.get_frame(highlight=True, tile_size=tile_size), np.uint8)


def _save_png(path: Path, frames: Sequence[Frame], fps: int) -> None:
    del fps
    image = require("PIL.Image", extra="minigrid")
    image.fromarray(contact_sheet(frames)).save(path, optimize=True)


def _save_gif(path: Path, frames: Sequence[Frame], fps: int) -> None:
    image = require("PIL.Image", extra="minigrid")
    codes = [_codes(one) for one in frames]
    # One palette for the whole film, made from each of its colours once: with a palette per frame the same
    # cell flickers, and Pillow takes half a minute to find them.
    occurs = np.zeros(2**24, bool)
    for one in codes:
        occurs[one] = True
    colours = np.flatnonzero(occurs)
    channels = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=-1).astype(np.uint8)
    reduced = image.fromarray(channels[None]).quantize(256, dither=image.Dither.NONE)
    number = np.zeros(2**24, np.uint8)
    number[colours] = np.asarray(reduced)[0]
    pictures = [image.fromarray(number[one]) for one in codes]
    for picture in pictures:
        picture.putpalette(reduced.getpalette())
    # The end stays up for a moment before the film starts again.
    duration = [round(1000 / fps)] * (len(frames) - 1) + [max(1000, round(1000 / fps))]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=duration, loop=0)


def _codes(picture: Frame) -> Int32[np.ndarray, "height width"]:
    """Each pixel's colour as one number."""
    red, green, blue = np.moveaxis(picture.astype(np.int32), -1, 0)
    return red << 16 | green << 8 | blue


def _save_mp4(path: Path, frames: Sequence[Frame], fps: int) -> None:
    program = require("imageio_ffmpeg", extra="minigrid").get_ffmpeg_exe()
    height, width = frames[0].shape[:2]
    read = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    # Players want colours at half the resolution, which needs even sides.
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p"]
    # Not through imageio's own writer: it forks in a way that can deadlock with JAX's threads.
    command = [program, "-y", "-loglevel", "error", *read, "-c:v", "libx264", "-crf", "18", *even, str(path)]
    film = b"".join(one.tobytes() for one in frames)
    done = subprocess.run(command, input=film, capture_output=True, check=False)
    if done.returncode != 0:
        raise GobiError(f"ffmpeg could not write {path}: {done.stderr.decode(errors='replace').strip()}")
