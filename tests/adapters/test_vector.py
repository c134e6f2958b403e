"""gobi.vector is a Gymnasium vector environment: it does, step for step, what SyncVectorEnv does."""

from __future__ import annotations

import functools
import sys

import jax
import numpy as np
import pytest

import gobi
from gobi.adapters.play import Play, Table
from gobi.adapters.single import Plain
from gobi.adapters.vector import Vector
from gobi.envs.minigrid import DoorKey, MiniGrid, numbered_levels
from gobi.envs.minigrid.state import nth
from gobi.errors import GobiError

gymnasium = pytest.importorskip("gymnasium")
env_checker = pytest.importorskip("gymnasium.utils.env_checker")

TASK = "MiniGrid-MultiRoom-N2-S4-v0"
"""Random play reaches its goal now and then, and its limit of 40 steps."""
MODES = ("NextStep", "SameStep", "Disabled")
VIEWS = ("panorama", "full_grid")


@functools.cache
def functions(env: MiniGrid):
    """Our pure functions, compiled once for all lanes."""

    def shown(state):
        return env.observe(state), {name: getattr(env, name)(state) for name in VIEWS}

    return jax.jit(env.step), jax.jit(shown)


class OneLane(gymnasium.Env):
    """The plainest environment there is: our pure functions, on levels that several of them share."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(0, 255, (7, 7, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(7)

    def __init__(self, env: MiniGrid, levels):
        self.levels = levels
        self._step, self._shown = functions(env)

    def shown(self):
        observation, views = self._shown(self.state)
        return np.array(observation), {name: np.array(view) for name, view in views.items()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = next(self.levels)
        return self.shown()

    def step(self, action):
        self.state, step = self._step(self.state, np.int32(action))
        observation, info = self.shown()
        return observation, float(step.reward), bool(step.terminated), bool(step.truncated), info


def both(mode: str, num_envs: int = 4, seed: int = 0):
    """Ours, and Gymnasium's own over lanes that take the same levels one after the other."""
    env = gobi.make(TASK)
    levels = jax.device_get(numbered_levels(env, seed, 0, 256))
    shared = (nth(levels, number) for number in range(256))
    theirs = gymnasium.vector.SyncVectorEnv(
        [lambda: OneLane(env, shared)] * num_envs, autoreset_mode=gymnasium.vector.AutoresetMode(mode)
    )
    return gobi.vector(TASK, num_envs, seed=seed, autoreset_mode=mode, views=VIEWS), theirs


def assert_same(ours, theirs, where: str = "") -> None:
    """The same tree of the same arrays: keys, shapes, dtypes and values."""
    assert type(ours) is type(theirs), where
    if isinstance(ours, dict):
        assert set(ours) == set(theirs), where
        for key in ours:
            assert_same(ours[key], theirs[key], f"{where}/{key}")
    elif isinstance(ours, tuple):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{where}/{number}")
    elif isinstance(ours, np.ndarray) and ours.dtype == object:
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, where)
    elif ours is not None:
        assert ours.dtype == theirs.dtype, where
        np.testing.assert_array_equal(ours, theirs, err_msg=where)


def wandering(num_envs: int, seed: int = 0):
    """Random play that mostly walks: episodes end at the goal, and some by their limit of steps."""
    random = np.random.default_rng(seed)
    while True:
        walk = random.choice([0, 1, 2, 2, 2, 5, 5], num_envs)
        walk[-1] = random.choice([0, 1])
        yield walk


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_every_step_is_that_of_a_sync_vector_env(mode):
    ours, theirs = both(mode)
    assert_same(ours.reset(seed=0), theirs.reset(seed=0))
    ended = np.zeros(2, int)
    for number, actions in zip(range(150), wandering(4, seed=9), strict=False):
        step = ours.step(actions)
        assert_same(step, theirs.step(actions), f"step {number}")
        ended += [step[2].sum(), step[3].sum()]
    assert (ended >= 2).all(), "nobody reached the goal, or the limit of steps"
    assert_same(ours.reset(), theirs.reset())


def test_lanes_that_ended_are_reset_by_a_mask_as_in_a_sync_vector_env():
    ours, theirs = both("Disabled")
    assert_same(ours.reset(seed=0), theirs.reset(seed=0))
    resets = 0
    for number, actions in zip(range(120), wandering(4, seed=1), strict=False):
        step = ours.step(actions)
        assert_same(step, theirs.step(actions), f"step {number}")
        done = step[2] | step[3]
        if done.any():
            with pytest.raises(GobiError, match="have ended: reset them"):
                ours.step(actions)
            options = {"reset_mask": done}
            again = ours.reset(options=options)
            assert "reset_mask" in options, "the caller's options are the caller's"
            assert_same(again, theirs.reset(options={"reset_mask": done}), f"reset {number}")
            resets += 1
    assert resets >= 2


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_mask_resets_some_lanes_in_the_other_modes_too(mode):
    ours, theirs = both(mode)
    assert_same(ours.reset(seed=0), theirs.reset(seed=0))
    for number, actions in zip(range(60), wandering(4, seed=2), strict=False):
        step = ours.step(actions)
        assert_same(step, theirs.step(actions), f"step {number}")
        ended = step[2] | step[3]
        if number == 5 or ended.any():
            mask = ended if ended.any() else np.arange(4) % 2 == 0
            assert_same(ours.reset(options={"reset_mask": mask}), theirs.reset(options={"reset_mask": mask}))


