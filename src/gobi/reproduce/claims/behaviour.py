"""What the paper claims of what agents do."""

from __future__ import annotations

from gobi.reproduce.claims.claim import Claim
from gobi.reproduce.evidence import Evidence
from gobi.reproduce.judging import goes_less
from gobi.reproduce.studies import N7, S5
from gobi.reproduce.verdicts import Verdict

M = 1_000_000
BLIND_ALLEY = "tests/rewards/test_ec.py"
"""The test in it that is named after the blind alley."""


def _shown(evidence: Evidence) -> Verdict:
    """No run: a test of the repository, which must pass before anything is published."""
    del evidence
    told = (
        "GoBI looks five steps ahead there (k = 5), which is all of the alley; with k = 1 its memory grows "
        "by 3, 3 and 2 on the three steps in, and they pay"
    )
    return Verdict("shown by a test", f"EC with a comparator trained on random play; {told} ({BLIND_ALLEY})")


BEHAVIOUR = (
    Claim(
        "empty-rooms",
        "On KeyCorridorS5R3, GoBI's agent stays out of empty rooms at 3.5 and 7 million frames; "
        "NovelD's still enters them at 11 million.",
        "section 3.1, figure 4",
        "heatmaps --tasks KeyCorridorS5R3",
        goes_less(
            "empty_rooms",
            S5,
            ("heatmaps/gobi", (7 * M // 2, 7 * M)),
            ("heatmaps/noveld", (11 * M,)),
        ),
    ),
    Claim(
        "ec-corners",
        "On MultiRoom-N7-S8, EC's agent goes to the corners of rooms and lingers there; GoBI's does not.",
        "section 2.2, appendix C, figure 12",
        "heatmaps --tasks MultiRoom-N7-S8",
        goes_less("corners", N7, ("heatmaps/gobi", (M, 2 * M, 4 * M)), ("heatmaps/ec", (M, 2 * M, 4 * M))),
    ),
    Claim(
        "borders",
        "On MultiRoom-N7-S8, GoBI's agent keeps away from the borders of rooms early in training.",
        "appendix C, figure 12",
        "heatmaps --tasks MultiRoom-N7-S8",
        goes_less("borders", N7, ("heatmaps/gobi", (M,)), ("heatmaps/ec", (M,))),
    ),
    Claim(
        "blind-alley",
        "Going into an empty blind alley pays nothing under GoBI, and pays under EC.",
        "section 2.2",
        "",
        _shown,
        test=f"{BLIND_ALLEY} -k blind_alley",
    ),
)
