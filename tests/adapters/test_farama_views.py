"""Panoramas and full grids of Farama's own environments are those of ours, and cost the game nothing."""

from __future__ import annotations

import numpy as np
import pytest

from gobi.adapters.farama import Views
from gobi.envs.minigrid import cells, oracle
from gobi.errors import GobiError

gymnasium = pytest.importorskip("gymnasium")
wrappers = pytest.importorskip("minigrid.wrappers")

TASKS = (
    "MiniGrid-Empty-8x8-v0",
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-MultiRoom-N6-v0",
    "MiniGrid-KeyCorridorS4R3-v0",
    "MiniGrid-ObstructedMaze-1Q-v1",
)


def actions(count: int, seed: int = 0) -> list[int]:
    """Random play that walks and takes things up more often than it drops them."""
    return [int(action) for action in np.random.default_rng(seed).choice([0, 1, 2, 2, 3, 4, 5, 5], count)]


@pytest.mark.parametrize("task", TASKS)
def test_the_views_are_those_of_our_environment(task, compiled):
    env = Views(gymnasium.make(task))
    _, info = env.reset(seed=3)
    for action in actions(60):
        state = oracle.from_farama(env)
        np.testing.assert_array_equal(info["panorama"], compiled(task, "panorama")(state))
        np.testing.assert_array_equal(info["full_grid"], compiled(task, "full_grid")(state))
        assert info["panorama"].dtype == info["full_grid"].dtype == np.uint8
        *_, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()


@pytest.mark.parametrize("task", TASKS)
def test_the_views_are_those_of_farama(task):
    env = Views(gymnasium.make(task))
    _, info = env.reset(seed=4)
    for action in actions(200, seed=1):
        np.testing.assert_array_equal(info["panorama"], oracle.farama_panorama(env))
        np.testing.assert_array_equal(info["full_grid"], oracle.farama_full_grid(env))
        *_, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()


@pytest.mark.parametrize("size", [3, 5, 9])
def test_agents_that_see_less_or_more_have_panoramas_of_their_size(size):
    env = Views(gymnasium.make("MiniGrid-KeyCorridorS3R3-v0", agent_view_size=size), views=("panorama",))
    observation, info = env.reset(seed=5)
    for action in actions(50):
        assert info["panorama"].shape == (4, size, size, 3)
        np.testing.assert_array_equal(info["panorama"][3], observation["image"])
        observation, *_, info = env.step(action)


def test_what_is_carried_is_at_the_agents_feet_in_all_four_views():
    env = Views(gymnasium.make("MiniGrid-DoorKey-5x5-v0"))
    env.reset(seed=0)
    env.unwrapped.carrying = oracle.unpacked(cells.pack(cells.KEY, cells.YELLOW), (1, 1))
    *_, info = env.step(6)
    np.testing.assert_array_equal(info["panorama"][:, 3, 6], [[cells.KEY, cells.YELLOW, 0]] * 4)


@pytest.mark.parametrize("task", TASKS)
def test_the_environment_plays_on_as_if_nobody_had_looked(task):
    def played(env):
        seen = [env.reset(seed=7)[0]["image"]]
        for action in actions(150, seed=2):
            observation, reward, terminated, truncated, _ = env.step(action)
            seen += [observation["image"], reward, terminated, truncated]
            if terminated or truncated:
                seen.append(env.reset()[0]["image"])
        return seen, env.unwrapped.np_random.bit_generator.state, env.unwrapped.agent_dir

    bare, looked_at = played(gymnasium.make(task)), played(Views(gymnasium.make(task)))
    for one, other in zip(bare[0], looked_at[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert bare[1:] == looked_at[1:]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_vector_environments_hand_the_views_on(mode):
    def made():
        return Views(wrappers.ImgObsWrapper(gymnasium.make("MiniGrid-DoorKey-5x5-v0", max_steps=5)))

    env = gymnasium.vector.SyncVectorEnv([made, made], autoreset_mode=mode)
    assert env.metadata["gobi_views"] == ("panorama", "full_grid")
    observations, infos = env.reset(seed=0)
    for _ in range(5):
        np.testing.assert_array_equal(infos["panorama"][:, 3], observations)
        before = [oracle.farama_panorama(one) for one in env.envs]
        observations, *_, infos = env.step(np.array([6, 6]))
    if mode == "SameStep":
        np.testing.assert_array_equal(infos["final_info"]["panorama"], before)
    np.testing.assert_array_equal(infos["panorama"][:, 3], observations)
    assert infos["full_grid"].shape == (2, 5, 5, 3)


def test_only_what_was_asked_for_is_shown():
    env = Views(gymnasium.make("MiniGrid-Empty-5x5-v0"), views=("full_grid",))
    assert set(env.reset(seed=0)[1]) == {"full_grid"}


def test_other_environments_and_unknown_views_are_refused():
    with pytest.raises(GobiError, match="not one of Farama's MiniGrid"):
        Views(gymnasium.make("CartPole-v1"))
    with pytest.raises(GobiError, match="did you mean panorama"):
        Views(gymnasium.make("MiniGrid-Empty-5x5-v0"), views=("panoramas",))
