"""Our MiniGrid tasks as a Gymnasium vector environment. Needs the extra `gymnasium`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from gobi.adapters.play import DISABLED, NEXT_STEP, SHOWN, Play, Played, Table, packs
from gobi.adapters.torch_arrays import check_device, from_torch, to_torch
from gobi.envs.minigrid import MiniGrid, make
from gobi.envs.minigrid.generator import Generator
from gobi.envs.minigrid.rules import NUM_ACTIONS
from gobi.envs.minigrid.state import nth
from gobi.errors import GobiError, require, unknown

require("gymnasium", extra="gymnasium")

import gymnasium  # noqa: E402
from gymnasium.vector import AutoresetMode, VectorEnv  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402

KINDS = ("numpy", "torch", "jax")
"""What the outputs can be."""


class Vector(VectorEnv):
    """Lanes of one task on the device, as one `gymnasium.vector.VectorEnv`.

    It does what Gymnasium's SyncVectorEnv does in each of the three autoreset modes, with two differences.
    Lanes share one sequence of levels (a lane that starts again takes the next one, lower lanes first), so
    there is one seed for all. And where outputs stay on the device (`to` is "jax" or "torch"), the host looks
    at no values: `infos["final_obs"]` is one array of all lanes, to be read where `infos["_final_obs"]` is
    true, and neither unknown actions nor steps beyond an episode's end ("Disabled") are refused.

    task:            a name of `gobi tasks`, or a task family with sizes of your own.
    num_envs:        how many lanes.
    seed:            whose levels are played if the first reset names no seed; None for one at random.
    autoreset_mode:  "NextStep" (Gymnasium's default), "SameStep" or "Disabled", or Gymnasium's enum.
    to:              "numpy": outputs cross to the host, once a step. "jax": they stay on the device.
                     "torch": they stay there as tensors (through DLPack). Rewards are float64 on the host.
    views:           what `infos` shows beside the observation: "panorama", "full_grid".
    render_mode:     "rgb_array" for `render`, which then needs the extra `minigrid`.

    `env.max_steps` is the most steps of an episode, `env.task` the task itself.
    """

    def __init__(
        self,
        task: str | Generator,
        num_envs: int = 1,
        *,
        seed: int | None = 0,
        autoreset_mode: Any = NEXT_STEP,
        to: str = "numpy",
        views: Sequence[str] = (),
        render_mode: str | None = None,
    ):
        if to not in KINDS:
            raise unknown("kind of output", to, KINDS)
        if to == "torch":
            check_device()
        if render_mode not in (None, "rgb_array"):
            raise unknown("render mode", render_mode, ["rgb_array"])
        mode = str(getattr(autoreset_mode, "value", autoreset_mode))
        self.task = make(task)
        self.max_steps = self.task.spec.max_steps
        self._play = Play(_table(self.task, num_envs, mode, tuple(views), to))
        self.to = to
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {
            "autoreset_mode": AutoresetMode(mode),
            "render_modes": ["rgb_array"],
            SHOWN: tuple(views),
        }
        self.single_observation_space = observation_space()
        self.single_action_space = action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._mode = mode
        self._seed = seed
        self._over = np.zeros(num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts all lanes again, or those of `options["reset_mask"]`.

        With a seed the levels begin with that seed's first one; without, they go on where they were.
        """
        if not (seed is None or isinstance(seed, int | np.integer)):
            raise GobiError(f"all lanes share one sequence of levels and have one seed, got {seed!r}")
        super().reset(seed=None if seed is None else int(seed))
        mask = reset_mask(options, self.num_envs)
        if seed is None and not self._play.started:
            seed = int(self.np_random.integers(2**31)) if self._seed is None else self._seed
        played = self._play.reset(None if seed is None else level_seed(int(seed)), mask)
        touched = np.ones(self.num_envs, bool) if mask is None else mask.copy()
        self._over = self._over & ~touched
        infos = self._infos(played, touched)
        return self._out(played.observation), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One action for each lane: observations, rewards, terminations, truncations, infos."""
        if self._mode == DISABLED and self._over.any():
            ended = np.flatnonzero(self._over).tolist()
            raise GobiError(f"lanes {ended} have ended: reset them with options={{'reset_mask': ...}}")
        played = self._play.step(self._given(actions))
        infos = self._infos(played, np.ones(self.num_envs, bool))
        if self.to != "numpy":
            ends = [self._out(part) for part in (played.reward, played.terminated, played.truncated)]
            return self._out(played.observation), *ends, infos
        self._over = played.terminated | played.truncated
        rewards = played.reward.astype(np.float64)
        return played.observation, rewards, played.terminated, played.truncated, infos

    def render(self) -> tuple[Any, ...] | None:
        """The pictures of all lanes."""
        if self.render_mode is None:
            return None
        from gobi.envs.minigrid.render import frame

        states = jax.device_get(self._play.states)
        return tuple(frame(self.task, nth(states, lane)) for lane in range(self.num_envs))

    def _given(self, actions: Any) -> Int32[Array, " envs"] | Int32[np.ndarray, " envs"]:
        """The actions as int32, refused where they are no actions; values on a device are not looked at."""
        if self.to == "torch":
            actions = from_torch(actions)
        given = actions if isinstance(actions, jax.Array) else np.asarray(actions)
        if given.shape != (self.num_envs,) or not jnp.issubdtype(given.dtype, jnp.integer):
            raise GobiError(
                f"actions must be integers of shape ({self.num_envs},), "
                f"got {given.dtype} of shape {given.shape}"
            )
        if isinstance(given, np.ndarray) and not ((given >= 0) & (given < NUM_ACTIONS)).all():
            raise GobiError(f"actions must be in 0 .. {NUM_ACTIONS - 1}, got {given.tolist()}")
        return given.astype(np.int32)

    def _out(self, array: Any) -> Any:
        return to_torch(array) if self.to == "torch" else array

    def _infos(self, played: Played, touched: Bool[np.ndarray, " envs"]) -> dict[str, Any]:
        """What Gymnasium's vector environments would collect from the lanes that were played or reset."""
        if self.to != "numpy":
            return self._device_infos(played)
        infos = _batched(played.views, touched)
        done = np.asarray(played.terminated | played.truncated)
        if played.last_observation is None or played.last_views is None or not done.any():
            return infos
        final = np.full(self.num_envs, None, object)
        for lane in np.flatnonzero(done):
            final[lane] = played.last_observation[lane].copy()
        infos |= {"final_obs": final, "_final_obs": done}
        return infos | {"final_info": _batched(played.last_views, done), "_final_info": done.copy()}

    def _device_infos(self, played: Played) -> dict[str, Any]:
        """The same without a look at the values: the final observations of all lanes, and who ended."""
        infos = {name: self._out(view) for name, view in played.views.items()}
        if played.last_observation is not None and played.last_views is not None:
            done = self._out(played.terminated | played.truncated)
            last = {name: self._out(view) for name, view in played.last_views.items()}
            infos |= {"final_obs": self._out(played.last_observation), "_final_obs": done}
            infos |= {"final_info": last, "_final_info": done}
        return infos


def _table(env: MiniGrid, num_envs: int, mode: str, views: tuple[str, ...], to: str) -> Table:
    on_host = to == "numpy"
    return Table(env, num_envs, mode, views, on_host, packed=on_host and packs())


def observation_space() -> Any:
    """One observation, as Farama's ImgObsWrapper gives it."""
    return gymnasium.spaces.Box(0, 255, (7, 7, 3), np.uint8)


def action_space() -> Any:
    """One action."""
    return gymnasium.spaces.Discrete(NUM_ACTIONS)


def level_seed(seed: int) -> int:
    """The seed of the levels for one of Gymnasium's, which may be of any size: the same where it can be."""
    return seed if seed < 2**31 else int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)


def reset_mask(options: dict[str, Any] | None, num_envs: int) -> Bool[np.ndarray, " envs"] | None:
    """Which lanes to reset, None for all; refused by the rules of Gymnasium's vector environments."""
    mask = None if options is None else options.get("reset_mask")
    if mask is None:
        return None
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (num_envs,):
        raise GobiError(f"options['reset_mask'] must be a NumPy array of {num_envs} booleans, got {mask!r}")
    if not mask.any():
        raise GobiError("options['reset_mask'] names no lane")
    return mask


def _batched(views: Any, touched: Bool[np.ndarray, " envs"]) -> dict[str, Any]:
    """Views of some lanes as `infos` has them: zeros elsewhere, and a mask of where they are."""
    infos = {}
    for name, view in views.items():
        here = touched.reshape(-1, *[1] * (view.ndim - 1))
        infos |= {name: view if touched.all() else np.where(here, view, 0), f"_{name}": touched.copy()}
    return infos
