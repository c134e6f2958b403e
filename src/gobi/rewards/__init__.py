"""Intrinsic rewards: one file per method, the same few calls."""

from gobi.rewards.count import Count
from gobi.rewards.gobi import R1, R2, R3, GoBI
from gobi.rewards.reachability import Reachability
from gobi.rewards.reward import Nothing, Positive, Product, Reward

__all__ = ["R1", "R2", "R3", "Count", "GoBI", "Nothing", "Positive", "Product", "Reachability", "Reward"]
