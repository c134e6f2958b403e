"""The engine of all adapters: an intrinsic reward that is paid step by step, beside somebody else's loop."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float32

from gobi.adapters import advice, choosing, running, saving
from gobi.adapters.arriving import Gate, Seen, first_wrong
from gobi.adapters.ledger import Ledger, own_of, row_of
from gobi.adapters.running import Program, Step
from gobi.errors import GobiError
from gobi.memory.crowding import crowded
from gobi.rewards.reward import Reward
from gobi.types import Spec

ADVICE_AT = 100_000
"""Frames after which the advice on the bonus's size is given, once."""

_log = logging.getLogger("gobi")


class Bonus:
    """An intrinsic reward for so many parallel environments, with everything that changes.

    reward:        the method: what was asked for, made for the task.
    spec:          what it was made for.
    coefficient:   what a bonus is multiplied with at first.
    decay:         rho: after so many frames it is coefficient x (1 - rho)^frames.
    steps:         calls of `step` so far.
    frames:        steps of single environments so far: what the decay counts.
    raw:           the last bonuses, before the coefficient.
    """

    def __init__(
        self,
        reward: Any,
        spec: Spec,
        num_envs: int,
        coefficient: float | None = None,
        decay: float = 0.0,
        seed: int = 0,
        learn_every: int = 128,
        views: frozenset[str] = frozenset({"observation"}),
        **options: Any,
    ):
        """Makes a reward ready for its first step.

        reward:       an id of `gobi rewards`, a `Reward` or a class of one, or path/file.py:Class.
        coefficient:  None takes what suits the reward and the task.
        learn_every:  steps of all environments after which a reward with networks learns from them.
        views:        what there is to read besides the observation, such as the panorama.
        options:      of the reward, see `choosing.choose`.
        """
        if not num_envs >= 1 or not learn_every >= 1:
            raise GobiError(f"num_envs and learn_every must be positive, got {num_envs} and {learn_every}")
        if not 0 <= decay < 1:
            raise GobiError(f"the decay of the coefficient must lie in [0, 1), got {decay}")
        self.asked = {"reward": reward, "views": views, "options": options}
        self.reward: Reward = choosing.choose(reward, spec, views=views, **options)
        self.spec, self.num_envs, self.learn_every = spec, num_envs, learn_every
        self.coefficient = choosing.coefficient(reward, spec) if coefficient is None else float(coefficient)
        if not math.isfinite(self.coefficient):
            raise GobiError(f"the coefficient must be a number, got {self.coefficient}")
        self.decay = float(decay)
        self.reads = self.reward.reads
        self.gate = Gate(spec, num_envs, self.reads)
        self.steps = self.frames = 0
        self.raw: Float32[np.ndarray, " envs"] = np.zeros(num_envs, np.float32)
        self.seed = seed
        self.key, own = jax.random.split(jax.random.key(seed))
        self.state = running.start(self.reward, own, spec, num_envs)
        self.program: Program | None = None
        self.place: dict[str, np.ndarray] | None = None
        self.ledger = Ledger(num_envs)

    def step(
        self,
        before: Seen | None,
        action: Any,
        after: Seen,
        reward: Any,
        terminated: Any,
        truncated: Any,
        real: Any = None,
    ) -> Float32[np.ndarray, " envs"]:
        """What each environment is paid for exploring in this step, already times the coefficient.

        before:  the views of where the actions were taken; None: where the last step led (saves a transfer).
        action:  int[envs] or float[envs, size], as the spec has them.
        after:   the views of where they led: at an episode's end its true last state.
        reward:  the task's own.
        real:    False where an environment was only reset: nothing is paid or learned there, and `after` is
                 the first sight of the new episode.
        """
        step = self.gate.step(self.steps + 1, action, after, reward, terminated, truncated, real)
        self.steps += 1
        if before is not None:
            self.stand(before)
        if self.ledger.frozen or not step.real.any():
            self.ledger.stale |= self.ledger.frozen
            self._program(step).stand(step.after)
            self.raw = np.zeros(self.num_envs, np.float32)
            return self.raw.copy()
        return self._pay(step)

    def present_coefficient(self) -> float:
        """The coefficient of the next step: coefficient x (1 - decay)^frames."""
        # A power of (1 - decay) in single precision would be far off after millions of frames.
        return self.coefficient * math.exp(self.frames * math.log1p(-self.decay))

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers worth logging, of the last whole rollout of `learn_every` steps.

        bonus, bonus_std:  mean and standard deviation of a step's bonus, before the coefficient.
        bonus_share:       the bonus's share in all that was paid, by size.
        coefficient:       as it is now.
        The others are the reward's own.
        """
        return self.ledger.metrics | {"coefficient": self.present_coefficient()}

    def advice(self) -> str:
        """What the sizes of bonus and reward so far say about the coefficient."""
        asked = self.asked["reward"]
        name = asked if isinstance(asked, str) else ""
        return advice.advice(self.ledger.sizes, self.coefficient, self.frames, name)

    def stand(self, views: Seen) -> None:
        """Tells where the environments stand now, if it is not where the last step led."""
        read = self.gate.views(self.steps + 1, views)
        if self.program is None:
            # Copied: the environments may write their next observations into the same memory.
            self.place = {name: view.copy() for name, view in read.items()}
        else:
            self.program.stand(read)

    def restart(self, first: Seen, lanes: Bool[np.ndarray, " envs"] | None = None) -> None:
        """These environments (None: all) were reset from outside, perhaps in the middle of an episode.

        first:  the views of where all environments stand now.
        """
        lanes = np.ones(self.num_envs, bool) if lanes is None else np.asarray(lanes, bool)
        views = self.gate.views(self.steps + 1, first)
        self.stand(views)
        cut = lanes & self.ledger.midway
        if self.program is None or not cut.any():
            return
        # A reset that is told as such makes episodic memories forget, and leaves no other trace. Environments
        # that were not reset stay where they are: what they see there is in their memories already.
        self.program.step(self.ledger.at, 0.0, self.gate.standing(views, ended=cut))
        self.ledger.sizes.forget(cut)
        self.ledger.midway &= ~cut

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """For evaluation: within, nothing is paid and nothing remembered. Episodes begin anew after it."""
        self.ledger.frozen, before = True, self.ledger.frozen
        try:
            yield
        finally:
            self.ledger.frozen = before

    def save(self, path: Path | str) -> Path:
        """Writes everything that changes to NAME.safetensors, and NAME.json beside it.

        path:  with or without the suffix, here and in `restore` and `load`; what is returned has it.
        """
        return saving.save(self, saving.file(path))

    def restore(self, path: Path | str) -> None:
        """Goes on from what was saved; with the same steps, every bonus is then the same to the last bit.

        Coefficient and decay stay this object's own.
        """
        saving.restore(self, saving.file(path))

    @classmethod
    def load(cls, path: Path | str, reward: Any = None) -> Bonus:
        """A saved bonus. One that was made from a reward's object, not its name, needs that again."""
        return saving.load(cls, saving.file(path), reward)

    def _pay(self, step: Step) -> Float32[np.ndarray, " envs"]:
        program, ledger = self._program(step), self.ledger
        if ledger.stale:
            ledger.stale = False
            self.restart(jax.device_get(program.running.before))
        both = program.step(ledger.at, self.present_coefficient(), step)
        self.raw, paid = both[0].copy(), both[1].copy()
        if not np.isfinite(paid).all():
            raise GobiError(f"the bonus is {first_wrong(paid)} at step {self.steps:,}")
        done = step.terminated | step.truncated
        ledger.midway = ~done
        ledger.sizes.add(paid, step.reward, done)
        before, self.frames = self.frames, self.frames + int(np.count_nonzero(step.real))
        ledger.at += 1
        if ledger.at == self.learn_every:
            self._end_rollout()
        if before < ADVICE_AT <= self.frames:
            _log.warning("%s", self.advice())
        return paid

    def _end_rollout(self) -> None:
        """Lessons, metrics and more room for memories that need it: every `learn_every` steps."""
        assert self.program is not None
        ledger = self.ledger
        told = self.program.told()
        lessons = self.program.learn(self.key, ledger.lessons)
        ledger.at, ledger.lessons = 0, ledger.lessons + 1
        row = row_of(told)
        full = crowded(row, ledger.row)
        ledger.row = row
        ledger.told(row, own_of(told), lessons)
        if full:
            self._grow(full)

    def _grow(self, memories: frozenset[str]) -> None:
        assert self.program is not None
        now = self.program.running
        larger = self.reward.grow(now.state, memories)
        if jax.tree.map(np.shape, larger) == jax.tree.map(np.shape, now.state):
            if not self.ledger.full:
                _log.warning(
                    "a memory of the bonus (%s) is more than half full and as large as it may be: what finds "
                    "no room counts as new, see the metrics dropped/...",
                    ", ".join(sorted(memories)),
                )
            self.ledger.full = True
            return
        self.ledger.grown.append(sorted(memories))
        self.program = Program(self.reward, now._replace(state=larger))

    def _program(self, step: Any) -> Program:
        if self.program is None:
            if self.place is None:
                raise GobiError("where did the first step begin? Give `before`, or call `restart` first")
            begun = running.begin(self.reward, self.state, step, self.learn_every)
            self.program = Program(self.reward, begun)
            self.program.stand(self.place)
            self.state = self.place = None
        return self.program
