"""What could be seen next: the real simulator, the grid models, and models of anything else."""

from gobi.worlds.collecting import Transitions, collect, distinct
from gobi.worlds.drawing import picture
from gobi.worlds.erasure import erase_movable
from gobi.worlds.grid_model import GridModel
from gobi.worlds.network import Network, Settings
from gobi.worlds.networks import build, from_settings
from gobi.worlds.nowhere import Nowhere
from gobi.worlds.online import OnlineModel
from gobi.worlds.pretraining import train
from gobi.worlds.reporting import Report, report
from gobi.worlds.simulator import Simulator
from gobi.worlds.state_model import StateModel

__all__ = [
    "GridModel",
    "Network",
    "Nowhere",
    "OnlineModel",
    "Report",
    "Settings",
    "Simulator",
    "StateModel",
    "Transitions",
    "build",
    "collect",
    "distinct",
    "erase_movable",
    "from_settings",
    "picture",
    "report",
    "train",
]
