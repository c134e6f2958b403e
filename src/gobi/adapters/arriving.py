"""Steps as a loop on the host hands them over: brought into one form, refused where they cannot be right."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from gobi.adapters.batches import as_array
from gobi.adapters.running import Step
from gobi.errors import GobiError
from gobi.types import Spec

Seen = Mapping[str, Any] | np.ndarray
"""Views by name, each with one row for each environment; or the observations alone."""

NOT_NUMBERS = "OUSmM"
"""NumPy's kinds of arrays that hold objects, words or times."""
LONGEST = 60


@dataclasses.dataclass(frozen=True)
class Gate:
    """What steps must be like.

    spec:      of the task.
    num_envs:  rows of each array.
    reads:     the views that must be there.
    """

    spec: Spec
    num_envs: int
    reads: frozenset[str]

    def step(
        self,
        number: int,
        action: Any,
        after: Seen,
        reward: Any,
        terminated: Any,
        truncated: Any,
        real: Any = None,
    ) -> Step:
        """The step of that number. Where it is not real, an episode of no steps ends."""
        size = (self.spec.action_size,) if self.spec.action_size else ()
        acted = self._rows(number, "actions", action, np.float32 if size else np.int32, size)
        earned = self._rows(number, "rewards", reward, np.float32)
        ended = self._rows(number, "terminated", terminated, bool)
        cut = self._rows(number, "truncated", truncated, bool)
        real = np.ones(self.num_envs, bool) if real is None else self._rows(number, "real", real, bool)
        step = Step(acted, self.views(number, after), earned, ended | ~real, cut & real, real)
        if not np.isfinite(step.reward).all():
            raise GobiError(f"the task's own reward is {first_wrong(step.reward)} at step {number:,}")
        return step

    def standing(self, views: dict[str, np.ndarray], ended: np.ndarray) -> Step:
        """No step at all: all stay where they are, and the episodes of some end there."""
        size = (self.spec.action_size,) if self.spec.action_size else ()
        action = np.zeros((self.num_envs, *size), np.float32 if size else np.int32)
        never = np.zeros(self.num_envs, bool)
        return Step(action, views, np.zeros(self.num_envs, np.float32), ended, never, never)

    def views(self, number: int, seen: Seen) -> dict[str, np.ndarray]:
        """The views that the reward reads, at the step of that number."""
        views = seen if isinstance(seen, Mapping) else {"observation": seen}
        missing = self.reads - views.keys()
        if missing:
            given = ", ".join(sorted(views))
            raise GobiError(f"the reward reads {', '.join(sorted(missing))}, but was given only {given}")
        read = {name: np.asarray(views[name]) for name in self.reads}
        for name, view in read.items():
            self._check_view(number, name, view)
        return read

    def _rows(self, number: int, name: str, given: Any, dtype: Any, size: tuple[int, ...] = ()) -> np.ndarray:
        """One row of numbers for each environment."""
        rows, shape = as_array(given), (self.num_envs, *size)
        if rows is None or rows.dtype.kind in NOT_NUMBERS:
            raise GobiError(
                f"{name} of step {number:,} must be numbers of shape {list(shape)}, got {short(given)}"
            )
        if rows.shape != shape:
            raise GobiError(
                f"{name} of step {number:,} must be of shape {list(shape)}, got {list(rows.shape)}"
            )
        return rows.astype(dtype, copy=False)

    def _check_view(self, number: int, name: str, view: np.ndarray) -> None:
        if name == "observation":
            wanted, dtype = (self.num_envs, *self.spec.observation_shape), self.spec.observation_dtype
            if view.shape != wanted or view.dtype != dtype:
                raise GobiError(
                    f"observations must be {dtype} {list(wanted)}, got {view.dtype} {list(view.shape)}"
                )
        if view.dtype.kind == "f" and not np.isfinite(view).all():
            raise GobiError(f"the {name} holds {first_wrong(view)} at step {number:,}")


def short(given: Any) -> str:
    """What was given, in a few words for an error."""
    words = repr(given)
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}..."


def first_wrong(values: np.ndarray) -> str:
    """The first number that is none, and the environment it comes from."""
    place = np.argwhere(~np.isfinite(values))[0]
    return f"{values[tuple(place)]} in environment {place[0]}"
