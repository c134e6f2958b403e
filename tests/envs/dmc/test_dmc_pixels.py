"""Control tasks from pixels, beside dm_control's own pictures: few of them, since drawing is slow."""

from __future__ import annotations

import numpy as np
import pytest

from gobi.envs.dmc import TASKS, Control, Worker
from gobi.errors import GobiError

pytestmark = pytest.mark.usefixtures("pixels")


def actions(env: Control | Worker, count: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (count, env.spec.action_size)).astype(np.float32)


@pytest.mark.parametrize("name", TASKS)
def test_an_observation_is_the_picture_of_dm_controls_camera_0(suite, name):
    ours, task = Control(name, seed=7), TASKS[name]
    reference = suite.load(task.domain, task.task, task_kwargs={"random": 7})
    reference.reset()
    seen, expected = [ours.reset()], [reference.physics.render(100, 100, camera_id=0)]
    for action in actions(ours, 2):
        seen.append(ours.step(action).observation)
        reference.step(action), reference.step(action)
        expected.append(reference.physics.render(100, 100, camera_id=0))
    for one, other in zip(seen, expected, strict=True):
        assert (one.shape, one.dtype) == (ours.spec.observation_shape, np.uint8) == ((100, 100, 3), np.uint8)
        assert np.array_equal(one, other)
    # A camera that draws into one memory would make all three the last.
    assert not np.array_equal(seen[0], seen[2])
    ours.close()


def test_rewards_and_ends_do_not_depend_on_what_is_observed():
    drawn, felt = (Control("hopper_hop", 1, kind, repeat=250) for kind in ("pixels", "state"))
    drawn.reset(), felt.reset()
    for action in actions(drawn, 4):
        one, other = drawn.step(action), felt.step(action)
        assert one[1:] == other[1:]
    assert one.truncated
    drawn.close()


def test_there_are_pictures_for_films_of_any_size_and_from_the_state_too():
    env = Control("pendulum_swingup", 0, "state")
    env.reset()
    film = env.frame(240)
    assert film.shape == (240, 240, 3)
    assert np.array_equal(env.frame(100), Control("pendulum_swingup", 0).reset())
    with pytest.raises(GobiError, match=r"pendulum_swingup: Image width 5000 > framebuffer width"):
        env.frame(5000)


def test_a_saved_picture_is_seen_again_and_so_is_what_follows():
    env, other = Control("cheetah_run_sparse", 1), Control("cheetah_run_sparse", 2)
    env.reset(), other.reset()
    chosen = actions(env, 3)
    last = env.step(chosen[0]).observation
    other.load(env.save())
    assert np.array_equal(other.frame(), last)
    assert np.array_equal(env.step(chosen[1]).observation, other.step(chosen[1]).observation)


def test_a_terrain_that_was_drawn_for_the_episode_is_loaded_and_seen():
    env, other = Control("quadruped_escape", 1, size=32), Control("quadruped_escape", 2, size=32)
    assert not np.array_equal(env.reset(), other.reset())
    other.load(env.save())
    assert np.array_equal(env.frame(), other.frame())


def test_a_worker_shows_the_same_pictures():
    plain = Control("walker_run_sparse", 4)
    with Worker("walker_run_sparse", 4) as worker:
        assert worker.spec == plain.spec
        assert np.array_equal(worker.reset(), plain.reset())
        for action in actions(plain, 4):
            worker.send(action)
            expected, step = plain.step(action), worker.receive()
            assert np.array_equal(step.observation, expected.observation)
            assert step[1:] == expected[1:]
        assert np.array_equal(worker.frame(64), plain.frame(64))
