"""Pictures as files: films as GIF or MP4, and sheets of several pictures as PNG."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int, Int32, Int64, UInt8

from gobi.errors import GobiError, require

Frame = UInt8[np.ndarray, "height width 3"]

SUFFIXES = (".gif", ".mp4", ".png")
"""What `save` can write."""

MAX_FPS = 50
"""Viewers slow a faster GIF down to ten frames a second."""
SHEET_COLUMNS, SHEET_ROWS, SHEET_GAP = 4, 3, 8
SHEET = SHEET_COLUMNS * SHEET_ROWS
"""Pictures that a PNG shows at most."""
COLOURS, EXACT = 256, 64
"""Colours of a GIF, and how many of them are kept as they are if there are too many."""


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
    count = min(len(frames), SHEET)
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


def _save_png(path: Path, frames: Sequence[Frame], fps: int) -> None:
    del fps
    image = require("PIL.Image", extra="minigrid")
    image.fromarray(contact_sheet(frames)).save(path, optimize=True)


def _save_gif(path: Path, frames: Sequence[Frame], fps: int) -> None:
    image = require("PIL.Image", extra="minigrid")
    codes = [_codes(one) for one in frames]
    # One palette for the whole film: with a palette per frame the same cell flickers, and Pillow takes half a
    # minute to find them.
    occurs = np.zeros(2**24, np.int64)
    for one in codes:
        found, times = np.unique(one, return_counts=True)
        occurs[found] += times
    palette, number = _palette(occurs)
    pictures = [image.fromarray(number[one]) for one in codes]
    for picture in pictures:
        picture.putpalette(palette.tobytes())
    # The end stays up for a moment before the film starts again.
    duration = [round(1000 / fps)] * (len(frames) - 1) + [max(1000, round(1000 / fps))]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=duration, loop=0)


def _palette(
    occurs: Int64[np.ndarray, " codes"],
) -> tuple[UInt8[np.ndarray, "colours 3"], UInt8[np.ndarray, " codes"]]:
    """At most 256 colours, and which of them each colour becomes. occurs: how often each colour is there.

    The most frequent colours stay as they are, because in flat areas every change shows; the others are
    brought together, each counted once.
    """
    image = require("PIL.Image", extra="minigrid")
    colours = np.flatnonzero(occurs)
    frequent = colours[np.argsort(-occurs[colours], kind="stable")]
    number = np.zeros(len(occurs), np.uint8)
    if len(frequent) <= COLOURS:
        number[frequent] = np.arange(len(frequent))
        return _channels(frequent), number
    exact, others = frequent[:EXACT], frequent[EXACT:]
    # The usual method, median cut, has no place for colours that few others are near to.
    reduced = image.fromarray(_channels(others)[None]).quantize(
        COLOURS - EXACT, method=image.Quantize.MAXCOVERAGE, dither=image.Dither.NONE
    )
    number[exact] = np.arange(EXACT)
    number[others] = EXACT + np.asarray(reduced)[0]
    made = np.asarray(reduced.getpalette(), np.uint8).reshape(-1, 3)[: COLOURS - EXACT]
    return np.concatenate([_channels(exact), made]), number


def _channels(codes: Int[np.ndarray, " n"]) -> UInt8[np.ndarray, "n 3"]:
    """Red, green and blue of colours that are given as numbers."""
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=-1).astype(np.uint8)


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
