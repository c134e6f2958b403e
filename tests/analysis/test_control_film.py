"""Films of control: the episode that evaluation plays, beside it what training would have stored for it."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from PIL import Image
from workers_here import Here

from gobi.analysis import control_bonus, control_film, control_panel
from gobi.analysis.panel import NEW
from gobi.envs.dmc import Step
from gobi.rewards.control import Reachability, Replayed
from gobi.training import run
from gobi.training.control import assembly, recipes, seat, trained
from gobi.training.control.changing import Held
from gobi.training.control.parcel import packed
from gobi.training.control.record import ControlRecord
from gobi.worlds.rssm import RSSM

SEEDS = (3, 7)
STEPS = 10
TINY: dict[str, Any] = {
    "action_repeat": 1000 // STEPS,
    "frames": 2000,
    "batch": 4,
    "hidden": 8,
    "channels": 4,
    "crop": 20,
    "image_size": 32,
    "capacity": 40,
    "steps": 1,
    "imagined_actions": 2,
    "world_size": "compact",
    "precision": "float32",
    "world_precision": "float32",
    "world_length": 4,
}
GOBI = {
    "reward": "gobi",
    "reward_options": "untrained=imagine,bits=8",
    "lifelong_options": "form=log",
    "steps": 2,
}
STATE = {
    "task": "cartpole_balance",
    "observations": "state",
    "channels": 32,
    "crop": 84,
    "world_size": "paper",
    "world_precision": "bfloat16",
}
"""What pictures alone have stays as it is."""


@pytest.fixture(autouse=True, scope="module")
def _workers_here(pixels):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "Worker", Here)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


def lived_through(program: seat.Program, one: seat.Seat, observations, actions, rewards, ends: bool):
    """A seat after an episode, or after the first part of one."""
    one = program.begin(program.see_first(one, observations[0]), observations[0])
    for number, (action, reward) in enumerate(zip(actions, rewards, strict=True)):
        last, left = ends and number == len(actions) - 1, one.view
        reached = packed(Step(observations[number + 1], float(reward), False, last))
        one = program.see(one, reached)
        one = program.collect(one, left, action, reached)
    return one


def dreaming(program: seat.Program, one: seat.Seat) -> seat.Seat:
    """A seat whose world model, if it has one, imagines vividly: with other draws there are other codes."""
    world = program.world(one)
    if world is None:
        return one
    # The last layer of a world of states is zero at first.
    more = 0.0 if isinstance(program.model, RSSM) else 0.1
    network = jax.tree.map(lambda weights: 4 * weights + more, world.network)

    def its_network(reward: Any) -> Any:
        return (reward[0] if isinstance(program.reward, Replayed) else reward).world.network

    return dataclasses.replace(one, reward=Held.of(eqx.tree_at(its_network, one.reward.tree, network)))


def started(recipe, seed: int, ends: bool = False) -> tuple[seat.Program, seat.Seat, Any]:
    """An agent that has learned nothing yet, in the middle of its first episode, or at its early end."""
    with assembly.worker(recipe, seed) as worker:
        program = seat.program(recipe, worker.spec)
        actions = np.full((3, worker.spec.action_size), 0.5, np.float32)
        seen = [worker.reset(), *(worker.step(action).observation for action in actions)]
        one = dreaming(program, program.start(seed))
        one = lived_through(program, one, seen, actions, np.ones(3), ends)
        return program, one, worker.save()


def made(place: Path, task: str = "pendulum_swingup", **settings: Any) -> trained.ControlTrained:
    """A run that was stopped in the middle of an episode."""
    path = place / "-".join([task, *(f"{name}_{value}" for name, value in settings.items())])
    if not path.exists():
        plan = run.Plan(recipes.recipe(task, **TINY | settings), SEEDS)
        run.begin(run.Folder(path), plan)
        record = ControlRecord(run.Folder(path), plan, None)
        all_started = [started(plan.recipe, seed) for seed in SEEDS]
        record.open(all_started[0][0], all_started[0][1])
        record.save([one[1] for one in all_started], [one[2] for one in all_started], finished=True)
        record.close()
    return trained.load(path)


@functools.cache
def watched(agents: trained.ControlTrained, seed: int = 7, level: int = 1):
    played = control_film.episode(agents, seed, level, most=4)
    return played, control_film.bonus(agents, seed, played)


def after(agents: trained.ControlTrained, seed: int, played: control_film.Episode) -> seat.Seat:
    """The agent after it has collected the same episode in training, next to what it had."""
    program, one, _ = started(agents.recipe, seed, ends=True)
    return seat.whole(lived_through(program, one, played.observations, played.actions, played.rewards, True))


# The episode


def test_the_greedy_episode_is_the_one_that_evaluation_plays(place):
    agents = made(place, reward="none", **STATE)
    scores = trained.play(agents, 3)
    for seed, its in zip(SEEDS, scores, strict=True):
        played = control_film.episode(agents, seed, 2, greedy=True, most=1)
        assert played.rewards.sum() == pytest.approx(its.returns[2])
        assert len(played.actions) * agents.recipe.action_repeat == its.lengths[2]
    assert len({float(one.returns[2]) for one in scores}) == 2


def test_sampled_actions_differ_from_greedy_ones_and_are_the_same_every_time(place):
    agents = made(place, reward="none", **STATE)
    one, again = (control_film.episode(agents, 3, 0, most=1) for _ in range(2))
    np.testing.assert_array_equal(one.actions, again.actions)
    assert not np.array_equal(one.actions, control_film.episode(agents, 3, 0, greedy=True, most=1).actions)


@pytest.mark.parametrize(
    ("most", "shown"),
    [(1, (0,)), (2, (0, 10)), (4, (0, 4, 8, 10)), (11, tuple(range(11))), (500, tuple(range(11)))],
)
def test_no_more_pictures_than_asked_for_from_the_first_state_to_the_last(place, most, shown):
    played = control_film.episode(made(place, reward="none", **STATE), 3, 0, most=most)
    assert played.shown == shown
    assert played.pictures.shape == (len(shown), control_panel.SIDE, control_panel.SIDE, 3)
    assert most == 1 or not np.array_equal(played.pictures[0], played.pictures[-1])


# What it earned


@pytest.mark.parametrize(
    "settings",
    [
        GOBI,
        {"reward": "r1", "reward_options": "credit=departure,untrained=imagine,bits=8"},
        {**GOBI, **STATE},
        {**GOBI, "steps": 0},
    ],
    ids=["gobi", "departure", "gobi from the state", "gobi without imagination"],
)
def test_the_growth_is_what_training_would_have_stored_and_the_number_of_new_codes(place, settings):
    agents = made(place, **settings)
    played, told = watched(agents)
    one, imagined = after(agents, 7, played), told.imagination
    # Four frames of the episode that the checkpoint interrupts are there already.
    np.testing.assert_array_equal(told.factors["growth"], np.asarray(one.replay.stored)[4 : 4 + STEPS])
    grown = np.diff(imagined.sizes, prepend=0)
    arrival = settings["reward"] == "gobi"
    np.testing.assert_array_equal(told.factors["growth"], grown[1:] if arrival else grown[:-1])
    np.testing.assert_array_equal(grown, imagined.own_new + imagined.new.sum(axis=1) + imagined.more)
    assert len(set(grown.tolist())) > (2 if agents.recipe.steps else 1)
    assert imagined.counted.tolist() == [True] * STEPS + [arrival]
    drawn = "observations" not in settings and agents.recipe.steps > 0
    assert getattr(imagined.frames, "shape", None) == ((STEPS + 1, 2, 64, 64, 3) if drawn else None)
    assert (imagined.more > 0).any() == (agents.recipe.steps > 1)


@pytest.mark.parametrize(("counts", "sizes"), [(True, [3, 6, 9]), (False, [1, 2, 3])])
def test_imagined_frames_are_remembered_only_where_they_count(counts, sizes):
    world: Any = SimpleNamespace(actions=2)
    codes = np.stack([np.arange(12), np.zeros(12)], axis=-1).reshape(2, 2, 3, 2).astype(np.uint32)
    pictures = np.zeros((2, 2, 64, 64, 3), np.uint8)
    steps = control_bonus.Lived(np.zeros(2, np.float32), pictures, np.stack([pictures] * 2, axis=2), codes)
    told = control_bonus.by_states(Reachability(world), steps, counts)
    assert told.sizes.tolist() == sizes
    assert told.counted.tolist() == [counts] * 3
    assert (told.new == counts).all()


def test_the_lifelong_factor_is_that_of_a_replay_that_holds_the_episode(place):
    agents = made(place, **GOBI)
    played, told = watched(agents)
    one = after(agents, 7, played)
    program = seat.program(agents.recipe, played.spec)
    batch = one.replay.sample(jax.random.key(0), 64, agents.recipe.stack)
    _, bonus, _ = program.reward.at_sampling(one.reward, jax.random.key(0), batch.stored, batch)
    steps = np.asarray(batch.index) - 4
    its = steps >= 0
    np.testing.assert_allclose(told.paid[steps[its]], np.asarray(bonus)[its], rtol=1e-4)
    assert set(range(STEPS)) <= set(steps.tolist())
    replayed = control_bonus.batch(played, np.arange(4, 4 + STEPS), steps[its], agents.recipe.stack)
    for name in ("index", "frames", "action", "reward", "terminated"):
        np.testing.assert_array_equal(getattr(replayed, name), np.asarray(getattr(batch, name))[its])
    np.testing.assert_allclose(told.paid, told.factors["growth"] * told.factors["re3"])


def test_a_product_that_is_normalised_is_told_with_what_it_is_divided_by(place):
    agents = made(place, **GOBI, **STATE, normalised="product")
    _, told = watched(agents)
    assert list(told.factors) == ["growth", "re3", "size"]
    kept = control_bonus.kept(agents, 7, "reward", started(agents.recipe, 7)[0].shapes().reward)
    np.testing.assert_allclose(told.factors["size"], 1 / float(kept[2].deviation))
    product = told.factors["growth"] * told.factors["re3"] * told.factors["size"]
    np.testing.assert_allclose(told.paid, product, rtol=1e-6)
    assert told.paid.any()


def test_a_reward_that_does_not_imagine_tells_what_it_pays(place):
    _, told = watched(made(place, reward="icm", reward_options="hidden=8", **STATE))
    assert list(told.factors) == ["icm"]
    assert told.imagination is None
    assert (told.paid > 0).all()
    assert len(set(told.paid.tolist())) == STEPS


def test_without_a_reward_there_is_nothing_to_tell(place):
    _, told = watched(made(place, reward="none", **STATE))
    assert (told.factors, told.imagination, told.paid.any()) == ({}, None, False)


# The pictures


def test_the_pictures_are_all_of_one_size(place):
    for settings in (
        GOBI,
        {"reward": "none", **STATE},
        {**GOBI, **STATE},
    ):
        played, told = watched(made(place, **settings))
        shown = control_film.frames(1, played, told)
        assert [one.shape for one in shown] == [control_panel.SHAPE] * 4


def drawn(new: bool, counted: bool = True, count: int = 5) -> np.ndarray:
    frames = np.full((count, 64, 64, 3), 90, np.uint8)
    imagined = control_panel.Imagined(frames[0], frames, np.array([new] * count), new, counted, more=0)
    action = np.array([-1, 0.5], np.float32)
    moment = control_panel.Moment(1, action, 0.0, 0.0, {"growth": 0.0}, frames[0], imagined)
    panel = control_panel.Panel("task", 10, "memory m", np.array([1, 2]), np.zeros(1, np.float32))
    return panel.beside(np.zeros((64, 64, 3), np.uint8), moment)


def has(picture: np.ndarray, colour: tuple[int, ...]) -> bool:
    return bool(np.all(picture[control_panel.FRAMES_TOP :, control_panel.LEFT :] == colour, axis=-1).any())


def test_the_frame_that_is_seen_is_framed_brightly_where_it_is_new():
    below = slice(control_panel.MARGIN + control_panel.SIDE, None)
    for new in (True, False):
        corner = drawn(new)[below, : control_panel.LEFT]
        assert np.all(corner == NEW, axis=-1).any() == new


def test_only_new_frames_are_framed_brightly_and_those_that_do_not_count_are_dim():
    assert has(drawn(new=True), NEW)
    assert not has(drawn(new=False), NEW)
    assert has(drawn(new=False), (90, 90, 90))
    assert not has(drawn(new=False, counted=False), (90, 90, 90))


@pytest.mark.parametrize("count", [1, 3, 5, 10, 20, 60])
def test_any_number_of_imagined_frames_fits(count):
    size = control_panel.tile_size(count) + control_panel.BETWEEN
    across = control_panel.WIDTH // size
    assert -(-count // across) * size <= control_panel.FRAMES_HEIGHT + control_panel.BETWEEN
    assert drawn(new=True, count=count).shape == control_panel.SHAPE


# The commands


def test_watch_films_a_control_run_and_heatmap_refuses_it(place, gobi_command, tmp_path):
    folder = str(made(place, **GOBI).source.parents[1])
    words = ("watch", folder, "--seed", "7", "--level", "1", "--max-frames", "4")
    code, out, err = gobi_command(*words, "--out", "film.gif", "--fps", "20")
    assert (code, err) == (0, "")
    assert "dmc/pendulum_swingup, seed 7 after 0 frames, sampled actions" in out
    assert "10 steps, return 0.0; pictures of 4 of its states" in out
    assert "bonus gobi: " in out
    assert "memory: " in out
    with Image.open(tmp_path / "film.gif") as gif:
        assert (gif.n_frames, gif.size) == (4, control_panel.SHAPE[1::-1])

    code, out, err = gobi_command(*words, "--out", "film.gif")
    assert (code, err.count("\n"), "--overwrite" in err) == (1, 1, True)
    code, out, err = gobi_command("watch", folder, "--seed", "8", "--out", "other.gif")
    assert (code, err.count("\n"), "no agent of seed 8" in err) == (1, 1, True)
    code, out, err = gobi_command("heatmap", folder)
    assert (code, err.count("\n")) == (1, 1)
    assert "a heatmap shows the cells of a grid, and dmc/pendulum_swingup has none" in err
