"""IMPALA on the device: policies with memory, V-trace, RMSProp as in torch."""

from gobi.agents.impala.learner import Hyper, Timeouts, Unroll, learn
from gobi.agents.impala.optimiser import RMSProp
from gobi.agents.impala.optimiser import init as init_optimiser
from gobi.agents.impala.vtrace import VTrace, vtrace
from gobi.agents.networks import NETWORKS, Carry, build
from gobi.agents.networks.grid import Policy

__all__ = [
    "NETWORKS",
    "Carry",
    "Hyper",
    "Policy",
    "RMSProp",
    "Timeouts",
    "Unroll",
    "VTrace",
    "build",
    "init_optimiser",
    "learn",
    "vtrace",
]
