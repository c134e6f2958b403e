"""The paper's figures as studies: what is trained, and what is made of it."""

from gobi.reproduce.studies import STUDIES
from gobi.reproduce.study import Arm, Study

__all__ = ["STUDIES", "Arm", "Study"]
