"""The bonus inside Stable-Baselines3: where it enters the learner, what it is judged by, how it is kept."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecFrameStack,
    VecNormalize,
    VecTransposeImage,
)

from gobi.adapters.stable_baselines3 import BonusCallback, IntrinsicVecEnv, load_with, save_with
from gobi.errors import GobiError
from gobi.rewards import Reward
from gobi.worlds import OnlineModel

LENGTH = 4
"""Steps of an episode of the counting environments."""


class Counting(gymnasium.Env):
    """Shows how many steps the episode has had, and pays a half for each."""

    metadata = {"render_modes": [], "gobi_views": ("panorama",)}  # noqa: RUF012
    action_space: Any = spaces.Discrete(2)
    observation_space: Any = spaces.Discrete(LENGTH + 1)

    def __init__(self, truncates: bool = False, pays: float = 0.5):
        self.truncates, self.pays = truncates, pays
        self.count = self.episode = 0

    def seen(self) -> Any:
        return self.count

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed, options=options)
        self.count, self.episode = 0, self.episode + 1
        return self.seen(), {"panorama": np.array([10 * self.episode], np.float32)}

    def step(self, action: Any):
        self.count += 1
        over = self.count == LENGTH
        view = np.array([10 * self.episode + self.count], np.float32)
        return (
            self.seen(),
            self.pays,
            over and not self.truncates,
            over and self.truncates,
            {"panorama": view},
        )


class Picture(Counting):
    """The same as a picture, one shade for each count."""

    observation_space = spaces.Box(0, 255, (36, 36, 3), np.uint8)

    def seen(self) -> Any:
        return np.full((36, 36, 3), self.count, np.uint8)


class Vector(Counting):
    """The same as a number, with actions that are numbers."""

    action_space = spaces.Box(-2, 2, (1,), np.float32)
    observation_space = spaces.Box(0, LENGTH, (1,), np.float32)

    def seen(self) -> Any:
        return np.array([self.count], np.float32)


class Sees(Reward):
    """A bonus that tells what the reward was shown in a view: 100 x the state left + the state reached."""

    view: str = "observation"

    @property
    def reads(self):
        return frozenset({self.view})

    def init(self, key, spec, num_envs):
        return ()

    def rollout(self, state, transitions):
        def number(views):
            return views[self.view].reshape(*transitions.reward.shape, -1)[..., 0].astype(jnp.float32)

        return state, 100 * number(transitions.before) + number(transitions.after), {"own": jnp.float32(7)}


class Endings(Sees):
    """10 for a termination, 100 for a truncation."""

    def rollout(self, state, transitions):
        return state, 10.0 * transitions.terminated + 100.0 * transitions.truncated, {}


class First(Sees):
    """1 for the first step of an episode."""

    def init(self, key, spec, num_envs):
        return jnp.zeros(num_envs, bool)

    def rollout(self, state, transitions):
        first = jnp.concatenate([~state[None], transitions.done[:-1]])
        return ~transitions.done[-1], first.astype(jnp.float32), {}


class One(Sees):
    """1 for each step."""

    def rollout(self, state, transitions):
        return state, jnp.ones_like(transitions.reward), {}


def counting(lanes: int = 2, make: Any = Counting, **options: Any) -> DummyVecEnv:
    return DummyVecEnv([lambda: Monitor(make(**options)) for _ in range(lanes)])


def driven(venv: Any, steps: int) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """The first environment's bonuses and rewards, and all infos, of some steps with the first action."""
    taken = [venv.step(np.zeros((venv.num_envs, *venv.action_space.shape))) for _ in range(steps)]
    bonuses = np.array([infos[0]["intrinsic_reward"] for *_, infos in taken])
    return bonuses, np.array([rewards[0] for _, rewards, _, _ in taken]), [infos for *_, infos in taken]


def begun(venv: Any, reward: Any, **options: Any) -> IntrinsicVecEnv:
    wrapped = IntrinsicVecEnv(venv, reward, **{"coefficient": 1.0, **options})
    wrapped.reset()
    return wrapped


@pytest.mark.parametrize("make", [Counting, Vector])
def test_an_episodes_last_step_is_judged_by_its_true_last_observation(make):
    bonuses, _, _ = driven(begun(counting(make=make), Sees()), 2 * LENGTH)
    if make is Vector:
        # Numbers are scaled to [-1, 1] by their bounds.
        bonuses = [(bonus + 101) * LENGTH / 2 for bonus in bonuses]
    expected = [1, 102, 203, 304]
    np.testing.assert_allclose(bonuses, expected * 2, rtol=1e-5)


def test_views_beside_the_observation_are_the_last_ones_of_the_episode_and_then_the_first_of_the_next():
    venv = counting()
    bonuses, _, _ = driven(begun(venv, Sees("panorama")), LENGTH + 1)
    # The wrapper's reset began episode 1; what there is to see is 10 x the episode + the count.
    np.testing.assert_array_equal(bonuses, [1011, 1112, 1213, 1314, 2021])


