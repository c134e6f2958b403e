"""Films: the episode that evaluation plays, beside it what the reward really paid and what was imagined."""

from __future__ import annotations

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from made_runs import made_run

from gobi import worlds
from gobi.analysis import evaluation, film, panel
from gobi.envs.minigrid import cells, numbered_levels
from gobi.errors import GobiError
from gobi.rewards import R1
from gobi.training import trained
from gobi.worlds import GridModel

LEVEL = 2
LEARNING = {"reward": "gobi", "world": "learned", "world_mode": "online", "model_size": "compact"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")

    def made(**settings) -> Path:
        path = place / "-".join(f"{name}_{value}" for name, value in settings.items())
        return path if path.exists() else made_run(path, **settings)

    return made


def watched(folder: Path, level: int = LEVEL):
    agents = trained.load(folder)
    played = film.episode(agents, agents.seeds[0], level)
    return agents, played, film.bonus(agents, folder, agents.seeds[0], played)


def test_the_episode_is_the_one_that_evaluation_plays_on_that_level(runs):
    agents = trained.load(runs(reward="gobi"))
    levels = numbered_levels(agents.env, agents.level_seed, 0, 4)
    returns, lengths = evaluation.outcomes(agents, 0, levels, greedy=False, num_envs=4)
    for level in range(4):
        played = film.episode(agents, 0, level)
        assert len(played.actions) == len(played.rewards) == lengths[level] == len(played.views) - 1
        assert played.rewards.sum() == pytest.approx(returns[level])
        np.testing.assert_array_equal(played.states.step_count, np.arange(lengths[level] + 1))


# What the film says was new must be what the reward paid for.


@pytest.mark.parametrize(
    ("settings", "credited"),
    [
        ({"reward": "gobi"}, slice(1, None)),
        ({"reward": "r1", "credit": "departure", "hash": "simhash", "hash_bits": 9}, slice(None, -1)),
        ({"reward": "gobi", "skip_executed": True}, slice(1, None)),
        ({"reward": "gobi", "steps": 2, "imagined_actions": 7, "erase_movable": True}, slice(1, None)),
    ],
    ids=["arrival", "departure", "executed", "two steps"],
)
def test_the_growth_that_was_paid_is_the_number_of_new_views(runs, settings, credited):
    _, played, told = watched(runs(**settings))
    imagined = told.imagination
    grown = np.diff(imagined.sizes, prepend=0)
    np.testing.assert_array_equal(told.factors["growth"], grown[credited])
    beside = imagined.new.sum(axis=1) + imagined.more
    assert set((grown - beside).tolist()) <= {0, 1}, "at most the state's own view besides"
    assert grown.sum() > len(imagined.names)
    assert len(imagined.sizes) == len(played.views)
    assert not imagined.new[~imagined.counted].any()


@pytest.mark.parametrize("credit", ["arrival", "departure"])
def test_a_world_that_draws_what_it_imagines_draws_the_same_for_the_film(runs, monkeypatch, credit):
    network = worlds.build("copying", "compact", key=jax.random.key(5))
    drawing = R1(GridModel(network, sampled=3), credit=credit)
    monkeypatch.setattr(film.assembly, "reward", lambda *_: drawing)
    _, _, told = watched(runs(reward="gobi"))
    grown = np.diff(told.imagination.sizes, prepend=0)
    np.testing.assert_array_equal(told.paid, grown[1:] if credit == "arrival" else grown[:-1])
    assert told.imagination.names == ("draw 1", "draw 2", "draw 3")


def test_the_view_that_comes_next_is_among_those_imagined_by_the_real_simulator(runs):
    _, played, told = watched(runs(reward="gobi"))
    assert told.imagination.names == ("left", "right", "forward", "pickup", "drop", "toggle")
    for step, action in enumerate(played.actions):
        if action < 6:
            np.testing.assert_array_equal(told.imagination.views[step, action], played.views[step + 1])


def test_the_bonus_is_the_product_of_its_factors(runs):
    _, _, told = watched(runs(reward="gobi"))
    assert list(told.factors) == ["growth", "lifelong"]
    np.testing.assert_allclose(told.paid, told.factors["growth"] * told.factors["lifelong"])
    assert told.factors["lifelong"][0] == 1
    assert told.paid.max() > 1


@pytest.mark.parametrize(("reward", "names"), [("count", ["lifelong"]), ("none", ["nothing"])])
def test_without_imagination_there_is_only_the_bonus(runs, reward, names):
    _, played, told = watched(runs(reward=reward))
    assert told.imagination is None
    assert list(told.factors) == names
    assert (told.paid > 0).all() == (reward == "count")
    assert len(told.paid) == len(played.actions)


def test_a_world_that_learns_along_is_taken_from_the_checkpoint(runs):
    # The checkpoint's world is all zeros: each of its predictions is the same, whatever is seen.
    _, played, told = watched(runs(**LEARNING))
    assert len(played.views) > 2
    assert len(np.unique(told.imagination.views.reshape(-1, 7 * 7 * 3), axis=0)) == 1


def test_without_its_world_model_nothing_can_be_imagined(runs, tmp_path):
    folder = Path(shutil.copytree(runs(**LEARNING), tmp_path / "run"))
    (folder / "world.json").unlink()
    with pytest.raises(GobiError, match=r"has no world\.safetensors"):
        watched(folder)


def test_codes_are_new_once_and_only_where_they_count():
    codes = np.array([[[1, 1], [1, 1], [2, 1]], [[2, 1], [1, 2], [3, 3]]])
    counted = np.array([[True, True, False], [True, True, True]])
    new, sizes = film.remembered(codes, counted)
    np.testing.assert_array_equal(new, [[True, False, False], [True, True, True]])
    assert sizes.tolist() == [1, 4]


# The pictures


def has(picture: np.ndarray, colour) -> bool:
    return bool(np.all(picture[:, panel.LEFT :] == colour, axis=-1).any())


def test_there_is_a_picture_of_each_state_all_of_one_size_and_no_more_than_asked_for(runs):
    agents, played, told = watched(runs(reward="gobi"))
    pictures = film.frames(agents, LEVEL, played, told, 1000)
    assert len(pictures) == len(played.views)
    assert {picture.shape for picture in pictures} == {
        (panel.HEIGHT, panel.LEFT + panel.WIDTH + panel.MARGIN, 3)
    }
    assert len(film.frames(agents, LEVEL, played, told, 3)) == 3


def frame_of(new: bool, **changes) -> np.ndarray:
    view = np.zeros((7, 7, 3), np.uint8)
    imagined = [panel.Imagined("left", view, counted=True, new=new)]
    moment = panel.Moment(0, "start", 0.0, None, {}, view, **{"imagined": imagined, "more": 0, **changes})
    drawer = panel.Panel("task", 10, "memory m", np.array([1, 2]), np.zeros(1, np.float32))
    return drawer.beside(np.zeros((100, 60, 3), np.uint8), moment)


def test_only_new_views_have_a_bright_frame():
    assert has(frame_of(new=True), panel.NEW)
    assert not has(frame_of(new=False), panel.NEW)


def test_many_predictions_and_none_at_all_can_be_drawn_too():
    one = panel.Imagined("forward 2", np.full((7, 7, 3), 255, np.uint8), counted=False, new=False)
    assert frame_of(new=False, imagined=[one] * 40).shape == frame_of(new=False, imagined=None).shape


def test_a_view_is_drawn_as_it_lies_the_agent_at_the_bottom():
    view = np.zeros((7, 7, 3), np.uint8)
    view[0, 0], view[6, 2], view[3, 6] = (cells.GOAL, 1, 0), (cells.BALL, cells.BLUE, 0), (cells.EMPTY, 0, 0)
    view[2, 3] = (cells.FLOOR, cells.YELLOW, 0)
    drawn = np.asarray(panel.view_picture(view, 12))

    def middle(x: int, y: int) -> tuple[int, ...]:
        return tuple(drawn[y * 12 + 7, x * 12 + 6].tolist())

    assert middle(0, 0) == panel.COLOURS[cells.GREEN]
    assert middle(6, 2) == panel.COLOURS[cells.BLUE]
    assert middle(3, 6) == panel.COLOURS[cells.RED]
    assert middle(1, 1) == panel.UNSEEN
    assert middle(2, 3) == panel.COLOURS[cells.YELLOW]
