"""PPO on the device: recurrent, several epochs of minibatches, a value each for task and bonus."""

from gobi.agents.networks import MinGRU, MinGRUState, mingru
from gobi.agents.ppo.gae import gae
from gobi.agents.ppo.networks import CORES, Policy, build
from gobi.agents.ppo.ppo import PPO, Hyper

__all__ = ["CORES", "PPO", "Hyper", "MinGRU", "MinGRUState", "Policy", "build", "gae", "mingru"]
