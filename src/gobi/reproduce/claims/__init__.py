"""What the paper claims, in our words: every sentence of a result, what tests it, and whether it held."""

from __future__ import annotations

from gobi.reproduce.claims.behaviour import BEHAVIOUR, BLIND_ALLEY
from gobi.reproduce.claims.claim import Claim
from gobi.reproduce.claims.control import CONTROL
from gobi.reproduce.claims.parts import ABLATIONS
from gobi.reproduce.claims.performance import PERFORMANCE
from gobi.reproduce.claims.settings import SETTINGS
from gobi.reproduce.claims.worlds import WORLDS

__all__ = ["BLIND_ALLEY", "CLAIMS", "CONTROL", "SECTIONS", "Claim", "of_study"]

SECTIONS = {
    "How fast it learns": PERFORMANCE,
    "Its parts": ABLATIONS,
    "Its worlds": WORLDS,
    "Its settings, and time": SETTINGS,
    "What agents do": BEHAVIOUR,
    "DeepMind Control": CONTROL,
}
CLAIMS = tuple(claim for claims in SECTIONS.values() for claim in claims)


def of_study(name: str) -> list[Claim]:
    """The claims that a study tests."""
    return [claim for claim in CLAIMS if claim.study == name]
