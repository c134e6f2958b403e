"""What the paper claims of how fast agents learn."""

from __future__ import annotations

from gobi.reproduce import searches, verdicts
from gobi.reproduce.claims.claim import Claim
from gobi.reproduce.judging import fails, none_works, pair, solves, sooner, sooner_than_all
from gobi.reproduce.studies import N7, S5, TWELVE

MAZES = tuple(task for task in TWELVE if "ObstructedMaze" in task)
BLOCKED = "MiniGrid-ObstructedMaze-2Dlhb-v0"
FULL = "MiniGrid-ObstructedMaze-Full-v0"

PERFORMANCE = (
    Claim(
        "twelve",
        "On every one of twelve hard MiniGrid tasks GoBI needs fewer frames than NovelD, RIDE, RND and EC.",
        "abstract, sections 1, 3.1 and 6, figure 5",
        "minigrid",
        sooner_than_all(
            TWELVE, "minigrid/gobi", [f"minigrid/{name}" for name in ("noveld", "ride", "rnd", "ec")]
        ),
    ),
    Claim(
        "three-times",
        "On ObstructedMaze-2Dlhb, NovelD needs about three times as many frames as GoBI.",
        "section 3.1",
        "minigrid --tasks ObstructedMaze-2Dlhb-v0 --arms gobi noveld",
        pair(verdicts.times_as_many, BLOCKED, "minigrid/noveld", "minigrid/gobi", 3.0),
    ),
    Claim(
        "full",
        "On ObstructedMaze-Full, GoBI is close to the best possible within 70 million frames.",
        "section 3.1",
        "minigrid --tasks ObstructedMaze-Full-v0 --arms gobi",
        solves(FULL, "minigrid/gobi"),
    ),
    Claim(
        "ec-fails",
        "EC does not learn these tasks well, although it was tuned.",
        "section 3.1, appendix C",
        "minigrid --arms ec",
        fails(TWELVE, "minigrid/ec"),
    ),
    Claim(
        "ec-grid",
        "A grid search over EC's settings on MultiRoom-N7-S8 finds none that works.",
        "appendices A.1 and C",
        "ec-grid",
        none_works(N7, "ec-grid", [arm.name for arm in searches.curiosity(N7)]),
    ),
    Claim(
        "noveld-mazes",
        "With its published settings NovelD does not reach its own published results on ObstructedMaze.",
        "appendix A.1",
        "minigrid --arms noveld",
        fails(MAZES, "minigrid/noveld"),
    ),
    Claim(
        "keycorridor",
        "On KeyCorridorS5R3, GoBI is at the best policy before NovelD.",
        "section 3.1, figure 4",
        "minigrid --tasks KeyCorridorS5R3 --arms gobi noveld",
        sooner([S5], "minigrid/gobi", "minigrid/noveld"),
    ),
)
