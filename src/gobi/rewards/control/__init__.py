"""Intrinsic rewards for off-policy learning on control tasks, from pixels or state vectors."""

from gobi.rewards.control.gobi import R1, GoBI, Replayed
from gobi.rewards.control.icm import ICM
from gobi.rewards.control.lessons import ControlReward, Lessons, Nothing
from gobi.rewards.control.re3 import RE3
from gobi.rewards.control.reachability import Reachability
from gobi.rewards.control.rnd import RND

__all__ = [
    "ICM",
    "R1",
    "RE3",
    "RND",
    "ControlReward",
    "GoBI",
    "Lessons",
    "Nothing",
    "Reachability",
    "Replayed",
]