@pytest.mark.parametrize(("truncates", "paid"), [(False, 10), (True, 100)])
def test_terminations_and_truncations_are_told_apart(truncates, paid):
    bonuses, _, _ = driven(begun(counting(truncates=truncates), Endings()), LENGTH)
    np.testing.assert_array_equal(bonuses, [0, 0, 0, paid])


def test_a_reset_from_outside_begins_a_new_episode():
    venv = begun(counting(), First())
    before, _, _ = driven(venv, 2)
    venv.reset()
    after, _, _ = driven(venv, LENGTH + 1)
    np.testing.assert_array_equal(before, [1, 0])
    np.testing.assert_array_equal(after, [1, 0, 0, 0, 1])


def test_the_decay_counts_the_frames_of_all_environments():
    bonuses, _, _ = driven(begun(counting(lanes=3), One(), coefficient=2.0, decay=0.1), 5)
    np.testing.assert_allclose(bonuses, [2 * math.exp(3 * n * math.log1p(-0.1)) for n in range(5)], rtol=1e-6)


def test_rewards_hold_the_bonus_and_infos_and_monitors_tell_the_parts():
    _, rewards, infos = driven(begun(counting(), Sees()), LENGTH)
    np.testing.assert_array_equal(rewards, [1.5, 102.5, 203.5, 304.5])
    assert [info[1]["extrinsic_reward"] for info in infos] == [0.5] * LENGTH
    assert infos[-1][0]["episode"]["r"] == 0.5 * LENGTH


def test_the_bonus_can_be_reported_only():
    bonuses, rewards, _ = driven(begun(counting(), Sees(), add=False), 2)
    np.testing.assert_array_equal(rewards, [0.5, 0.5])
    np.testing.assert_array_equal(bonuses, [1, 102])


def test_advantages_see_the_bonus_of_all_later_steps():
    gamma = 0.9
    venv = IntrinsicVecEnv(counting(), Endings(), coefficient=1.0)
    model = PPO("MlpPolicy", venv, n_steps=2 * LENGTH, batch_size=LENGTH, gamma=gamma, gae_lambda=1.0, seed=0)
    model.learn(4 * LENGTH)
    # Only the last step of an episode has a bonus, 10; each step earns a half. A bonus that is added when the
    # advantages are there already would leave the first three returns without it.
    to_go = [10.5]
    for _ in range(LENGTH - 1):
        to_go.insert(0, 0.5 + gamma * to_go[0])
    buffer = model.rollout_buffer
    np.testing.assert_allclose(buffer.returns.reshape(-1), to_go * 4, rtol=1e-4)
    np.testing.assert_allclose(buffer.advantages + buffer.values, buffer.returns, rtol=1e-4)


def test_what_a_learner_adds_at_a_truncation_stays_out_of_the_infos():
    venv = begun(counting(truncates=True), Endings())
    for _ in range(LENGTH):
        _, rewards, _, infos = venv.step(np.zeros(2))
    rewards += 1000.0
    assert infos[0]["extrinsic_reward"] == 0.5
    assert venv.bonus.raw[0] == 100


@pytest.mark.parametrize(
    ("algorithm", "make", "options"),
    [
        (A2C, Counting, {"n_steps": 4}),
        (DQN, Counting, {"learning_starts": 8, "buffer_size": 100, "train_freq": 4}),
        (SAC, Vector, {"learning_starts": 8, "buffer_size": 100, "policy_kwargs": {"net_arch": [8]}}),
    ],
)
def test_other_learners_store_the_sum(algorithm, make, options):
    venv = IntrinsicVecEnv(counting(lanes=1, make=make), One(), coefficient=0.25)
    model = algorithm("MlpPolicy", venv, seed=0, **options)
    model.learn(16)
    if algorithm is A2C:
        np.testing.assert_allclose(model.rollout_buffer.rewards, 0.75)
    else:
        np.testing.assert_allclose(model.replay_buffer.rewards[: model.replay_buffer.pos], 0.75)


@pytest.mark.parametrize(
    "outer",
    [
        VecTransposeImage,
        lambda venv: VecFrameStack(venv, 2),
        lambda venv: VecNormalize(venv, norm_obs=False),
    ],
)
def test_the_bonus_is_the_same_under_every_outer_wrapper(outer):
    venv = outer(IntrinsicVecEnv(counting(make=Picture), Sees(), coefficient=1.0))
    venv.reset()
    bonuses, _, infos = driven(venv, LENGTH)
    np.testing.assert_array_equal(bonuses, [1, 102, 203, 304])
    assert "terminal_observation" in infos[-1][0]


