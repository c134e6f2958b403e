"""The Gymnasium wrappers: bonuses in the rewards, and steps with their true ends, in all autoreset modes."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
import toy_worlds
from gymnasium.vector import AutoresetMode
from toy_worlds import MODES, Grid, Recorder, Told, pairs, play, real_pairs, recorded, vector

from gobi import GobiError
from gobi.adapters.gymnasium import IntrinsicReward, IntrinsicRewardEnv
from gobi.rewards import Count, GoBI, Reachability
from gobi.worlds import Nowhere

UNEVEN = ((3, 1, 4), (2, 5), (4,))
EVEN = ((3, 1, 4),) * 3


def wrapped(mode: AutoresetMode, lengths=UNEVEN, kind=Told, inner=lambda env: env, **options: Any):
    options = {"reward": Recorder(), "coefficient": 0.25} | options
    env = IntrinsicReward(inner(vector(mode, lengths, kind)), **options)
    env.reset(seed=0)
    return env


def leaves(env: Any) -> list[np.ndarray]:
    def plain(leaf: Any) -> np.ndarray:
        typed_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if typed_key else leaf)

    return [plain(leaf) for leaf in jax.tree.leaves(env.bonus.program.running.state)]


@pytest.mark.parametrize("mode", MODES)
def test_every_step_is_paired_with_its_true_ends(mode):
    env = wrapped(mode)
    play(env, 20)
    for lane, lengths in enumerate(UNEVEN):
        seen = real_pairs(env, lane)
        assert seen == pairs(lengths, len(seen))
        assert len(seen) >= 14


@pytest.mark.parametrize("mode", MODES)
def test_the_bonus_is_in_the_reward_that_step_returns(mode):
    env, plain = wrapped(mode), vector(mode, UNEVEN)
    plain.reset(seed=0)
    for (_, total, *_, infos), (_, own, *_) in zip(play(env, 12), play(plain, 12), strict=True):
        np.testing.assert_array_equal(infos["extrinsic_reward"], own)
        np.testing.assert_array_equal(total, own + infos["intrinsic_reward"])
        assert total.dtype == own.dtype
    assert infos["intrinsic_reward"].max() == 0.25


def test_advantages_see_the_bonus():
    """A bonus two steps later raises the return of a step that earns nothing itself."""
    env = wrapped(AutoresetMode.SAME_STEP, lengths=((5,),))
    rewards = np.array([step[1][0] for step in play(env, 5)])
    discounted = sum(0.5**t * reward for t, reward in enumerate(rewards))
    assert rewards.tolist() == [0.25, 0.25, 0.25, 0.25, 1.25]
    assert discounted == 0.25 * (1 - 0.5**5) / 0.5 + 0.5**4


@pytest.mark.parametrize("mode", MODES)
def test_without_add_the_rewards_are_left_alone(mode):
    env, plain = wrapped(mode, add=False), vector(mode, UNEVEN)
    plain.reset(seed=0)
    for (_, total, *_, infos), (_, own, *_) in zip(play(env, 8), play(plain, 8), strict=True):
        np.testing.assert_array_equal(total, own)
        assert set(infos) >= {"intrinsic_reward", "extrinsic_reward"}
    assert infos["intrinsic_reward"].any()


def test_a_step_that_only_resets_is_paid_nothing():
    env = wrapped(AutoresetMode.NEXT_STEP)
    ended = np.zeros(3, bool)
    for _, total, terminated, truncated, infos in play(env, 15):
        np.testing.assert_array_equal(infos["intrinsic_reward"], np.where(ended, 0, 0.25))
        assert not total[ended].any()
        ended = terminated | truncated
    assert env.bonus.frames == recorded(env)["real"].sum()


def test_a_reset_is_an_episode_of_its_own_that_nothing_learns_from():
    env = wrapped(AutoresetMode.NEXT_STEP, learn_every=10)
    play(env, 10)
    kept = recorded(env)
    resets = ~kept["real"]
    assert resets.any()
    np.testing.assert_array_equal(kept["before"][resets], kept["after"][resets])
    assert kept["done"][resets].all()
    assert not kept["action"][resets].any()
    assert not kept["reward"][resets].any()
    np.testing.assert_array_equal(np.asarray(env.bonus.program.running.state["lessons"])[:10], kept["real"])


GRIDS = {
    "count": {},
    "rnd": {},
    "noveld": {},
    "gobi": {"world": Nowhere()},
}


@pytest.mark.parametrize("name", GRIDS)
def test_bonuses_and_states_are_the_same_in_all_modes(name):
    """Environments that end together: a step at which all of them only reset leaves no trace at all."""
    paid, states = [], []
    for mode in MODES:
        env = wrapped(mode, EVEN, Grid, reward=name, learn_every=4, decay=1e-3, **GRIDS[name])
        made, before = [], np.zeros(3, bool)
        while len(made) < 13:
            ((*_, terminated, truncated, infos),) = play(env, 1)
            if mode != AutoresetMode.NEXT_STEP or not before.any():
                made.append(infos["intrinsic_reward"])
            before = terminated | truncated
        paid.append(np.array(made))
        states.append(leaves(env))
    np.testing.assert_array_equal(paid[0], paid[1])
    np.testing.assert_array_equal(paid[0], paid[2])
    assert paid[0].any()
    for first, *others in zip(*states, strict=True):
        for other in others:
            np.testing.assert_array_equal(first, other)


def by_lane(env: Any, count: int) -> list[list[float]]:
    """The bonuses of the real steps of each environment, one after the other."""
    made: list[list[float]] = [[] for _ in range(env.num_envs)]
    ended = np.zeros(env.num_envs, bool)
    while min(map(len, made)) < count:
        ((*_, terminated, truncated, infos),) = play(env, 1)
        for lane in np.flatnonzero(~ended | (env.metadata["autoreset_mode"] != AutoresetMode.NEXT_STEP)):
            made[lane].append(float(infos["intrinsic_reward"][lane]))
        ended = terminated | truncated
    return [bonuses[:count] for bonuses in made]


@pytest.mark.parametrize("reward", [Count(), Reachability(Nowhere()), GoBI(Nowhere())])
def test_environments_that_end_one_by_one_are_paid_the_same_in_all_modes(reward):
    one, *others = [by_lane(wrapped(mode, UNEVEN, Grid, reward=reward), 15) for mode in MODES]
    assert others == [one, one]
    assert len({bonus for bonuses in one for bonus in bonuses}) > 1


def test_observations_may_come_in_memory_that_is_used_again():
    for mode in MODES:
        env = IntrinsicReward(vector(mode, UNEVEN, copy=False), reward=Recorder())
        env.reset(seed=0)
        play(env, 12)
        for lane, lengths in enumerate(UNEVEN):
            seen = real_pairs(env, lane)
            assert seen == pairs(lengths, len(seen))


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_from_outside_ends_the_episodes_that_were_running(mode):
    env = wrapped(mode, ((9,),) * 2, Grid, reward=Reachability(Nowhere()))
    first = [step[-1]["intrinsic_reward"] for step in play(env, 4)]
    for lane in env.unwrapped.envs:
        lane.episode = -1
    env.reset()
    again = [step[-1]["intrinsic_reward"] for step in play(env, 4)]
    np.testing.assert_array_equal(first, again)
    assert np.any(first)


def test_a_reset_of_some_leaves_the_episodes_of_the_others():
    env = wrapped(AutoresetMode.DISABLED, ((9,),) * 2, Grid, reward=Reachability(Nowhere()), coefficient=1.0)
    whole = wrapped(
        AutoresetMode.DISABLED, ((9,),) * 2, Grid, reward=Reachability(Nowhere()), coefficient=1.0
    )
    play(env, 3)
    env.unwrapped.envs[0].episode = -1
    env.reset(options={"reset_mask": np.array([True, False])})
    paid = np.array([step[-1]["intrinsic_reward"] for step in play(env, 4)])
    unbroken = np.array([step[-1]["intrinsic_reward"] for step in play(whole, 7)])
    np.testing.assert_array_equal(paid[:, 1], unbroken[3:, 1])
    np.testing.assert_array_equal(paid[:, 0], unbroken[:4, 0])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_statistics_of_episodes_inside_see_the_tasks_own_reward(mode):
    env = wrapped(mode, inner=gymnasium.wrappers.vector.RecordEpisodeStatistics)
    returns = [infos["episode"]["r"][infos["_episode"]] for *_, infos in play(env, 12) if "episode" in infos]
    assert set(np.concatenate(returns)) == {1.0}


def test_statistics_of_episodes_outside_see_the_whole():
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(wrapped(AutoresetMode.NEXT_STEP, ((4,), (4,))))
    env.reset(seed=0)
    (*_, infos) = play(env, 4)[-1]
    np.testing.assert_allclose(infos["episode"]["r"], [2.0, 2.0])


class Still(gymnasium.vector.VectorEnv):
    """Nothing changes, for any number of environments, and without a loop over them."""

    single_observation_space = gymnasium.spaces.Box(0, 200, (2,), np.uint8)
    single_action_space = gymnasium.spaces.Discrete(3)
    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int):
        self.num_envs = num_envs

    def reset(self, **options: Any):
        return np.zeros((self.num_envs, 2), np.uint8), {}

    def step(self, actions: Any):
        flags = np.zeros(self.num_envs, bool)
        return np.zeros((self.num_envs, 2), np.uint8), np.zeros(self.num_envs), flags, flags, {}


def test_python_does_the_same_work_for_many_environments_as_for_few():
    """No loop over environments: as many lines of our Python run for 40 of them as for 3."""

    def lines(lanes: int) -> int:
        env = IntrinsicReward(Still(lanes), reward=Recorder())
        env.reset()
        env.step(np.zeros(lanes, int))
        run = 0

        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal run
            ours = "adapters" in frame.f_code.co_filename
            run += ours and event == "line"
            return trace if ours else None

        tracer = sys.gettrace()
        sys.settrace(trace)
        try:
            env.step(np.zeros(lanes, int))
        finally:
            sys.settrace(tracer)
        return run

    assert lines(3) == lines(40) > 40


class Beside(Told):
    """Shows in its info what its observation does not."""

    def reset(self, **options: Any):
        observation, _ = super().reset(**options)
        return observation * 0, {"panorama": observation}

    def step(self, action: Any):
        observation, *rest, _ = super().step(action)
        return observation * 0, *rest, {"panorama": observation}


@pytest.mark.parametrize("mode", MODES)
def test_views_in_the_infos_have_their_true_ends_too(mode):
    env = wrapped(mode, kind=Beside, reward=Recorder("panorama"), views=["panorama"])
    play(env, 14)
    for lane, lengths in enumerate(UNEVEN):
        seen = real_pairs(env, lane)
        assert seen == pairs(lengths, len(seen))


def test_a_view_that_is_announced_but_not_shown_is_refused():
    env = IntrinsicReward(vector(MODES[0], UNEVEN), reward=Recorder("panorama"), views=["panorama"])
    with pytest.raises(GobiError, match="panorama"):
        env.reset()


def test_a_view_that_is_not_announced_is_refused_at_once():
    with pytest.raises(GobiError, match="panorama"):
        IntrinsicReward(vector(MODES[0], UNEVEN), reward=Recorder("panorama"))


class Broken(Told):
    observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float32)

    def _see(self) -> np.ndarray:
        wrong = self.episode == 1 and self.at == 1
        return np.array([np.nan if wrong else self.episode, self.at], np.float32)


class Unpaid(Told):
    def step(self, action: Any):
        observation, _, *rest = super().step(action)
        return observation, np.inf if self.episode == 1 else 0.0, *rest


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [Broken, Unpaid])
def test_numbers_that_are_none_are_refused_with_environment_and_step(mode, kind):
    env = wrapped(mode, ((9,), (4, 9)), kind)
    play(env, 4 + (mode == AutoresetMode.NEXT_STEP))
    step = 6 if mode == AutoresetMode.NEXT_STEP else 5
    with pytest.raises(GobiError, match=f"(?s)(?=.*environment 1)(?=.*step {step})"):
        play(env, 1)


def test_a_first_observation_that_is_no_number_is_refused():
    class Never(Broken):
        def _see(self) -> np.ndarray:
            return np.array([np.inf, 0], np.float32)

    with pytest.raises(GobiError, match="environment 0"):
        wrapped(MODES[0], kind=Never)


def test_an_environment_that_hides_its_mode_must_be_told_it():
    plain = vector(AutoresetMode.SAME_STEP, UNEVEN)
    del plain.metadata["autoreset_mode"]
    with pytest.raises(GobiError, match="autoreset_mode"):
        IntrinsicReward(plain, reward=Recorder())
    env = IntrinsicReward(plain, reward=Recorder(), autoreset_mode="SameStep")
    env.reset()
    for _ in range(8):
        env.step(np.ones(3, int))
    assert real_pairs(env, 0) == pairs(UNEVEN[0], 8)


def test_a_function_of_ones_own_reads_what_rewards_cannot():
    space = gymnasium.spaces.Box(0, 200, (2,), np.uint8)
    turned = IntrinsicReward(
        vector(AutoresetMode.SAME_STEP, UNEVEN),
        reward=Recorder(),
        observe=(lambda batch: batch[:, ::-1], space),
    )
    turned.reset()
    play(turned, 6)
    expected = [tuple(end[::-1] for end in pair) for pair in pairs(UNEVEN[0], 6)]
    assert real_pairs(turned, 0) == expected


class Parts(Told):
    observation_space = gymnasium.spaces.Dict(
        {"a": gymnasium.spaces.Discrete(201), "b": gymnasium.spaces.Box(0, 200, (1,), np.uint8)}
    )

    def _see(self):
        return {"a": np.int64(self.episode), "b": np.array([self.at], np.uint8)}


@pytest.mark.parametrize("mode", MODES)
def test_observations_in_parts_have_their_true_ends(mode):
    env = wrapped(mode, kind=Parts)
    play(env, 10)
    seen = real_pairs(env, 1)
    assert seen == pairs(UNEVEN[1], len(seen))


def test_a_single_environment_has_a_wrapper_of_its_own():
    with pytest.raises(GobiError, match="IntrinsicRewardEnv"):
        IntrinsicReward(Told((3,)))  # pyright: ignore[reportArgumentType]
    env = IntrinsicRewardEnv(Told((3, 2)), reward=Recorder(), coefficient=0.5)
    made = []
    for _ in range(2):
        env.reset(seed=0)
        over = False
        while not over:
            _, reward, terminated, truncated, info = env.step(1)
            over = terminated or truncated
            made.append((reward, info["intrinsic_reward"], info["extrinsic_reward"]))
    assert made == [(0.5, 0.5, 0.0), (0.5, 0.5, 0.0), (1.5, 0.5, 1.0), (0.5, 0.5, 0.0), (1.5, 0.5, 1.0)]
    assert real_pairs(env, 0) == pairs((3, 2), 5)


def test_a_single_environment_is_paid_as_the_same_one_in_a_vector():
    alone = IntrinsicRewardEnv(Grid((3, 4)), reward="gobi", world=Nowhere())
    paid = []
    for _ in range(3):
        alone.reset(seed=0)
        over = False
        while not over:
            *_, terminated, truncated, info = alone.step(0)
            over = terminated or truncated
            paid.append(info["intrinsic_reward"])
    env = wrapped(AutoresetMode.SAME_STEP, ((3, 4),), Grid, reward="gobi", world=Nowhere(), coefficient=None)
    together = [float(step[-1]["intrinsic_reward"][0]) for step in play(env, len(paid))]
    assert paid == together


def test_the_wrapper_is_a_vector_environment_like_the_one_inside():
    env = wrapped(AutoresetMode.NEXT_STEP)
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.single_observation_space == toy_worlds.Told.observation_space
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    as_lists = gymnasium.wrappers.vector.DictInfoToList(env)
    as_lists.reset(seed=0)
    *_, infos = as_lists.step(np.ones(3, int))
    assert [info["intrinsic_reward"] for info in infos] == [0.25] * 3


class Careless(gymnasium.vector.VectorWrapper):
    """A vector environment that gives one part of a step wrongly."""

    def __init__(self, env: Any, part: str, wrong: Any):
        super().__init__(env)
        self.part, self.wrong = part, wrong

    def step(self, actions: Any):
        observation, reward, terminated, truncated, infos = self.env.step(actions)
        if self.part == "infos":
            return observation, reward, terminated, truncated, self.wrong
        if self.part == "final_obs" and "final_obs" in infos:
            infos["final_obs"] = self.wrong
        if self.part == "terminated":
            terminated = self.wrong
        return observation, reward, terminated, truncated, infos


@pytest.mark.parametrize(
    ("part", "wrong", "says"),
    [
        ("infos", [{}, {}, {}], r"step 1:.*infos must be a dictionary.*\[\{\}"),
        ("terminated", None, "step 1: terminated.*each of 3.*None"),
        ("terminated", np.zeros(2, bool), "step 1: terminated.*each of 3.*False, False"),
        ("terminated", np.array(["no", "no", "no"]), "step 1: terminated.*each of 3.*no"),
        ("final_obs", None, r"step \d+:.*final_obs must have a row for each of 3.*None"),
        ("final_obs", np.array([None, None, None]), r"step \d+:.*environment \d.*final_obs has None"),
    ],
)
def test_a_part_of_a_step_that_is_none_is_refused_with_the_step(part, wrong, says):
    env = Careless(vector(AutoresetMode.SAME_STEP, UNEVEN), part, wrong)
    env = IntrinsicReward(env, reward=Recorder())
    env.reset()
    with pytest.raises(GobiError, match=says):
        play(env, 10)
