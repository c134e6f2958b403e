"""Control tasks from the state, beside dm_control itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gobi.envs.dmc import TASKS, Control, Step, find
from gobi.envs.dmc.environment import check
from gobi.envs.dmc.tasks import ABOUT, MAX_STEPS
from gobi.errors import GobiError

pytestmark = pytest.mark.usefixtures("suite")


@pytest.fixture
def theirs(suite) -> Callable[[str, int], Any]:
    """dm_control's own environment of one of our tasks, without our threshold."""

    def loaded(name: str, seed: int) -> Any:
        task = find(name)
        return suite.load(task.domain, task.task, task_kwargs={"random": seed})

    return loaded


def vector(observation) -> np.ndarray:
    return np.concatenate([np.atleast_1d(part).ravel() for part in observation.values()]).astype(np.float32)


def actions(env: Control, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, env.spec.action_size)).astype(np.float32)


def same(one: Step, other: Step) -> bool:
    return np.array_equal(one.observation, other.observation) and one[1:] == other[1:]


def push(physics, speed: float) -> None:
    """Lets the whole body move forwards."""
    physics.named.data.qvel["rootx"] = speed


@pytest.mark.parametrize("name", TASKS)
def test_an_episode_is_dm_controls_with_every_action_held_twice_and_the_rewards_summed(theirs, name):
    ours, reference = Control(name, seed=7, observations="state"), theirs(name, 7)
    assert np.array_equal(ours.reset(), vector(reference.reset().observation))
    chosen = actions(ours, 500)
    for number, action in enumerate(chosen, start=1):
        step = ours.step(action)
        parts = [reference.step(action), reference.step(action)]
        rewards = [part.reward for part in parts]
        if TASKS[name].threshold:
            rewards = [reward if reward >= 0.25 else 0.0 for reward in rewards]
        assert step.reward == sum(rewards)
        assert np.array_equal(step.observation, vector(parts[-1].observation))
        assert (step.terminated, step.truncated) == (False, number == 500)
        assert parts[-1].last() == step.done
    assert ours.spec.max_steps == MAX_STEPS == 500
    assert ours.spec.action_size == ABOUT[name].actions


@pytest.mark.parametrize(
    ("name", "speeds"), [("dmc/cheetah_run_sparse", (1, 4)), ("dmc/walker_run_sparse", (0, 8))]
)
def test_rewards_below_a_quarter_are_nothing_before_they_are_summed(theirs, name, speeds):
    ours, reference = Control(name, seed=3, observations="state"), theirs(name, 3)
    ours.reset(), reference.reset()
    mixed = kept = dropped = 0
    random = np.random.default_rng(1)
    for action in actions(ours, 120):
        speed = random.uniform(*speeds)
        push(ours._env.physics, speed), push(reference.physics, speed)
        step, rewards = ours.step(action), [reference.step(action).reward for _ in range(2)]
        assert step.reward == sum(reward for reward in rewards if reward >= 0.25)
        above = [reward >= 0.25 for reward in rewards]
        kept, dropped = kept + all(above), dropped + (not any(above) and sum(rewards) > 0)
        # A threshold on the sum would keep both of these.
        mixed += any(above) and not all(above) and min(rewards) > 0
    assert min(mixed, kept, dropped) > 0


def test_a_threshold_of_ones_own_works_on_any_task():
    sparse, dense = (Control(name, 0, "state") for name in ("cartpole_balance@0.8", "cartpole_balance"))
    sparse.reset(), dense.reset()
    pairs = [(sparse.step(action).reward, dense.step(action).reward) for action in actions(dense, 60)]
    assert any(one == other > 1.6 for one, other in pairs)
    assert any(one == 0 < other for one, other in pairs)


