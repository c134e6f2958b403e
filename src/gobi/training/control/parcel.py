"""What an environment sends at a step, as one row of bytes: any transfer takes long, however small it is."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, UInt8

from gobi.envs.dmc import Step
from gobi.types import Spec

Parcel = UInt8[Array, " bytes"]


def packed(reached: Step) -> Parcel:
    """A step, on the device."""
    ends = np.array([reached.terminated, reached.truncated], np.uint8)
    parts = np.ascontiguousarray(reached.observation), np.float32(reached.reward).reshape(1), ends
    return jax.device_put(np.concatenate([part.reshape(-1).view(np.uint8) for part in parts]))


def observation(parcel: Parcel, spec: Spec) -> UInt8[Array, "h w c"] | Float32[Array, " size"]:
    """What is seen after the step."""
    size = math.prod(spec.observation_shape) * np.dtype(spec.observation_dtype).itemsize
    return _read(parcel[:size], spec.observation_dtype).reshape(spec.observation_shape)


def earned(parcel: Parcel) -> tuple[Float32[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
    """The task's reward, and whether the episode was terminated or truncated."""
    return _read(parcel[-6:-2], "float32")[0], parcel[-2] > 0, parcel[-1] > 0


def _read(data: UInt8[Array, " bytes"], dtype: str) -> Array:
    rows = data.reshape(-1, np.dtype(dtype).itemsize)
    return jax.lax.bitcast_convert_type(rows if rows.shape[1] > 1 else rows[:, 0], jnp.dtype(dtype))
