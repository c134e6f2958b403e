"""What the paper claims of the parts of GoBI."""

from __future__ import annotations

from gobi.reproduce import verdicts
from gobi.reproduce.claims.claim import Claim
from gobi.reproduce.judging import each, pair, planned, solves, sooner
from gobi.reproduce.studies import MAZE, N7, S5

ABLATIONS = (
    Claim(
        "r1-multiroom",
        "R1, growth without the count, still solves MultiRoom.",
        "section 3.3, figure 7",
        "ablation --tasks MultiRoom-N7-S8 --arms r1",
        solves(N7, "ablation/r1"),
    ),
    Claim(
        "r1-elsewhere",
        "R1 is worse than GoBI on ObstructedMaze and on a large KeyCorridor.",
        "section 3.3, figure 7",
        "ablation --tasks KeyCorridorS5R3 ObstructedMaze-2Dlh --arms gobi r1",
        sooner([S5, MAZE], "ablation/gobi", "ablation/r1"),
    ),
    Claim(
        "r2",
        "R2, which pays for growing and not by how much, is far worse than GoBI.",
        "section 3.3, figure 7",
        "ablation --arms gobi r2",
        sooner([N7, S5, MAZE], "ablation/gobi", "ablation/r2"),
    ),
    Claim(
        "r3",
        "R3, the count alone, is the worst of the four, on all three families.",
        "section 3.3, figure 7",
        "ablation",
        each(
            *(
                pair(verdicts.sooner, task, f"ablation/{name}", "ablation/r3")
                for task in (N7, S5, MAZE)
                for name in ("gobi", "r1", "r2")
            )
        ),
    ),
    Claim(
        "illustration",
        "Over nine states, GoBI's best plan is one move to the centre, and R2's takes extra steps.",
        "appendix F, figure 14",
        "illustration",
        planned,
    ),
)
