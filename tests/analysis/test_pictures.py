"""Files hold the pictures that were given."""

from __future__ import annotations

import subprocess
import sys

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from gobi.analysis import pictures
from gobi.errors import GobiError, MissingExtra

BACKGROUND, SQUARE = (22, 24, 30), (255, 200, 60)


@pytest.fixture
def short_film() -> list[np.ndarray]:
    """A square on its way across a flat ground."""
    frames = np.full((6, 160, 160, 3), BACKGROUND, np.uint8)
    for number, frame in enumerate(frames):
        frame[60:90, 20 * number : 20 * number + 30] = SQUARE
    return list(frames)


def test_a_gif_holds_the_frames_pixel_by_pixel(short_film, tmp_path):
    path = tmp_path / "new" / "folder" / "film.gif"
    pictures.save(path, short_film, fps=20)
    with Image.open(path) as gif:
        assert gif.n_frames == len(short_film)
        assert gif.info["duration"] == 50
        for number, expected in enumerate(short_film):
            gif.seek(number)
            np.testing.assert_array_equal(np.asarray(gif.convert("RGB")), expected)


@pytest.mark.parametrize("side", [160, 155])
def test_an_mp4_plays_the_frames(short_film, tmp_path, side):
    frames = [np.ascontiguousarray(one[:side, :side]) for one in short_film]
    path = tmp_path / "film.mp4"
    pictures.save(path, frames)
    decode = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-i", str(path), "-f", "rawvideo"]
    raw = subprocess.run([*decode, "-pix_fmt", "rgb24", "-"], capture_output=True, check=True).stdout
    even = side + side % 2
    shown = np.frombuffer(raw, np.uint8).reshape(len(frames), even, even, 3)
    errors = np.abs(shown[:, :side, :side].astype(int) - np.stack(frames))
    assert errors.mean() < 4


def test_a_png_of_one_frame_is_that_frame(short_film, tmp_path):
    pictures.save(tmp_path / "one.PNG", short_film[:1])
    with Image.open(tmp_path / "one.PNG") as picture:
        np.testing.assert_array_equal(np.asarray(picture), short_film[0])


def test_a_png_of_many_frames_shows_twelve_from_first_to_last(tmp_path):
    frames = [np.full((10, 20, 3), shade, np.uint8) for shade in range(40)]
    pictures.save(tmp_path / "many.png", frames)
    with Image.open(tmp_path / "many.png") as picture:
        sheet = np.asarray(picture)
    assert sheet.shape == (3 * 10 + 2 * pictures.SHEET_GAP, 4 * 20 + 3 * pictures.SHEET_GAP, 3)
    shades = [sheet[down, across, 0] for down in (0, 18, 36) for across in (0, 28, 56, 84)]
    assert shades == sorted(shades)
    assert (shades[0], shades[-1], len(set(shades))) == (0, 39, 12)


@pytest.mark.parametrize("name", ["film.avi", "film", "film.gif.zip"])
def test_an_unknown_suffix_is_refused_and_the_known_ones_named(short_film, tmp_path, name):
    with pytest.raises(GobiError, match=r"\.gif, \.mp4, \.png"):
        pictures.save(tmp_path / name, short_film)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fps", [0, -3, 51])
def test_a_film_cannot_be_shown_at_an_impossible_speed(short_film, tmp_path, fps):
    with pytest.raises(GobiError, match="frames per second"):
        pictures.save(tmp_path / "film.gif", short_film, fps=fps)


def test_a_film_without_frames_is_refused(tmp_path):
    with pytest.raises(GobiError, match="no frame"):
        pictures.save(tmp_path / "film.gif", [])


def test_ffmpegs_complaint_is_passed_on(short_film, tmp_path):
    (tmp_path / "film.mp4").mkdir()
    with pytest.raises(GobiError, match="ffmpeg could not write"):
        pictures.save(tmp_path / "film.mp4", short_film)


@pytest.mark.parametrize(("module", "name"), [("PIL", "film.gif"), ("imageio_ffmpeg", "film.mp4")])
def test_a_missing_package_is_named_with_its_extra(short_film, tmp_path, monkeypatch, module, name):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"'{module}'.*gobi\[minigrid\]"):
        pictures.save(tmp_path / name, short_film)


def test_a_gif_of_too_many_colours_keeps_flat_areas_as_they_are(tmp_path):
    frame = np.random.default_rng(0).integers(0, 256, (100, 100, 3)).astype(np.uint8)
    frame[:50], frame[:10, :10] = BACKGROUND, SQUARE
    pictures.save(tmp_path / "film.gif", [frame, frame[::-1]])
    with Image.open(tmp_path / "film.gif") as gif:
        shown = np.asarray(gif.convert("RGB")).astype(int)
    np.testing.assert_array_equal(shown[:50], frame[:50])
    errors = np.abs(shown - frame)[50:]
    assert 0 < errors.mean() < 32
