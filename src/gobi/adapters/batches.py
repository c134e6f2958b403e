"""Batches of observations as environments hand them over, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from gobi.errors import GobiError


def as_array(given: Any) -> np.ndarray | None:
    """What was given as an array; None where rows differ in length."""
    try:
        return np.asarray(given)
    except ValueError:
        return None


def checked(batch: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The batch as an array, refused if its rows have another shape, or numbers in them that are none."""
    array = np.asarray(batch)
    if array.shape[1:] != shape or array.ndim != len(shape) + 1:
        raise GobiError(
            f"observations of shape {list(shape)} were announced, a batch of shape {list(array.shape)} came"
        )
    if array.dtype.kind == "f":
        wrong = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        if wrong.any():
            lane = int(wrong.argmax())
            raise GobiError(f"environment {lane}: the observation has NaN or infinite numbers in it")
    return array
