"""Memory on the device: codes of observations, the episodic set, actions executed, the lifelong counts."""

from gobi.memory import counts, episodic, executed
from gobi.memory.codes import SimHash, exact, mix
from gobi.memory.counts import LifelongCounts
from gobi.memory.episodic import EpisodicSet
from gobi.memory.executed import Executed

__all__ = [
    "EpisodicSet",
    "Executed",
    "LifelongCounts",
    "SimHash",
    "counts",
    "episodic",
    "exact",
    "executed",
    "mix",
]
