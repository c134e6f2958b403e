"""Searches over two settings: their combinations are arms, and most of these cells of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gobi.reproduce.study import Arm, Cell
from gobi.rewards import registry

MULTIPLES = ("0.25", "0.5", "1", "2", "4")
"""Of each method's own coefficient: bonuses are of different sizes, so that no lambda is fair to all."""
DECAYS = ("0", "6e-7", "1.5e-6")
"""None; the paper's rho on MultiRoom-N7-S8; and its largest."""

BETAS = ("0.25", "0.5", "0.75", "1")
THRESHOLDS = ("0.25", "0.5", "0.75", "0.9")
"""Around one half, which episodic curiosity's authors have for both. The paper does not tell its grid."""

FUTURES = (3, 5, 10, 20)
STEPS = (1, 2, 3, 5)
CHOSEN = 5
"""The paper's searches on control: for n, for k, and the n that it chose. Each leaves the other one alone."""


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


def imagined(tasks: Mapping[str, int]) -> tuple[Arm, ...]:
    """GoBI on control tasks with every n and the paper's k, then with every k and the paper's n.

    tasks:  the k that the paper chose on each.
    """
    return tuple(
        Arm(cross(futures, steps), task, {"imagined_actions": futures, "steps": steps})
        for task, chosen in tasks.items()
        for futures, steps in dict.fromkeys(
            [*((futures, chosen) for futures in FUTURES), *((CHOSEN, steps) for steps in STEPS)]
        )
    )


def cross(futures: int, steps: int) -> str:
    """The arm's name."""
    return f"n{futures}-k{steps}"