@pytest.mark.parametrize(("repeat", "steps"), [(1, 1000), (3, 334)])
def test_the_last_repeat_stops_at_the_episodes_end(theirs, repeat, steps):
    ours, reference = Control("cartpole_balance", 5, "state", repeat=repeat), theirs("cartpole_balance", 5)
    ours.reset(), reference.reset()
    assert ours.spec.max_steps == steps
    for number, action in enumerate(actions(ours, steps), start=1):
        step, rewards = ours.step(action), []
        for _ in range(repeat):
            part = reference.step(action)
            rewards.append(part.reward)
            if part.last():
                break
        assert step.reward == pytest.approx(sum(rewards), abs=1e-12)
        assert step.truncated == part.last() == (number == steps)
    assert len(rewards) == 1


def test_an_episode_that_the_task_ends_is_terminated_and_not_out_of_time():
    env = Control("lqr_lqr_2_1", 0, "state")
    env.reset()
    # Its task is over once everything stands still in the middle.
    env._env.physics.data.qpos[:] = 0
    env._env.physics.data.qvel[:] = 0
    env._env.physics.forward()
    step = env.step(np.zeros(1, np.float32))
    assert (step.terminated, step.truncated, step.done) == (True, False, True)


def test_a_task_without_a_time_limit_gets_one():
    env = Control("lqr_lqr_2_1", 0, "state", repeat=10)
    env.reset()
    steps = [env.step(action) for action in actions(env, 100)]
    assert [step.truncated for step in steps] == [False] * 99 + [True]


def test_no_episode_begins_by_itself():
    env = Control("pendulum_swingup", 0, "state", repeat=500)
    action = np.zeros(1, np.float32)
    with pytest.raises(GobiError, match="call reset"):
        env.step(action)
    env.reset()
    assert [env.step(action).done for _ in range(2)] == [False, True]
    with pytest.raises(GobiError, match="call reset"):
        env.step(action)
    env.reset()
    assert not env.step(action).done


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(3, np.float32), r"shape \(4,\), got \(3,\)"),
        (np.zeros((1, 4), np.float32), r"shape \(4,\), got \(1, 4\)"),
        (np.float32([0, 0, 0, 1.1]), r"in \[-1, 1\]"),
        (np.float32([0, 0, 0, np.nan]), r"in \[-1, 1\]"),
    ],
)
def test_an_action_of_the_wrong_shape_or_out_of_bounds_is_refused(action, message):
    env = Control("hopper_hop", 0, "state")
    env.reset()
    with pytest.raises(GobiError, match=message):
        env.step(action)


def test_actions_are_stretched_to_the_tasks_own_bounds(theirs):
    wrapper = pytest.importorskip("dm_control.suite.wrappers.action_scale")
    ours = Control("quadruped_walk", 2, "state")
    reference = wrapper.Wrapper(theirs("quadruped_walk", 2), -1.0, 1.0)
    assert reference._env.action_spec().minimum.min() != -1 or reference._env.action_spec().maximum.max() != 1
    ours.reset(), reference.reset()
    for action in actions(ours, 3):
        step = ours.step(action)
        for _ in range(2):
            part = reference.step(action.astype(np.float64))
        np.testing.assert_allclose(step.observation, vector(part.observation), rtol=1e-5, atol=1e-5)


def test_the_seed_decides_all_starts():
    def starts(seed: int) -> list[list[float]]:
        env = Control("hopper_hop", seed, "state")
        return [env.reset().tolist() for _ in range(3)]

    assert starts(1) == starts(1)
    assert starts(1) != starts(2)
    assert len({str(start) for start in starts(1)}) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "a seed is"),
        ({"observations": "smell"}, "'pixels' or 'state'"),
        ({"repeat": 0}, "at least 1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(options, message):
    sensible = {"task": "hopper_hop", "seed": 0, "observations": "state", "repeat": 2, "size": 100}
    with pytest.raises(GobiError, match=message):
        check(**{**sensible, **options})


def test_physics_that_break_down_are_named():
    env = Control("hopper_hop", 0, "state")
    env.reset()
    env._env.physics.data.qvel[:] = 1e30
    with pytest.raises(GobiError, match=r"hopper_hop: the physics broke down"):
        env.step(np.zeros(4, np.float32))
