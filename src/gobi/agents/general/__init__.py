"""IMPALA for any observations and actions: networks by the task's spec, discrete or Gaussian policies."""

from gobi.agents.general.learner import Hyper, Learner, Unroll, init, learn
from gobi.agents.general.networks import Policy, build

__all__ = ["Hyper", "Learner", "Policy", "Unroll", "build", "init", "learn"]
