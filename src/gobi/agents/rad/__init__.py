"""RAD on the device: soft actor-critic on randomly cropped pixels, and a replay that stores frames once."""

from gobi.agents.rad.learner import RAD, Acting, Learner
from gobi.agents.rad.replay import STACK, Batch, Replay, Sequences, empty, slots_for

__all__ = ["RAD", "STACK", "Acting", "Batch", "Learner", "Replay", "Sequences", "empty", "slots_for"]
