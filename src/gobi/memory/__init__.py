"""Memory on the device: codes of observations, episodic set and counts, actions executed, lifelong counts."""

from gobi.memory import counts, episodic, episodic_counts, executed
from gobi.memory.codes import SimHash, exact, mix
from gobi.memory.counts import LifelongCounts
from gobi.memory.episodic import EpisodicSet
from gobi.memory.episodic_counts import EpisodicCounts
from gobi.memory.executed import Executed

__all__ = [
    "EpisodicCounts",
    "EpisodicSet",
    "Executed",
    "LifelongCounts",
    "SimHash",
    "counts",
    "episodic",
    "episodic_counts",
    "exact",
    "executed",
    "mix",
]
