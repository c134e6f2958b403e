"""Numbers between bounds, to numbers between -1 and 1."""

from __future__ import annotations

import dataclasses

import numpy as np

FINITE = 1e6
"""Bounds from here on say no more than that there are none."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scale:
    """Which numbers have bounds, and from those bounds to -1 and 1."""

    bounded: np.ndarray
    middle: np.ndarray
    half: np.ndarray

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """The values [envs, numbers] with their bounds at -1 and 1."""
        return (values - self.middle) / self.half


def scale(low: np.ndarray, high: np.ndarray) -> Scale:
    """From these bounds; where there are none, numbers stay as they are."""
    low, high = low.reshape(-1), high.reshape(-1)
    bounded = (np.abs(low) < FINITE) & (np.abs(high) < FINITE)
    low, high = np.where(bounded, low, -1), np.where(bounded, high, 1)
    return Scale(bounded, (low + high) / 2, np.where(high > low, (high - low) / 2, 1))
