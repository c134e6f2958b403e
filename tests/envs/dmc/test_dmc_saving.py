"""A control task that was saved goes on bit for bit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from gobi.envs.dmc import Control
from gobi.errors import GobiError

pytestmark = pytest.mark.usefixtures("suite")


def played(env: Control, steps: int, seed: int) -> list[np.ndarray]:
    """Plays on, over the ends of episodes, and returns all that could be noticed."""
    seen = []
    shape = (steps, env.spec.action_size)
    for action in np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32):
        step = env.step(action)
        seen += [step.observation, np.array([step.reward, step.terminated, step.truncated])]
        if step.done:
            seen.append(env.reset())
    return seen


def copied(saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: part.copy() for name, part in saved.items()}


def equal(ones: Iterable[np.ndarray], others: Iterable[np.ndarray]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(ones, others, strict=True))


# The cheetah settles for 200 steps at a reset, the hopper feels its feet, the finger's goal and the point
# mass's joints are drawn into the model.
@pytest.mark.parametrize(
    "task",
    ["cheetah_run_sparse", "hopper_hop", "cartpole_swingup_sparse", "finger_turn_hard", "point_mass_hard"],
)
def test_a_saved_episode_goes_on_bit_for_bit_and_so_do_the_next_ones(task):
    repeat = 20
    env, other = Control(task, 3, "state", repeat=repeat), Control(task, 99, "state", repeat=repeat)
    env.reset()
    played(env, 70, seed=0)
    other.reset()
    other.load(env.save())
    expected, found = played(env, 110, seed=1), played(other, 110, seed=1)
    assert len(expected) == len(found) == 222
    assert equal(expected, found)


@pytest.mark.parametrize("task", ["cartpole_swingup_sparse", "hopper_hop"])
def test_what_was_loaded_is_all_that_was_saved(task):
    env, other = (Control(task, seed, "state") for seed in (1, 2))
    env.reset(), other.reset()
    played(env, 5, seed=0)
    # Normal numbers are drawn in pairs: the second of one waits in the stream.
    env._env.task.random.randn()
    saved = env.save()
    other.load(saved)
    found = other.save()
    assert list(found) == list(saved)
    assert equal(found.values(), saved.values())
    assert np.array_equal(env.reset(), other.reset())


def test_saving_changes_nothing_and_gives_copies():
    env, undisturbed = (Control("walker_run_sparse", 3, "state") for _ in range(2))
    env.reset(), undisturbed.reset()
    saved = env.save()
    kept = copied(saved)
    expected = played(undisturbed, 20, seed=0)
    assert equal(played(env, 20, seed=0), expected)
    assert equal(saved.values(), kept.values())
    env.load(saved)
    assert equal(played(env, 20, seed=0), expected)


@pytest.mark.parametrize("steps", [0, 2])
def test_between_two_episodes_it_can_be_saved_too(steps):
    env, other = (Control("pendulum_swingup", seed, "state", repeat=500) for seed in (1, 2))
    action = np.zeros(1, np.float32)
    if steps:
        env.reset()
    done = [env.step(action).done for _ in range(steps)]
    assert done == [False, True][:steps]
    other.load(env.save())
    with pytest.raises(GobiError, match="call reset"):
        other.step(action)
    assert np.array_equal(env.reset(), other.reset())


def test_what_another_task_or_another_mujoco_saved_is_refused():
    env = Control("pendulum_swingup", 0, "state")
    saved = env.save()
    with pytest.raises(GobiError, match=r"saved by dmc/pendulum_swingup on MuJoCo"):
        Control("hopper_hop", 0, "state").load(saved)
    old = "dmc/pendulum_swingup on MuJoCo 2.0.0"
    with pytest.raises(GobiError, match=r"MuJoCo 2\.0\.0"):
        env.load({**saved, "made_by": np.frombuffer(old.encode(), np.uint8)})
    with pytest.raises(GobiError, match=r"of another model: \d+ bytes, not \d+"):
        env.load({**saved, "model": saved["model"][:-8]})
