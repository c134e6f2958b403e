"""What the paper claims of settings, and of time."""

from __future__ import annotations

from gobi.reproduce import measured, verdicts
from gobi.reproduce.claims.claim import Claim
from gobi.reproduce.judging import alike, each, pair, sooner
from gobi.reproduce.studies import N7, N12, PAPER_RATIO

SETTINGS = (
    Claim(
        "steps-real",
        "With the real simulator, looking further ahead (k = 2 or 3) learns sooner than k = 1.",
        "section 3.3, figure 9",
        "steps --arms real-k1 real-k2 real-k3",
        each(*(pair(verdicts.sooner, N7, f"steps/real-k{k}", "steps/real-k1") for k in (2, 3))),
    ),
    Claim(
        "steps-two",
        "With a learned world two steps ahead learn sooner than one.",
        "section 3.3, figure 9",
        "steps --arms learned-k1 learned-k2",
        sooner([N7], "steps/learned-k2", "steps/learned-k1"),
    ),
    Claim(
        "steps-three",
        "With a learned world three steps ahead are no better than two.",
        "section 3.3, figure 9",
        "steps --arms learned-k2 learned-k3",
        pair(verdicts.not_sooner, N7, "steps/learned-k3", "steps/learned-k2"),
    ),
    Claim(
        "decay-fast",
        "On MultiRoom-N12-S10 a decay of 1e-6 ends the bonus too early: worse than 8e-7.",
        "appendix B.1, figure 10",
        "decay --arms rho-8e-7 rho-1e-6",
        sooner([N12], "decay/rho-8e-7", "decay/rho-1e-6"),
    ),
    Claim(
        "decay-slow",
        "There a decay of 5e-7 leaves so much bonus that the policy settles later than with 8e-7.",
        "appendix B.1, figure 10",
        "decay --arms rho-5e-7 rho-8e-7",
        sooner([N12], "decay/rho-8e-7", "decay/rho-5e-7"),
    ),
    Claim(
        "actions-alike",
        "Imagining 5, 10 or 15 random actions does about equally well.",
        "appendix B.2, figure 11",
        "actions --arms n5 n10 n15",
        alike(N7, "actions/n5", "actions/n10", "actions/n15"),
    ),
    Claim(
        "actions-three",
        "Imagining 3 random actions is a little slower than 5.",
        "appendix B.2, figure 11",
        "actions --arms n3 n5",
        sooner([N7], "actions/n5", "actions/n3"),
    ),
    Claim(
        "actions-enough",
        "Even with 3 random actions GoBI needs fewer frames than the best method before it.",
        "appendix B.2, figure 11",
        "actions --arms n3 && gobi reproduce minigrid --tasks MultiRoom-N7-S8 --arms noveld",
        sooner([N7], "actions/n3", "minigrid/noveld"),
    ),
    Claim(
        "actions-time",
        "The more actions are imagined, the longer training takes.",
        "appendix B.2",
        "actions --arms n5 n15",
        pair(measured.takes_longer, N7, "actions/n15", "actions/n5"),
    ),
    Claim(
        "wallclock",
        "For as many frames GoBI takes about twice as long as NovelD: 10.65 and 5.46 hours, a ratio of "
        f"{PAPER_RATIO:g}.",
        "appendix D, table 5",
        "wallclock",
        pair(measured.takes_times_as_long, N7, "wallclock/gobi", "wallclock/noveld", PAPER_RATIO),
    ),
)
