"""Intrinsic rewards for any Gymnasium environment: wrappers that add a bonus to the reward of each step.

    env = gymnasium.make_vec("MiniGrid-DoorKey-8x8-v0", num_envs=8)
    env = gobi.adapters.gymnasium.IntrinsicReward(env, reward="gobi")

Needs the extra `gymnasium`. Importing this module registers our tasks as `gobi/NAME`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Bool

from gobi.adapters import registration  # noqa: F401  (Gymnasium knows our tasks from here on)
from gobi.adapters.arriving import NOT_NUMBERS, short
from gobi.adapters.batches import as_array
from gobi.adapters.bonus import Bonus
from gobi.adapters.environments import (
    Observe,
    autoreset_mode_of,
    batch_of,
    max_steps_of,
    name_of,
    on_host,
    reading,
    shown,
    with_bonus,
)
from gobi.adapters.farama import Views
from gobi.adapters.observations import actions, spec
from gobi.errors import GobiError, require

require("gymnasium", extra="gymnasium")

import gymnasium  # noqa: E402
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper  # noqa: E402

__all__ = ["IntrinsicReward", "IntrinsicRewardEnv", "Views"]


class IntrinsicReward(VectorWrapper):
    """A vector environment whose rewards hold a bonus for exploring.

    The bonus is in what `step` returns, so that advantages and values see it. Each step's infos tell both
    parts: `intrinsic_reward`, as it was paid, and `extrinsic_reward`, the task's own. The last step of an
    episode is judged by its true last observation in all three autoreset modes, and the step at which an
    environment only resets is paid nothing. Wrap statistics of episodes inside of this, where they see the
    task's own reward.

    bonus:  the engine: its metrics, its advice, `save` and `restore`.
    """

    def __init__(
        self,
        env: VectorEnv | gymnasium.Env,
        reward: Any = "gobi",
        coefficient: float | None = None,
        decay: float = 0.0,
        add: bool = True,
        seed: int = 0,
        observe: Observe | None = None,
        learn_every: int = 128,
        max_steps: int | None = None,
        views: Iterable[str] | None = None,
        autoreset_mode: AutoresetMode | str | None = None,
        **options: Any,
    ):
        """Puts a bonus on an environment.

        env:             in any autoreset mode.
        reward:          an id of `gobi rewards`, a `Reward` or a class of one, or path/file.py:Class.
        coefficient:     what the bonus is multiplied with; None takes what suits the reward.
        decay:           rho: after so many frames of all environments it is coefficient x (1 - rho)^frames.
        add:             False leaves the rewards alone; the bonus is then only in the infos.
        observe:         a function from a batch of observations (of any number of environments) to an array,
                         and the space of one row of it: for spaces that rewards cannot read by themselves.
        learn_every:     steps of all environments after which a reward with networks learns.
        max_steps:       of an episode, by which memories are sized to begin with.
        views:           what the infos show beside the observation; None asks the environment's metadata.
        autoreset_mode:  of an environment whose metadata does not tell it.
        options:         the reward's own, and `world`, `hash` and `lifelong`: see `choosing.choose`.
        """
        if isinstance(env, gymnasium.Env):
            raise GobiError("this is a single environment: use gobi.adapters.gymnasium.IntrinsicRewardEnv")
        super().__init__(env)
        self.add = add
        self._mode = autoreset_mode_of(env, autoreset_mode)
        space, read = reading(env.single_observation_space, observe)
        self._sight = read
        self._acted = actions(env.single_action_space)
        self.bonus = Bonus(
            reward,
            spec(name_of(env), space, env.single_action_space, max_steps or max_steps_of(env)),
            env.num_envs,
            coefficient=coefficient,
            decay=decay,
            seed=seed,
            learn_every=learn_every,
            views=shown(env, views),
            **options,
        )
        self._beside = sorted(self.bonus.reads - {"observation"})
        self._ended = np.zeros(env.num_envs, bool)
        self._last: dict[str, np.ndarray] = {}

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets all environments, or those of `options["reset_mask"]`; episodes cut short are forgotten."""
        # Looked at first: environments take it out of the options.
        mask = (options or {}).get("reset_mask")
        lanes = np.ones(self.num_envs, bool) if mask is None else np.array(mask, bool)
        observation, infos = self.env.reset(seed=seed, options=options)
        views = self._see(observation, infos)
        if mask is not None:
            views |= {name: _merged(lanes, views[name], self._last[name]) for name in self._beside}
        self.bonus.restart(views, lanes)
        self._last = views
        self._ended &= ~lanes
        return observation, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of all environments, as Gymnasium has it: the rewards hold the bonus."""
        observation, rewards, terminated, truncated, infos = self.env.step(actions)
        self._check_infos(infos)
        done = self._flags("terminated", terminated) | self._flags("truncated", truncated)
        now = after = self._see(observation, infos)
        swapped = self._mode == AutoresetMode.SAME_STEP and bool(done.any())
        if swapped:
            after = self._with_last(now, done, infos)
        real = ~self._ended if self._mode == AutoresetMode.NEXT_STEP else None
        paid = self.bonus.step(
            None,
            self._acted(on_host(actions)),
            after,
            on_host(rewards),
            on_host(terminated),
            on_host(truncated),
            real,
        )
        if swapped:
            self.bonus.stand(now)
        self._last, self._ended = now, done
        everywhere = np.ones(self.num_envs, bool)
        infos["intrinsic_reward"], infos["_intrinsic_reward"] = paid, everywhere
        infos["extrinsic_reward"], infos["_extrinsic_reward"] = rewards, everywhere
        return observation, with_bonus(rewards, paid) if self.add else rewards, terminated, truncated, infos

    def _see(self, observation: Any, infos: dict[str, Any]) -> dict[str, np.ndarray]:
        """The views of where the environments stand."""
        views = {"observation": self._observed(observation)}
        for name in self._beside:
            if name not in infos:
                raise GobiError(f"the reward reads {name}, which the environment's infos do not show")
            views[name] = on_host(infos[name])
        return views

    def _with_last(
        self, now: dict[str, np.ndarray], done: Bool[np.ndarray, " envs"], infos: dict[str, Any]
    ) -> dict[str, np.ndarray]:
        """The same with the true last views of the episodes that ended, in their places."""
        if "final_obs" not in infos:
            raise GobiError("episodes ended in autoreset mode SameStep, but infos hold no final_obs")
        lanes, finals = np.flatnonzero(done), infos["final_obs"]
        if finals is None or len(finals := on_host(finals)) != self.num_envs:
            raise GobiError(
                f"step {self.bonus.steps + 1:,}: the infos' final_obs must have a row for each of "
                f"{self.num_envs} environments, got {short(infos['final_obs'])}"
            )
        batch = finals[lanes]
        if finals.dtype == object:
            for lane, row in zip(lanes, batch, strict=True):
                if row is None:
                    raise GobiError(
                        f"step {self.bonus.steps + 1:,}: the episode of environment {lane} ended, but the "
                        "infos' final_obs has None there"
                    )
            batch = batch_of(self.env.single_observation_space, list(batch))
        last = {"observation": self._observed(batch)}
        last |= {name: on_host(infos["final_info"][name])[lanes] for name in self._beside}
        return {name: _placed(view, lanes, last[name]) for name, view in now.items()}

    def _check_infos(self, infos: Any) -> None:
        if not isinstance(infos, dict):
            raise GobiError(
                f"step {self.bonus.steps + 1:,}: infos must be a dictionary of arrays, as Gymnasium's vector "
                f"environments give them, got {short(infos)}"
            )

    def _flags(self, name: str, given: Any) -> Bool[np.ndarray, " envs"]:
        """Which environments ended, one way or the other."""
        flags = as_array(on_host(given)) if given is not None else None
        if flags is None or flags.shape != (self.num_envs,) or flags.dtype.kind in NOT_NUMBERS:
            raise GobiError(
                f"step {self.bonus.steps + 1:,}: {name} must be true or false for each of {self.num_envs} "
                f"environments, got {short(given)}"
            )
        return flags.astype(bool, copy=False)

    def _observed(self, batch: Any) -> np.ndarray:
        try:
            return self._sight(on_host(batch))
        except GobiError as error:
            raise GobiError(f"step {self.bonus.steps + 1:,}: {error}") from error


class IntrinsicRewardEnv(gymnasium.Wrapper):
    """`IntrinsicReward` for a single environment, with the same arguments."""

    def __init__(
        self,
        env: gymnasium.Env,
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
        super().__init__(env)
        self.add = add
        space, self._sight = reading(env.observation_space, observe)
        self._acted = actions(env.action_space)
        self.bonus = Bonus(
            reward,
            spec(name_of(env), space, env.action_space, max_steps or max_steps_of(env)),
            1,
            coefficient=coefficient,
            decay=decay,
            seed=seed,
            learn_every=learn_every,
            views=shown(env, views),
            **options,
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Resets the environment; an episode cut short is forgotten."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.bonus.restart(self._see(observation, info))
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step: the observation, the reward with the bonus, terminated, truncated, the info."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        acted = self._acted(batch_of(self.env.action_space, [action]))
        views = self._see(observation, info)
        earned = float(reward)
        paid = float(self.bonus.step(None, acted, views, [earned], [terminated], [truncated])[0])
        info |= {"intrinsic_reward": paid, "extrinsic_reward": earned}
        return observation, earned + paid if self.add else reward, terminated, truncated, info

    def _see(self, observation: Any, info: dict[str, Any]) -> dict[str, np.ndarray]:
        try:
            seen = self._sight(batch_of(self.env.observation_space, [observation]))
        except GobiError as error:
            raise GobiError(f"step {self.bonus.steps + 1:,}: {error}") from error
        beside = self.bonus.reads - {"observation"}
        if beside - info.keys():
            raise GobiError(
                f"the reward reads {', '.join(sorted(beside))}: the environment's info lacks some"
            )
        return {"observation": seen} | {name: np.asarray(info[name])[None] for name in beside}


def _merged(lanes: Bool[np.ndarray, " envs"], new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(lanes.reshape(-1, *(1 for _ in new.shape[1:])), new, old)


def _placed(view: np.ndarray, lanes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    view = view.copy()
    view[lanes] = rows
    return view
