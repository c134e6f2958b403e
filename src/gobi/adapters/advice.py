"""How large the bonus is beside what the task itself pays, and what to do about it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64

FEW = 20
"""Episodes, below which nothing is said of their returns."""
MOST, LEAST = 1.0, 0.02
"""An episode's bonus beside the return of a rewarded one: above and below, it is too large or too small."""
AIM = 0.3
"""Where the advice would put it."""
RARE = 0.1
"""While a smaller share of episodes is rewarded, a bonus may outweigh a return: it has yet to lead there."""
COMMON = 0.5
"""Where a larger share of episodes is rewarded, the task is found, and a small bonus is no fault."""
SPENT = 0.02
"""A bonus that fell to this share of what it was at first is spent."""
BOLDEST = 10.0
"""Before the task has rewarded anything, no coefficient of more than so many times the one that was set."""
FORGETFUL = ("gobi", "noveld", "ride", "ngu", "e3b")
"""Rewards that forget at an episode's end."""


@dataclasses.dataclass
class Sizes:
    """What episodes brought, by bonus and by the task's own reward.

    bonus, earned:   of the episode that is running, for each environment. Earned are rewards above 0: what
                     a step costs tells nobody where to go.
    episodes:        finished ones.
    bonuses:         what they were paid for exploring, in total (its size, after the coefficient).
    rewarded:        how many of them earned anything.
    returns:         what they earned, in total.
    at_first, late:  the mean bonus of a step, over the first rollout and over the last.
    """

    bonus: Float64[np.ndarray, " envs"]
    earned: Float64[np.ndarray, " envs"]
    episodes: int = 0
    bonuses: float = 0.0
    rewarded: int = 0
    returns: float = 0.0
    at_first: float | None = None
    late: float = 0.0

    @classmethod
    def none(cls, num_envs: int) -> Sizes:
        """Before the first step."""
        return cls(np.zeros(num_envs), np.zeros(num_envs))

    def add(
        self,
        bonus: Float32[np.ndarray, " envs"],
        earned: Float32[np.ndarray, " envs"],
        done: Bool[np.ndarray, " envs"],
    ) -> None:
        """One step of every environment."""
        self.bonus += np.abs(bonus)
        self.earned += np.maximum(earned, 0)
        if done.any():
            self.episodes += int(done.sum())
            self.bonuses += float(self.bonus[done].sum())
            self.rewarded += int((self.earned[done] > 0).sum())
            self.returns += float(self.earned[done].sum())
            self.forget(done)

    def forget(self, lanes: Bool[np.ndarray, " envs"]) -> None:
        """Episodes begin in these environments."""
        self.bonus[lanes] = 0
        self.earned[lanes] = 0

    def saved(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dataclasses.asdict(self) | {"bonus": self.bonus.tolist(), "earned": self.earned.tolist()}

    @classmethod
    def restored(cls, saved: dict[str, Any]) -> Sizes:
        """What `saved` took apart."""
        lanes: dict[str, Any] = {name: np.array(saved[name]) for name in ("bonus", "earned")}
        return cls(**saved | lanes)


def advice(sizes: Sizes, coefficient: float, frames: int, reward: str = "") -> str:
    """What the sizes say about the coefficient, in a few words.

    coefficient:  as it was set, before any decay: what is proposed is to be set in its place.
    reward:       the id of the one that pays the bonus, if it has one: it is not recommended instead.
    """
    began = f"after {frames:,} frames"
    if sizes.at_first is not None and abs(sizes.late) < SPENT * abs(sizes.at_first):
        return (
            f"{began} a step's bonus is {_share(sizes.late, sizes.at_first)} of what it was at first: it is "
            "spent, and a larger coefficient would not bring it back. If the task is not solved, try "
            f"{'another' if reward in FORGETFUL else 'a'} reward that forgets at an episode's end "
            f"({', '.join(name for name in FORGETFUL if name != reward)})."
        )
    if sizes.episodes < FEW:
        return f"{began} only {sizes.episodes} episodes have ended: too few to judge the bonus's size."
    bonus = sizes.bonuses / sizes.episodes
    if not bonus:
        return (
            f"{began} not one of {sizes.episodes} episodes was paid a bonus. If the reward has to learn "
            "something first, wait; else all observations may look alike to it, as numbers do that fill a "
            "small part of their bounds, or have none: in your own loop, scale them (observe=) or take finer "
            "codes (hash=)."
        )
    if not sizes.rewarded:
        suited = f"{min(float(_one(coefficient * AIM / bonus)), BOLDEST * coefficient):.3g}"
        return (
            f"{began} none of {sizes.episodes} episodes had a reward above 0: an episode's bonus is "
            f"{bonus:.3g}, and all that leads to the first one. Leave the coefficient at {coefficient:.3g} "
            f"until there are rewards; if an episode should then earn about 1, {suited} keeps the bonus "
            "below that."
        )
    return f"{began} {_compared(bonus, sizes, coefficient)}"


def _compared(bonus: float, sizes: Sizes, coefficient: float) -> str:
    earned = sizes.returns / sizes.rewarded
    ratio = bonus / earned
    seen = (
        f"an episode's bonus is {bonus:.3g} and a rewarded episode earns {earned:.3g} "
        f"({sizes.rewarded} of {sizes.episodes} were rewarded)"
    )
    better = _one(coefficient * AIM / ratio)
    if ratio > MOST and sizes.rewarded < RARE * sizes.episodes:
        return (
            f"{seen}: exploring pays more than the task does, as it may while rewards are rare. If it still "
            f"does when they are not, try the coefficient {better} instead of {coefficient:.3g}, or a decay."
        )
    if ratio > MOST:
        return (
            f"{seen}: exploring pays more than the task does. Try the coefficient {better} instead of "
            f"{coefficient:.3g}, or a decay."
        )
    if ratio < LEAST and sizes.rewarded > COMMON * sizes.episodes:
        return f"{seen}: by now the task pays without a bonus. Leave the coefficient as it is."
    if ratio < LEAST:
        return (
            f"{seen}: too little to matter. Try the coefficient {better} instead of {coefficient:.3g}, or "
            "leave the bonus out if the task is learned without it."
        )
    return f"{seen}: a bonus that guides without outweighing the task. Leave the coefficient as it is."


def _one(number: float) -> str:
    """A number to one digit, as advice is."""
    return f"{float(f'{number:.0e}'):g}"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2g} %"
