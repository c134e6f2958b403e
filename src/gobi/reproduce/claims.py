"""What the paper claims, in our words: every sentence of a result, what tests it, and whether it held."""

from __future__ import annotations

import dataclasses

from gobi.reproduce import measured, verdicts
from gobi.reproduce.evidence import Evidence, NotRun
from gobi.reproduce.judging import (
    Judge,
    alike,
    each,
    fails,
    goes_less,
    missing,
    on_each,
    pair,
    planned,
    saves_more,
    solves,
    sooner,
    sooner_than_all,
)
from gobi.reproduce.searches import BETAS, THRESHOLDS
from gobi.reproduce.studies import MAZE, N7, N12, S4, S5, TWELVE
from gobi.reproduce.verdicts import Verdict

MAZES = tuple(task for task in TWELVE if "ObstructedMaze" in task)
BLOCKED = "MiniGrid-ObstructedMaze-2Dlhb-v0"
FULL = "MiniGrid-ObstructedMaze-Full-v0"
M = 1_000_000
BLIND_ALLEY = "tests/rewards/test_ec.py"
"""The test in it that is named after the blind alley."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A result that the paper claims.

    name:   for tables and links.
    text:   the claim in our words.
    where:  where the paper makes it.
    runs:   what `gobi reproduce` must be told to test it: the study first; empty where nothing does.
    judge:  whether it held, from all runs that were found.
    """

    name: str
    text: str
    where: str
    runs: str
    judge: Judge

    @property
    def study(self) -> str:
        """The study that tests it."""
        return self.runs.partition(" ")[0]

    @property
    def command(self) -> str:
        """What tests it; empty if nothing does yet."""
        if self.name == "blind-alley":
            return f"pytest {BLIND_ALLEY} -k blind_alley"
        return f"gobi reproduce {self.runs}" if self.runs else ""

    def verdict(self, evidence: Evidence) -> Verdict:
        """Whether it held; not run if runs are missing."""
        try:
            return self.judge(evidence)
        except NotRun as what:
            return Verdict("not run", str(what))


def of_study(name: str) -> list[Claim]:
    """The claims that a study tests."""
    return [claim for claim in CLAIMS if claim.study == name]


def _tested(evidence: Evidence) -> Verdict:
    """No run: a test of the repository, which must pass before anything is published."""
    del evidence
    return Verdict("held", f"a test shows it, with a comparator trained on random play ({BLIND_ALLEY})")


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
        fails([N7], *(f"ec-grid/beta-{beta}-threshold-{bar}" for beta in BETAS for bar in THRESHOLDS)),
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

WORLDS = (
    Claim(
        "real-sooner",
        "With the real simulator as its world GoBI learns sooner than with a learned one.",
        "sections 3.3 and 5, figure 8",
        "dynamics",
        sooner([N7, S4], "dynamics/real", "dynamics/learned"),
    ),
    Claim(
        "real-keycorridor",
        "The simulator helps more on KeyCorridor than on MultiRoom.",
        "figure 8",
        "dynamics",
        saves_more(S4, N7, "dynamics/learned", "dynamics/real"),
    ),
    Claim(
        "learned-enough",
        "With a learned, imperfect world GoBI still needs fewer frames than the best method before it.",
        "sections 2.1 and 3.3, figure 8",
        "minigrid --tasks MultiRoom-N7-S8 KeyCorridorS4R3 --arms gobi noveld",
        sooner([N7, S4], "minigrid/gobi", "minigrid/noveld"),
    ),
    Claim(
        "accuracy",
        "A world that predicts less exactly makes GoBI slower.",
        "section 5; the paper asks it in section 3 and shows no figure",
        "accuracy",
        sooner([N7], "accuracy/1e5", "accuracy/1e3"),
    ),
    Claim(
        "doors",
        "What lies behind a door that opens for the first time is mostly not predicted right.",
        "section 3.3",
        "minigrid --arms gobi",
        on_each(TWELVE, "minigrid/gobi", measured.doors_are_not_foreseen),
    ),
    Claim(
        "pairs",
        "Some 50,000 of the 100,000 transitions of random play are different.",
        "section 3.1",
        "minigrid --arms gobi",
        on_each(TWELVE, "minigrid/gobi", measured.about_so_many_pairs, 50_000),
    ),
    Claim(
        "fine-tuning",
        "Fine-tuning the pre-trained world while the policy learns changes little.",
        "section 3.1, appendix E, figure 13",
        "pretraining --arms fixed finetuned",
        alike(N7, "pretraining/fixed", "pretraining/finetuned"),
    ),
    Claim(
        "pretraining",
        "A fixed world, a fine-tuned one and one learned from scratch meanwhile do about equally well.",
        "appendix E, figure 13",
        "pretraining",
        alike(N7, "pretraining/fixed", "pretraining/finetuned", "pretraining/online"),
    ),
    Claim(
        "pretraining-time",
        "Training the world meanwhile takes more wall-clock than leaving it fixed.",
        "appendix E",
        "pretraining",
        pair(measured.takes_longer, N7, "pretraining/online", "pretraining/fixed"),
    ),
)

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
        "For as many frames GoBI takes about twice as long as NovelD: 10.65 and 5.46 hours, a ratio of 1.95.",
        "appendix D, table 5",
        "wallclock",
        pair(measured.takes_times_as_long, N7, "wallclock/gobi", "wallclock/noveld", 1.95),
    ),
)

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
        _tested,
    ),
)

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

SECTIONS = {
    "How fast it learns": PERFORMANCE,
    "Its parts": ABLATIONS,
    "Its worlds": WORLDS,
    "Its settings, and time": SETTINGS,
    "What agents do": BEHAVIOUR,
    "DeepMind Control": CONTROL,
}
CLAIMS = tuple(claim for claims in SECTIONS.values() for claim in claims)