def test_frame_stacks_and_channels_first_may_lie_inside():
    for inner in (VecFrameStack(counting(make=Picture), 2), VecTransposeImage(counting(make=Picture))):
        bonuses, _, _ = driven(begun(inner, Sees()), LENGTH + 1)
        # The first channel of a stack is the older frame.
        expected = [0, 1, 102, 203, 0] if isinstance(inner, VecFrameStack) else [1, 102, 203, 304, 1]
        np.testing.assert_array_equal(bonuses, expected)


def test_a_running_mean_of_observations_inside_is_refused():
    with pytest.raises(GobiError, match="put it outside"):
        IntrinsicVecEnv(VecNormalize(counting(make=Vector)), Sees())
    IntrinsicVecEnv(VecNormalize(counting(make=Vector), norm_obs=False), Sees())


def test_an_end_without_its_last_observation_is_refused():
    class Forgetful(DummyVecEnv):
        def step_wait(self):
            observation, rewards, dones, infos = super().step_wait()
            for info in infos:
                info.pop("terminal_observation", None)
            return observation, rewards, dones, infos

    venv = begun(Forgetful([Counting, Counting]), Sees())
    with pytest.raises(GobiError, match="environment 0 ended, but its info holds no terminal_observation"):
        driven(venv, LENGTH)


def test_a_reward_that_is_no_number_is_refused_with_its_environment_and_step():
    venv = begun(DummyVecEnv([Counting, lambda: Counting(pays=math.nan)]), Sees())
    with pytest.raises(GobiError, match=r"nan in environment 1 at step 1"):
        driven(venv, 1)


class Lines(KVWriter):
    """Keeps what a logger is told."""

    def __init__(self):
        self.seen: list[dict[str, Any]] = []

    def write(self, key_values, key_excluded, step=0):
        self.seen.append(dict(key_values))

    def close(self):
        pass


def test_the_callback_logs_the_metrics_and_saves_both(tmp_path):
    venv = IntrinsicVecEnv(counting(), Sees(), coefficient=0.5, learn_every=4)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, seed=0)
    lines = Lines()
    model.set_logger(Logger(None, [lines]))
    model.learn(32, callback=BonusCallback(save_every=8, folder=tmp_path, name="pair"))
    assert lines.seen[-1]["gobi/own"] == 7
    assert lines.seen[-1]["gobi/bonus"] == pytest.approx((1 + 102 + 203 + 304) / 4)
    assert lines.seen[-1]["gobi/coefficient"] == 0.5
    assert lines.seen[-1]["rollout/ep_rew_mean"] == 0.5 * LENGTH
    names = {path.name for path in tmp_path.iterdir()}
    assert {"pair_16_steps.zip", "pair_16_steps.bonus.safetensors", "pair_32_steps.bonus.json"} <= names


def test_a_callback_without_a_bonus_to_log_says_so():
    with pytest.raises(GobiError, match="no IntrinsicVecEnv"):
        PPO("MlpPolicy", counting(), n_steps=8, batch_size=8).learn(16, callback=BonusCallback())
    with pytest.raises(GobiError, match="both save_every"):
        BonusCallback(save_every=8)


def learning_pair() -> IntrinsicVecEnv:
    """A GoBI bonus whose world learns, small."""
    world = OnlineModel(2, units=8, gradient_steps=2, batch_size=8)
    return IntrinsicVecEnv(
        counting(), "gobi", coefficient=1.0, decay=0.01, learn_every=6, world=world, views=()
    )


def rewards_of_more_training(model: PPO) -> np.ndarray:
    model.set_random_seed(3)
    model.learn(16, reset_num_timesteps=False)
    return model.rollout_buffer.rewards.copy()


def test_a_saved_and_loaded_pair_goes_on_with_the_same_bonuses(tmp_path):
    model = PPO("MlpPolicy", learning_pair(), n_steps=8, batch_size=8, seed=0)
    model.learn(32)
    zipped = save_with(model, tmp_path / "pair_0.5")
    assert zipped == tmp_path / "pair_0.5.zip"
    # Loading begins new episodes; so does the one that simply goes on, to be comparable.
    model.set_env(model.get_env(), force_reset=True)
    going_on = rewards_of_more_training(model)
    loaded = load_with(PPO, zipped, learning_pair())
    np.testing.assert_array_equal(rewards_of_more_training(loaded), going_on)


def test_a_pair_that_is_not_whole_is_refused(tmp_path):
    model = PPO("MlpPolicy", IntrinsicVecEnv(counting(), Sees()), n_steps=8, batch_size=8)
    save_with(model, tmp_path / "pair.zip")
    with pytest.raises(GobiError, match="no model at"):
        load_with(PPO, tmp_path / "other", IntrinsicVecEnv(counting(), Sees()))
    (tmp_path / "pair.bonus.json").unlink()
    with pytest.raises(GobiError, match="no weights at"):
        load_with(PPO, tmp_path / "pair", IntrinsicVecEnv(counting(), Sees()))
