"""Gymnasium's vector environments as a source of transitions: both true ends of every step, in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gobi.envs import host
from gobi.envs.host import Host
from gobi.errors import GobiError

gymnasium = pytest.importorskip("gymnasium")

MODES = list(gymnasium.vector.AutoresetMode)


class Corridor(gymnasium.Env):
    """Shows how many steps were made and which episode this is; an episode ends after `length` of them."""

    def __init__(self, length: int = 3, space: Any = None, wrong: float | None = None):
        self.observation_space = gymnasium.spaces.Box(0, 255, (2,), np.float32)
        self.action_space = space or gymnasium.spaces.Discrete(2)
        self.length, self.wrong, self.episode = length, wrong, -1
        self.done: list[Any] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.time = self.episode + 1, 0
        return self._seen(), {}

    def step(self, action):
        self.time += 1
        self.done.append(action)
        over = self.time == self.length
        reward = self.wrong if self.wrong is not None and self.time == 2 else float(self.time)
        solved = {"is_success": self.episode % 2 == 0} if over else {}
        # Every second episode runs out of time.
        return self._seen(), reward, over and self.episode % 2 == 0, over and self.episode % 2 == 1, solved

    def _seen(self):
        return np.array([self.time, self.episode], np.float32)


def corridors(mode: Any, lengths: tuple[int, ...] = (3, 5), **options: Any) -> Host:
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda length=length: Corridor(length, **options) for length in lengths], autoreset_mode=mode
    )
    return Host(envs, "gym/Corridor")


def seen(row: np.ndarray) -> tuple[int, int]:
    """Time and episode, from numbers scaled to [-1, 1]."""
    time, episode = np.rint((row + 1) / 2 * 255).astype(int)
    return int(time), int(episode)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_step_never_joins_two_episodes(mode):
    lanes = corridors(mode)
    lanes.reset([1, 2])
    ends = 0
    for _ in range(20):
        before = lanes.observation
        step = lanes.step(np.zeros(2, np.int64))
        for lane, length in enumerate((3, 5)):
            (then, one), (now, other) = seen(step.before[lane]), seen(step.after[lane])
            assert one == other
            if step.real[lane]:
                assert seen(before[lane]) == (then, one)
                assert now == then + 1
                assert step.reward[lane] == now
                assert step.done[lane] == (now == length)
                assert step.truncated[lane] == (now == length and one % 2 == 1)
            else:
                # A lane that was only reset: an episode of its own, of nothing.
                assert (then, now, step.reward[lane]) == (0, 0, 0)
                assert step.terminated[lane]
            assert lanes.first[lane] == (seen(lanes.observation[lane])[0] == 0)
        ends += int((step.done & step.real).sum())
    assert ends >= 8
    only_reset = mode == gymnasium.vector.AutoresetMode.NEXT_STEP
    assert ends < 10 if only_reset else ends == 10


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_success_is_told_at_the_end_of_an_episode(mode):
    lanes = corridors(mode, (2, 9))
    lanes.reset([1, 2])
    told = [lanes.step(np.zeros(2, np.int64)).success for _ in range(6)]
    ends = [row[0] for row in told if not np.isnan(row[0])]
    assert ends[:2] == [1.0, 0.0]
    assert all(np.isnan(row[1]) for row in told)


def test_a_reward_that_is_no_number_names_the_lane_and_the_step():
    lanes = corridors(MODES[0], wrong=float("nan"))
    lanes.reset([1, 2])
    lanes.step(np.zeros(2, np.int64))
    with pytest.raises(GobiError, match="environment 0: the reward is nan at its step 2"):
        lanes.step(np.zeros(2, np.int64))


def test_the_same_seeds_begin_the_same_episodes():
    first, second = host.make("gym/CartPole-v1", 3), host.make("gym/CartPole-v1", 3)
    seeds = host.seeds_of(4, count=3)
    np.testing.assert_array_equal(first.reset(seeds), second.reset(seeds))
    for _ in range(30):
        one, other = (lanes.step(np.array([0, 1, 0])) for lanes in (first, second))
        np.testing.assert_array_equal(one.after, other.after)
    assert not np.array_equal(first.reset(host.seeds_of(5, count=3)), second.reset(seeds))
    assert first.spec.max_steps == 500


SPACES = gymnasium.spaces


@pytest.mark.parametrize(
    ("space", "choice", "done"),
    [
        (SPACES.Discrete(3, start=5), [0, 2], [5, 7]),
        (SPACES.MultiDiscrete([2, 3]), [1, 5], [[0, 1], [1, 2]]),
        (SPACES.MultiDiscrete([2, 3], start=[1, 1]), [0, 4], [[1, 1], [2, 2]]),
        (SPACES.MultiBinary(2), [2, 3], [[1, 0], [1, 1]]),
        (SPACES.MultiDiscrete([300, 2]), [[-1.0, 1.0], [9.0, -9.0]], [[0, 1], [299, 0]]),
        (SPACES.Box(-2, 6, (1,)), [[0.0], [-3.0]], [[2.0], [-2.0]]),
        (SPACES.Box(-np.inf, np.inf, (1,)), [[0.5], [-3.0]], [[0.5], [-3.0]]),
    ],
    ids=str,
)
def test_choices_become_actions_of_the_space_and_are_read_back(space, choice, done):
    lanes = corridors(MODES[0], (3, 3), space=space)
    lanes.reset([1, 2])
    choice = np.array(choice, np.float32 if lanes.spec.action_size else np.int32)
    step = lanes.step(choice)
    given = [env.done[-1] for env in lanes.envs.envs]
    np.testing.assert_allclose(given, done)
    assert all(space.contains(action) for action in given)
    if not lanes.spec.action_size:
        np.testing.assert_array_equal(step.action, choice)
    else:
        assert np.abs(step.action).max() <= 1


def test_an_unknown_task_is_told_in_one_line():
    with pytest.raises(GobiError, match="Gymnasium cannot make the task 'CartPol-v1'") as caught:
        host.make("gym/CartPol-v1", 2)
    assert "\n" not in str(caught.value)


def test_names_are_told_apart_and_shortened():
    assert host.is_host("gym/CartPole-v1")
    assert not host.is_host("MiniGrid-Empty-5x5-v0")
    assert host.short("gym/ALE/Pong-v5") == "ALE-Pong"
    assert host.short("gym/CartPole-v1") == "CartPole"
