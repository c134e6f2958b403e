"""A world model for control from pixels: the recurrent state-space model of Dreamer (2019)."""

from gobi.worlds.rssm.frames import SCALINGS, SHAPE, MeanImage, scaled, shrink
from gobi.worlds.rssm.network import Sizes
from gobi.worlds.rssm.recurrence import Belief
from gobi.worlds.rssm.world import RSSM, RSSMState

__all__ = [
    "RSSM",
    "SCALINGS",
    "SHAPE",
    "Belief",
    "MeanImage",
    "RSSMState",
    "Sizes",
    "scaled",
    "shrink",
]
