"""Intrinsic rewards for Stable-Baselines3: a bonus on each step of its vector environments, logged and saved.

    venv = make_vec_env("MountainCarContinuous-v0", n_envs=16)
    venv = IntrinsicVecEnv(venv, reward="gobi", coefficient=0.05)
    model = PPO("MlpPolicy", venv)
    model.learn(300_000, callback=BonusCallback())
    save_with(model, "runs/car")

Needs the extra `sb3`.

What to wrap in what, from the inside out: `Monitor` or `VecMonitor`, whose statistics are then the task's;
`IntrinsicVecEnv`; then `VecNormalize`, `VecFrameStack`, `VecTransposeImage`. The bonus reads what the task
shows, and the policy what the outer wrappers make of it. `VecNormalize` outside divides the sum of reward and
bonus; inside, with `norm_obs`, it is refused, since the same state would look different later. Frame stacks
inside work: then a stack is what is new or not.

The bonus is in the reward that `step` returns. On-policy learners (PPO, A2C) thus discount and bootstrap it
with everything else. Off-policy ones (DQN, SAC) keep it in their replay buffer as it was when the step was
made: what was new then is still paid for when it is replayed, long after it has become familiar. A decay does
not reach what lies there either; keep the buffer short against the time in which the bonus fades.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool

from gobi.adapters.bonus import Bonus
from gobi.adapters.environments import Observe, batch_of, listed, reading
from gobi.adapters.observations import actions, spec
from gobi.adapters.play import SHOWN
from gobi.errors import GobiError, require

require("stable_baselines3", extra="sb3")

from stable_baselines3.common.base_class import BaseAlgorithm  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.vec_env import (  # noqa: E402
    VecEnv,
    VecEnvWrapper,
    VecNormalize,
    unwrap_vec_wrapper,
)

Algorithm = TypeVar("Algorithm", bound=BaseAlgorithm)


class IntrinsicVecEnv(VecEnvWrapper):
    """A vector environment of Stable-Baselines3 whose rewards hold a bonus for exploring.

    Each step's infos tell both parts: `intrinsic_reward`, as it was paid, and `extrinsic_reward`, the task's
    own. An episode's last step is judged by its `terminal_observation`, never by the next episode's first.

    bonus:  the engine: its metrics, its advice, `save` and `restore`, and `frozen()` to evaluate within.
    """

    def __init__(
        self,
        venv: VecEnv,
        reward: Any = "gobi",
        coefficient: float | None = None,
        decay: float = 0.0,
        add: bool = True,
        seed: int = 0,
        observe: Observe | None = None,
        learn_every: int = 128,
        max_steps: int | None = None,
        views: Iterable[str] | None = None,
        **options: Any,
    ):
        """Puts a bonus on an environment.

        reward:       an id of `gobi rewards`, a `Reward` or a class of one, or path/file.py:Class.
        coefficient:  what the bonus is multiplied with; None takes what suits the reward.
        decay:        rho: after so many frames of all environments it is coefficient x (1 - rho)^frames.
        add:          False leaves the rewards alone; the bonus is then only in the infos.
        observe:      a function from a batch of observations (of any number of environments) to an array, and
                      the space of one row of it: for spaces that rewards cannot read by themselves.
        learn_every:  steps of all environments after which a reward with networks learns.
        max_steps:    of an episode, by which memories are sized to begin with; None asks the environment.
        views:        what the infos show beside the observation; None asks the environment's metadata.
        options:      the reward's own, and `world`, `hash` and `lifelong`: see `choosing.choose`.
        """
        _refuse_moving_observations(venv)
        super().__init__(venv)
        self.add = add
        space, self._read = reading(venv.observation_space, observe)
        self._acted = actions(venv.action_space)
        self._action = np.zeros(0)
        shown = _asked(venv, "metadata", {}).get(SHOWN, ()) if views is None else views
        self.bonus = Bonus(
            reward,
            spec(_id(venv), space, venv.action_space, max_steps or _max_steps(venv)),
            venv.num_envs,
            coefficient=coefficient,
            decay=decay,
            seed=seed,
            learn_every=learn_every,
            views=frozenset({"observation", *shown}),
            **options,
        )
        self._beside = sorted(self.bonus.reward.reads - {"observation"})

    def reset(self) -> Any:
        """Resets all environments; episodes cut short are forgotten, and pay nothing more."""
        observation = self.venv.reset()
        self.bonus.restart(self._see(observation, self.unwrapped.reset_infos))
        return observation

    def step_async(self, actions: np.ndarray) -> None:
        """Starts a step with these actions."""
        self._action = self._acted(actions)
        self.venv.step_async(actions)

    def step_wait(self) -> Any:
        """Ends it: observations, rewards with the bonus, which episodes ended, infos."""
        observation, rewards, dones, infos = self.venv.step_wait()
        done = np.asarray(dones, bool)
        truncated = done & np.array([info.get("TimeLimit.truncated", False) for info in infos], bool)
        after = self._see(observation, infos)
        ended = bool(done.any())
        if ended:
            after["observation"] = self._with_last(after["observation"], done, infos)
        paid = self.bonus.step(None, self._action, after, rewards, done & ~truncated, truncated)
        if ended:
            self.bonus.stand(self._where_now(observation, done, infos))
        for info, bonus, own in zip(infos, paid, rewards, strict=True):
            info["intrinsic_reward"], info["extrinsic_reward"] = float(bonus), float(own)
        # A new array: learners add their own estimates to the rewards they are given.
        return observation, np.array(rewards + paid if self.add else rewards, np.float32), dones, infos

    def _see(self, observation: Any, infos: list[dict[str, Any]]) -> dict[str, np.ndarray]:
        """The views of where the environments stand, the ones beside the observation from the infos."""
        views = {"observation": self._observed(observation)}
        for name in self._beside:
            missing = [lane for lane, info in enumerate(infos) if name not in info]
            if missing:
                raise GobiError(
                    f"the reward reads {name}, which environment {missing[0]}'s info does not show"
                )
            views[name] = np.stack([info[name] for info in infos])
        return views

    def _where_now(
        self, observation: Any, done: Bool[np.ndarray, " envs"], infos: list[dict[str, Any]]
    ) -> dict[str, np.ndarray]:
        """The same after the environments that ended were reset: their infos are those of the reset."""
        first = self.unwrapped.reset_infos
        return self._see(observation, [first[lane] if end else infos[lane] for lane, end in enumerate(done)])

    def _with_last(
        self, now: np.ndarray, done: Bool[np.ndarray, " envs"], infos: list[dict[str, Any]]
    ) -> np.ndarray:
        """The observations with the true last ones of the episodes that ended in their places."""
        lanes = np.flatnonzero(done)
        for lane in lanes:
            if "terminal_observation" not in infos[lane]:
                raise GobiError(
                    f"the episode of environment {lane} ended, but its info holds no terminal_observation"
                )
        space, last = self.venv.observation_space, [infos[lane]["terminal_observation"] for lane in lanes]
        now = now.copy()
        now[lanes] = self._observed(batch_of(space, last))
        return now

    def _observed(self, batch: Any) -> np.ndarray:
        try:
            return self._read(batch)
        except GobiError as error:
            raise GobiError(f"step {self.bonus.steps + 1:,}: {error}") from error


class BonusCallback(BaseCallback):
    """Logs the bonus's metrics as `gobi/...` after each rollout, and saves model and bonus every so often.

    save_every:  calls of `step` between two of them, as `CheckpointCallback` counts; 0: never.
    folder:      where to: FOLDER/NAME_STEPS_steps.zip and the bonus beside it, see `save_with`.
    """

    def __init__(
        self, save_every: int = 0, folder: Path | str | None = None, name: str = "model", verbose: int = 0
    ):
        super().__init__(verbose)
        if save_every < 0 or bool(save_every) != (folder is not None):
            raise GobiError("to save now and then, give both save_every, a positive number, and folder")
        self.save_every, self.folder, self.name = save_every, Path(folder or "."), name

    def _init_callback(self) -> None:
        intrinsic(self.training_env)

    def _on_rollout_end(self) -> None:
        for name, value in intrinsic(self.training_env).bonus.metrics.items():
            self.logger.record(f"gobi/{name}", value)

    def _on_step(self) -> bool:
        if self.save_every and self.n_calls % self.save_every == 0:
            save_with(self.model, self.folder / f"{self.name}_{self.num_timesteps}_steps")
        return True


def intrinsic(venv: VecEnv | None) -> IntrinsicVecEnv:
    """The wrapper that pays the bonus, wherever it is among the wrappers of an environment."""
    found = None if venv is None else unwrap_vec_wrapper(venv, IntrinsicVecEnv)
    if not isinstance(found, IntrinsicVecEnv):
        raise GobiError("there is no IntrinsicVecEnv around the model's environment")
    return found


def save_with(model: BaseAlgorithm, path: Path | str) -> Path:
    """Writes the model to PATH.zip, and its bonus to PATH.bonus.safetensors and .json; returns PATH.zip.

    What `VecNormalize` keeps is not in there: it has a `save` of its own.
    """
    zipped, beside = _files(path)
    intrinsic(model.get_env()).bonus.save(beside)
    model.save(zipped)
    return zipped


def load_with(algorithm: type[Algorithm], path: Path | str, venv: VecEnv, **options: Any) -> Algorithm:
    """A saved model, and its bonus put into the environment, which is made as it was before.

    Episodes begin anew; the bonus goes on with all it had seen, and with the same steps every payment is the
    same to the last bit.

    algorithm:  its class, such as PPO.
    options:    passed on to `algorithm.load`.
    """
    zipped, beside = _files(path)
    wrapper = intrinsic(venv)
    if not zipped.is_file():
        raise GobiError(f"no model at {zipped}")
    wrapper.bonus.restore(beside)
    return algorithm.load(zipped, env=venv, **options)


def _files(path: Path | str) -> tuple[Path, Path]:
    """Where a model lies, and where its bonus."""
    path = Path(path)
    stem = path.with_suffix("") if path.suffix == ".zip" else path
    # `with_suffix` would take "car_0.5" for "car_0".
    return stem.with_name(f"{stem.name}.zip"), stem.with_name(f"{stem.name}.bonus.safetensors")


def _refuse_moving_observations(venv: VecEnv) -> None:
    inner = unwrap_vec_wrapper(venv, VecNormalize)
    if isinstance(inner, VecNormalize) and inner.norm_obs and inner.training:
        raise GobiError(
            "VecNormalize with norm_obs lies inside IntrinsicVecEnv: its running mean moves, and with it "
            "what counts as seen; put it outside: VecNormalize(IntrinsicVecEnv(venv, ...))"
        )


def _asked(venv: VecEnv, name: str, otherwise: Any) -> Any:
    """An attribute of the first environment, where it has one."""
    # Asked first: an environment in a process of its own dies of a question it has no answer to.
    return venv.get_attr(name, 0)[0] if venv.has_attr(name) else otherwise


def _id(venv: VecEnv) -> str:
    known = _asked(venv, "spec", None)
    return listed(known.id) if known is not None else "gym"


def _max_steps(venv: VecEnv) -> int | None:
    """The most steps of an episode: Gymnasium's own limit, or MiniGrid's."""
    known = _asked(venv, "spec", None)
    limit = known.max_episode_steps if known is not None else None
    limit = limit or _asked(venv, "max_steps", None)
    return int(limit) if isinstance(limit, int | np.integer) else None
