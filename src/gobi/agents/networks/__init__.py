"""Policies by name: for grids one torso with memory, for any other task an actor and a critic by its spec."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Key

from gobi.agents.networks import grid, separate
from gobi.agents.networks.grid import Carry
from gobi.agents.networks.lstm import LSTM, LSTMState, lstm
from gobi.agents.networks.mingru import MinGRU, MinGRUState, mingru
from gobi.errors import unknown
from gobi.types import Spec

__all__ = [
    "LSTM",
    "NETWORKS",
    "Carry",
    "LSTMState",
    "MinGRU",
    "MinGRUState",
    "build",
    "lstm",
    "mingru",
]

NETWORKS = (*grid.NETWORKS, *separate.NETWORKS)


def build(name: str, spec: Spec, key: Key[Array, ""], units: int = separate.UNITS) -> Any:
    """A fresh policy with one value for a task.

    name:   paper, coded or compact (uint8 observations); feedforward or recurrent (any).
    units:  width of feedforward and recurrent ones; the others have their own.
    """
    if name not in NETWORKS:
        raise unknown("network", name, NETWORKS)
    if name in separate.NETWORKS:
        return separate.build(spec, key, name, units)
    return grid.build(name, spec, key)
