"""Pictures are Farama's own, and files hold what was drawn."""

from __future__ import annotations

import subprocess
import sys

import imageio_ffmpeg
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import gobi
from gobi.envs.minigrid import oracle, policies, render, rules
from gobi.errors import GobiError, MissingExtra

TO_THE_GOAL = [rules.FORWARD, rules.FORWARD, rules.RIGHT, rules.FORWARD, rules.FORWARD]


def film(name, actions):
    """The frames of an episode on Farama's level 0 of a task."""
    env = gobi.make(name)
    start = jax.tree.map(lambda array: jnp.asarray(array[0]), oracle.farama_levels(env, seed=0, count=1))
    return render.episode(env, start, actions)


@pytest.fixture(scope="module")
def short_film():
    return film("MiniGrid-Empty-5x5-v0", TO_THE_GOAL)


@pytest.mark.parametrize(
    "name", ["MiniGrid-Empty-5x5-v0", "MiniGrid-KeyCorridorS4R3-v0", "MiniGrid-ObstructedMaze-1Dlhb-v0"]
)
def test_a_frame_is_what_farama_draws(name):
    env = gobi.make(name)
    farama = oracle.new_farama(env)
    farama.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        for action in rng.integers(0, 7, 10):
            farama.step(int(action))
        expected = farama.get_frame(highlight=True, tile_size=12)
        np.testing.assert_array_equal(render.frame(env, oracle.from_farama(farama), tile_size=12), expected)


def test_an_episode_is_drawn_step_by_step_as_farama_plays_it():
    env = gobi.make("MiniGrid-DoorKey-6x6-v0")
    actions = np.random.default_rng(1).choice([0, 1, 2, 2, 2, 3, 4, 5], 40).tolist()
    frames = film("MiniGrid-DoorKey-6x6-v0", actions)
    farama = oracle.new_farama(env)
    farama.reset(seed=0)
    tile = render.tile_size_for(env)
    np.testing.assert_array_equal(frames[0], farama.get_frame(tile_size=tile))
    for action, drawn in zip(actions, frames[1:], strict=True):
        farama.step(action)
        np.testing.assert_array_equal(drawn, farama.get_frame(tile_size=tile))


def test_nothing_is_drawn_after_the_end_of_an_episode():
    frames = film("MiniGrid-Empty-5x5-v0", [*TO_THE_GOAL, rules.LEFT, rules.LEFT])
    assert len(frames) == 1 + len(TO_THE_GOAL)


@pytest.mark.parametrize("name", ["MiniGrid-Empty-5x5-v0", "MiniGrid-MultiRoom-N6-v0"])
def test_pictures_are_of_a_handy_size(name):
    env = gobi.make(name)
    assert 150 <= render.tile_size_for(env) * max(env.generator.size) <= render.PICTURE_SIDE


def test_a_gif_holds_the_frames_pixel_by_pixel(short_film, tmp_path):
    path = tmp_path / "new" / "folder" / "film.gif"
    render.save(path, short_film, fps=20)
    with Image.open(path) as gif:
        assert gif.n_frames == len(short_film)
        assert gif.info["duration"] == 50
        for number, expected in enumerate(short_film):
            gif.seek(number)
            np.testing.assert_array_equal(np.asarray(gif.convert("RGB")), expected)


def test_a_gif_of_a_hundred_frames_of_a_large_grid_is_small(tmp_path):
    env = gobi.make("MiniGrid-MultiRoom-N6-v0")
    start = jax.tree.map(lambda array: jnp.asarray(array[0]), oracle.farama_levels(env, seed=0, count=1))

    def step(state, key):
        action = policies.biased(key, state)
        return rules.move(state, action)[0], action

    _, actions = jax.lax.scan(step, start, jax.random.split(jax.random.key(0), 99))
    frames = render.episode(env, start, np.asarray(actions).tolist())
    assert len(frames) == 100
    path = tmp_path / "film.gif"
    render.save(path, frames)
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("side", [160, 155])
def test_an_mp4_plays_the_frames(short_film, tmp_path, side):
    frames = [np.ascontiguousarray(one[:side, :side]) for one in short_film]
    path = tmp_path / "film.mp4"
    render.save(path, frames)
    decode = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-i", str(path), "-f", "rawvideo"]
    raw = subprocess.run([*decode, "-pix_fmt", "rgb24", "-"], capture_output=True, check=True).stdout
    even = side + side % 2
    shown = np.frombuffer(raw, np.uint8).reshape(len(frames), even, even, 3)
    errors = np.abs(shown[:, :side, :side].astype(int) - np.stack(frames))
    assert errors.mean() < 4


def test_a_png_of_one_frame_is_that_frame(short_film, tmp_path):
    render.save(tmp_path / "one.PNG", short_film[:1])
    with Image.open(tmp_path / "one.PNG") as picture:
        np.testing.assert_array_equal(np.asarray(picture), short_film[0])


def test_a_png_of_many_frames_shows_twelve_from_first_to_last(tmp_path):
    frames = [np.full((10, 20, 3), shade, np.uint8) for shade in range(40)]
    render.save(tmp_path / "many.png", frames)
    with Image.open(tmp_path / "many.png") as picture:
        sheet = np.asarray(picture)
    assert sheet.shape == (3 * 10 + 2 * render.SHEET_GAP, 4 * 20 + 3 * render.SHEET_GAP, 3)
    shades = [sheet[down, across, 0] for down in (0, 18, 36) for across in (0, 28, 56, 84)]
    assert shades == sorted(shades)
    assert (shades[0], shades[-1], len(set(shades))) == (0, 39, 12)


@pytest.mark.parametrize("name", ["film.avi", "film", "film.gif.zip"])
def test_an_unknown_suffix_is_refused_and_the_known_ones_named(short_film, tmp_path, name):
    with pytest.raises(GobiError, match=r"\.gif, \.mp4, \.png"):
        render.save(tmp_path / name, short_film)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fps", [0, -3, 51])
def test_a_film_cannot_be_shown_at_an_impossible_speed(short_film, tmp_path, fps):
    with pytest.raises(GobiError, match="frames per second"):
        render.save(tmp_path / "film.gif", short_film, fps=fps)


def test_a_film_without_frames_is_refused(tmp_path):
    with pytest.raises(GobiError, match="no frame"):
        render.save(tmp_path / "film.gif", [])


def test_ffmpegs_complaint_is_passed_on(short_film, tmp_path):
    (tmp_path / "film.mp4").mkdir()
    with pytest.raises(GobiError, match="ffmpeg could not write"):
        render.save(tmp_path / "film.mp4", short_film)


@pytest.mark.parametrize(("module", "name"), [("PIL", "film.gif"), ("imageio_ffmpeg", "film.mp4")])
def test_a_missing_package_is_named_with_its_extra(short_film, tmp_path, monkeypatch, module, name):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"'{module}'.*gobi\[minigrid\]"):
        render.save(tmp_path / name, short_film)
