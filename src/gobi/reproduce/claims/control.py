"""What the paper claims of DeepMind Control."""

from __future__ import annotations

from gobi.reproduce.claims.claim import Claim
from gobi.reproduce.judging import missing

_CONTROL = missing("the DeepMind Control half is not built yet")
CONTROL = tuple(
    Claim(name, text, where, "", _CONTROL)
    for name, text, where in (
        (
            "control",
            "From pixels, GoBI needs fewer frames than RE3, ICM and RND on four DeepMind Control tasks.",
            "abstract, sections 1 and 3.2, figure 6",
        ),
        (
            "control-episodic",
            "Multiplying RE3 with the episodic term helps a lot, most on Hopper Hop and Walker Run Sparse.",
            "section 3.2, figure 6",
        ),
        (
            "control-actions",
            "Five random actions do well on all four control tasks.",
            "section 3.2, appendix A.2",
        ),
        (
            "control-steps",
            "Three steps ahead are best on Pendulum Swingup, one on the other three.",
            "section 3.2, appendix A.2",
        ),
        ("control-hash", "A SimHash of 50 bits puts similar images together well enough.", "section 3.2"),
        (
            "control-data",
            "A world that predicts images takes far more data than one of MiniGrid.",
            "section 3.2, appendix A.2",
        ),
    )
)