def test_the_step_that_only_resets_a_lane_pays_nothing_and_ends_nothing():
    # The lane runs out of steps in front of the goal: played, the action of the next step would reach it.
    env = gobi.vector("MiniGrid-Empty-5x5-v0", 1)
    first, _ = env.reset()
    idle = [6] * (env.max_steps - 5)
    for action in (2, 2, 1, 2, *idle):
        env.step(np.array([action]))
    assert env.step(np.array([6]))[3].all()
    observation, reward, terminated, truncated, _ = env.step(np.array([2]))
    assert (reward.item(), terminated.item(), truncated.item()) == (0.0, False, False)
    np.testing.assert_array_equal(observation, first)
    # Not at its end, the same walk is paid: this is where the goal is.
    for action in (2, 2, 1, 2):
        env.step(np.array([action]))
    _, reward, terminated, *_ = env.step(np.array([2]))
    assert terminated.all()
    assert reward.item() > 0.9


def test_the_most_steps_of_an_episode_are_told():
    assert gobi.vector(TASK, 2).max_steps == Plain(TASK).max_steps == 40


def test_spaces_and_metadata_are_those_of_faramas_environments():
    wrappers = pytest.importorskip("minigrid.wrappers")
    farama = gymnasium.vector.SyncVectorEnv([lambda: wrappers.ImgObsWrapper(gymnasium.make(TASK))] * 3)
    ours = gobi.vector(TASK, num_envs=3)
    for name in ("single_observation_space", "observation_space", "single_action_space", "action_space"):
        assert getattr(ours, name) == getattr(farama, name)
    assert ours.num_envs == 3
    assert isinstance(ours, gymnasium.vector.VectorEnv)
    assert ours.metadata["autoreset_mode"] == farama.metadata["autoreset_mode"]
    assert ours.reset()[0] in ours.observation_space


def test_seeds_start_again_and_resets_without_one_go_on():
    env = gobi.vector(TASK, 4, seed=5, views=VIEWS)
    first = env.reset()[0]
    second = env.reset()[0]
    assert (first != second).any()
    np.testing.assert_array_equal(env.reset(seed=5)[0], first)
    np.testing.assert_array_equal(env.reset()[0], second)
    np.testing.assert_array_equal(gobi.vector(TASK, 4, views=VIEWS).reset(seed=5)[0], first)
    assert (env.reset(seed=6)[0] != first).any()
    assert (env.reset(seed=2**63)[0] != env.reset(seed=2**63 + 1)[0]).any()
    np.testing.assert_array_equal(env.reset(seed=5)[0], first)


@pytest.mark.parametrize("to", ["numpy", "jax"])
def test_levels_do_not_run_out_while_lanes_end_by_themselves(to):
    # All lanes end at once; where outputs stay on the device, the host learns later what levels are left.
    env = gobi.vector(TASK, 200, to=to, autoreset_mode="SameStep")
    task, limit = env.task, env.task.spec.max_steps
    levels = jax.jit(jax.vmap(task.observe))(numbered_levels(task, 0, 0, 800))
    expected = np.asarray(levels).reshape(4, 200, 7, 7, 3)
    observation, _ = env.reset()
    turning = np.zeros(200, np.int32)
    for number in range(4):
        np.testing.assert_array_equal(observation, expected[number])
        for _ in range(limit):
            observation, _, _, truncated, infos = env.step(turning)
        assert np.asarray(truncated).all()
        assert np.asarray(infos["_final_obs"]).all()
        assert infos["final_info"] == {}


