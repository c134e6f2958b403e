"""Searches over two settings: every combination of their values is an arm, and a cell of a table."""

from __future__ import annotations

from collections.abc import Sequence

from gobi.reproduce.study import Arm, Cell
from gobi.rewards import registry

MULTIPLES = ("0.25", "0.5", "1", "2", "4")
"""Of each method's own coefficient: bonuses are of different sizes, so that no lambda is fair to all."""
DECAYS = ("0", "6e-7", "1.5e-6")
"""None; the paper's rho on MultiRoom-N7-S8; and its largest."""

BETAS = ("0.25", "0.5", "0.75", "1")
THRESHOLDS = ("0.25", "0.5", "0.75", "0.9")
"""Around one half, which episodic curiosity's authors have for both. The paper does not tell its grid."""


def tuned(task: str, rewards: Sequence[str]) -> tuple[Arm, ...]:
    """The same multiples of lambda, and the same rho, for every method."""
    return tuple(
        Arm(
            f"{reward}-x{multiple}-rho-{decay}",
            task,
            {
                "reward": reward,
                "coefficient": float(multiple) * registry.coefficient(reward, task),
                "decay": float(decay),
            },
            cell=Cell(reward, multiple, decay),
        )
        for reward in rewards
        for multiple in MULTIPLES
        for decay in DECAYS
    )


def curiosity(task: str) -> tuple[Arm, ...]:
    """Episodic curiosity with every beta and every threshold."""
    return tuple(
        Arm(
            f"beta-{beta}-threshold-{threshold}",
            task,
            {"reward": "ec", "reward_options": f"beta={beta},threshold={threshold}"},
            cell=Cell("ec", beta, threshold),
        )
        for beta in BETAS
        for threshold in THRESHOLDS
    )
