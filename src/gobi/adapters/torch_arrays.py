"""Arrays between JAX and torch without a copy, through DLPack. Needs torch."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Shaped

from gobi.errors import GobiError, require


def check_device() -> None:
    """Refuses a torch that is not there, or that cannot reach the arrays where JAX keeps them."""
    torch = require("torch", extra="sb3")
    if jax.default_backend() == "gpu" and not torch.cuda.is_available():
        raise GobiError(
            "JAX's arrays are on a GPU that this torch cannot use: install one that can, or to='numpy'"
        )


def to_torch(array: Shaped[Array, "..."]) -> Any:
    """A tensor that shares the array's memory, on the same device. Do not write to it."""
    return require("torch", extra="sb3").from_dlpack(array)


def from_torch(tensor: Any) -> Any:
    """Integers of a tensor as a JAX array on JAX's own device; anything but a tensor is returned as it is."""
    torch = require("torch", extra="sb3")
    if not isinstance(tensor, torch.Tensor):
        return tensor
    # JAX has no 64-bit integers by default.
    narrow = tensor.detach().to(torch.int32) if tensor.dtype == torch.int64 else tensor.detach()
    if narrow.device.type == "cpu":
        return narrow.numpy()
    return jax.device_put(jax.dlpack.from_dlpack(narrow.contiguous()), jax.devices()[0])
