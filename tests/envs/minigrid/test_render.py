"""Pictures are Farama's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gobi
from gobi.analysis import pictures
from gobi.envs.minigrid import oracle, policies, render, rules

TO_THE_GOAL = [rules.FORWARD, rules.FORWARD, rules.RIGHT, rules.FORWARD, rules.FORWARD]


def film(name, actions):
    """The frames of an episode on Farama's level 0 of a task."""
    env = gobi.make(name)
    start = jax.tree.map(lambda array: jnp.asarray(array[0]), oracle.farama_levels(env, seed=0, count=1))
    return render.episode(env, start, actions)


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
    pictures.save(path, frames)
    assert path.stat().st_size < 1_000_000