def test_outputs_that_cross_in_one_transfer_are_the_same():
    plays = [Play(Table(gobi.make(TASK), 4, "SameStep", VIEWS, packed=packed)) for packed in (False, True)]
    apart, at_once = (play.reset(7) for play in plays)
    for _, actions in zip(range(40), wandering(4, seed=3), strict=False):
        assert jax.tree.structure(apart) == jax.tree.structure(at_once)
        for one, other in zip(jax.tree.leaves(apart), jax.tree.leaves(at_once), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
            assert other.flags.writeable
        apart, at_once = (play.step(actions.astype(np.int32)) for play in plays)


@pytest.mark.parametrize("to", ["jax", "torch"])
@pytest.mark.parametrize("mode", MODES)
def test_arrays_that_stay_on_the_device_say_the_same(to, mode):
    kind = jax.Array if to == "jax" else pytest.importorskip("torch").Tensor
    host = gobi.vector(TASK, 4, autoreset_mode=mode, views=VIEWS)
    device = gobi.vector(TASK, 4, autoreset_mode=mode, views=VIEWS, to=to)
    np.testing.assert_array_equal(host.reset()[0], np.asarray(device.reset()[0]))
    for _, actions in zip(range(60), wandering(4, seed=4), strict=False):
        *expected, host_infos = host.step(actions)
        *found, infos = device.step(actions if to == "jax" else kind(actions.astype(np.float32)).long())
        for one, other in zip(expected, found, strict=True):
            assert isinstance(other, kind)
            np.testing.assert_array_equal(
                np.asarray(one, other.numpy().dtype if to == "torch" else None), other
            )
        np.testing.assert_array_equal(host_infos["panorama"], np.asarray(infos["panorama"]))
        for lane in np.flatnonzero(host_infos.get("_final_obs", [])):
            assert bool(infos["_final_obs"][lane])
            np.testing.assert_array_equal(host_infos["final_obs"][lane], np.asarray(infos["final_obs"])[lane])
        if mode == "Disabled" and (expected[2] | expected[3]).any():
            break


def test_one_lane_passes_gymnasiums_checks():
    # Without a spec it cannot be made anew, as test_registration has it checked.
    with pytest.warns(UserWarning, match="not having a spec"):
        env_checker.check_env(Plain(TASK, views=VIEWS))


def test_one_lane_is_a_vector_of_one():
    lane, vector = Plain(TASK, seed=9, views=VIEWS), gobi.vector(TASK, 1, seed=9, autoreset_mode="SameStep")
    observation, batch = lane.reset()[0], vector.reset()[0]
    for _, actions in zip(range(120), wandering(1, seed=5), strict=False):
        np.testing.assert_array_equal(observation, batch[0])
        observation, *rest, _ = lane.step(int(actions[0]))
        batch, *others, _ = vector.step(actions)
        assert rest == [part[0] for part in others]
        assert [type(part) for part in rest] == [float, bool, bool]
        if rest[1] or rest[2]:
            with pytest.raises(GobiError, match="the episode is over"):
                lane.step(0)
            observation = lane.reset()[0]


def test_lanes_made_alike_do_not_play_the_same_levels():
    grids = [Plain(TASK, views=VIEWS).reset()[1]["full_grid"] for _ in range(3)]
    assert any((grid != grids[0]).any() for grid in grids)


def test_pictures_are_drawn_of_every_lane():
    pytest.importorskip("minigrid")
    vector = gobi.vector(TASK, 4, views=VIEWS, render_mode="rgb_array")
    vector.reset(seed=1)
    frames = vector.render()
    assert len(frames) == 4
    lane = Plain(TASK, views=VIEWS, render_mode="rgb_array")
    lane.reset(seed=1)
    np.testing.assert_array_equal(lane.render(), frames[0])
    assert gobi.vector(TASK, 4).render() is None


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda env: env.step([0, 0, 0, 0]), "call reset first"),
        (lambda env: (env.reset(), env.step([0, 0, 0, 7])), r"0 \.\. 6, got \[0, 0, 0, 7\]"),
        (lambda env: (env.reset(), env.step([0])), r"shape \(4,\)"),
        (lambda env: (env.reset(), env.step([0.0, 1.0, 2.0, 3.0])), "integers"),
        (lambda env: env.reset(seed=[1, 2, 3, 4]), "have one seed"),
        (lambda env: env.reset(options={"reset_mask": np.eye(4, dtype=bool)[0]}), "first reset"),
        (lambda env: (env.reset(), env.reset(options={"reset_mask": [True] * 4})), "4 booleans"),
        (lambda env: (env.reset(), env.reset(options={"reset_mask": np.zeros(4, bool)})), "names no lane"),
        (lambda _: gobi.vector(TASK, 2, to="tensorflow"), "unknown kind of output"),
        (lambda _: gobi.vector(TASK, 2, autoreset_mode="Never"), "unknown autoreset mode"),
        (lambda _: gobi.vector(TASK, 2, views=("panoramas",)), "did you mean panorama"),
        (lambda _: gobi.vector(TASK, 0), "at least one lane"),
        (lambda _: gobi.vector("MiniGrid-DoorKey-5x6-v0", 2), "did you mean MiniGrid-DoorKey"),
    ],
)
def test_mistakes_are_named(mistake, said):
    env = gobi.vector(TASK, 4, views=VIEWS)
    with pytest.raises(GobiError, match=said):
        mistake(env)


def test_without_gymnasium_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "gobi.adapters.vector")
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(GobiError, match=r"pip install 'gobi\[gymnasium\]'"):
        gobi.vector(TASK, 2)


def test_a_family_with_sizes_of_your_own_is_a_task_too():
    assert gobi.vector(DoorKey(7), 2).task.spec.max_steps == 490


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_gymnasiums_statistics_of_episodes_understand_it(mode):
    env = gobi.vector(TASK, 4, autoreset_mode=mode, views=VIEWS)
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    env.reset()
    for _ in range(40):
        *_, truncated, infos = env.step(np.zeros(4, int))
    assert truncated.all()
    np.testing.assert_array_equal(infos["episode"]["l"], [40] * 4)


def test_a_closed_environment_stays_closed():
    env = Vector(TASK, 2)
    env.close()
    assert env.closed
    env.close()
