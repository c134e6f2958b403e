"""GoBI and its ablations, composed: reachability x lifelong."""

from __future__ import annotations

from typing import Any

from gobi.rewards.count import Count
from gobi.rewards.reachability import Reachability
from gobi.rewards.reward import Positive, Product, Reward


def GoBI(world: Any, lifelong: Reward | None = None, **options: Any) -> Product:
    """(m_{t+1} - m_t) / sqrt(N(o_{t+1})), or another reward as the lifelong factor (the paper's equation 1).

    `options` are those of `Reachability`.
    """
    return Product(Reachability(world, **options), Count() if lifelong is None else lifelong)


def R1(world: Any, **options: Any) -> Reachability:
    """The episodic factor alone: m_{t+1} - m_t."""
    return Reachability(world, **options)


def R2(world: Any, lifelong: Reward | None = None, **options: Any) -> Product:
    """[m_{t+1} > m_t] / sqrt(N(o_{t+1})): whether the memory grew, but not by how much."""
    return Product(Positive(Reachability(world, **options)), Count() if lifelong is None else lifelong)


def R3(lifelong: Reward | None = None) -> Reward:
    """The lifelong factor alone: 1 / sqrt(N(o_{t+1}))."""
    return Count() if lifelong is None else lifelong
