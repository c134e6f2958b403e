"""What the paper claims of DeepMind Control."""

from __future__ import annotations

from gobi.reproduce.claims.claim import Claim
from gobi.reproduce.judging import ahead, ahead_of_all, as_good, each, missing
from gobi.reproduce.searches import CHOSEN, FUTURES, STEPS, cross
from gobi.reproduce.studies import FOUR, HOPPER, PENDULUM, WALKER
from gobi.reproduce.study import short

_NOT_SEARCHED = missing("nothing was searched on the paper's two other tasks")
_NO_STUDY = missing("no study of ours tests it yet")


def _arm(futures: int, steps: int) -> str:
    return f"dmc-search/{cross(futures, steps)}"


CONTROL = (
    Claim(
        "control",
        "From pixels, GoBI learns from fewer frames than RE3, ICM and RND on four DeepMind Control tasks "
        "(the fourth, which has no name in the text, is taken to be Cheetah Run Sparse).",
        "abstract, sections 1 and 3.2, figure 6",
        f"dmc --tasks {' '.join(map(short, FOUR))} --arms gobi re3 icm rnd",
        ahead_of_all(FOUR, "dmc/gobi", [f"dmc/{name}" for name in ("re3", "icm", "rnd")]),
    ),
    Claim(
        "control-episodic",
        "Multiplying RE3 with the episodic term helps a lot, most on Hopper Hop and Walker Run Sparse.",
        "section 3.2, figure 6",
        f"dmc --tasks {short(HOPPER)} {short(WALKER)} --arms gobi re3",
        ahead([HOPPER, WALKER], "dmc/gobi", "dmc/re3"),
    ),
    Claim(
        "control-actions",
        "Five random actions do well on all four control tasks.",
        "section 3.2, appendix A.2",
        "dmc-search --tasks pendulum_swingup --arms n3-k3 n5-k3 n10-k3 n20-k3 && "
        "gobi reproduce dmc-search --tasks hopper_hop --arms n3-k1 n5-k1 n10-k1 n20-k1",
        each(
            *(
                as_good(task, _arm(CHOSEN, k), *(_arm(n, k) for n in FUTURES if n != CHOSEN))
                for task, k in ((PENDULUM, 3), (HOPPER, 1))
            ),
            _NOT_SEARCHED,
        ),
    ),
    Claim(
        "control-steps",
        "Three steps ahead are best on Pendulum Swingup, one on the other three.",
        "section 3.2, appendix A.2",
        "dmc-search --arms n5-k1 n5-k2 n5-k3 n5-k5",
        each(
            *(
                ahead([task], _arm(CHOSEN, best), *(_arm(CHOSEN, k) for k in STEPS if k != best))
                for task, best in ((PENDULUM, 3), (HOPPER, 1))
            ),
            _NOT_SEARCHED,
        ),
    ),
    Claim(
        "control-hash",
        "A SimHash of 50 bits puts similar images together well enough.",
        "section 3.2",
        "",
        _NO_STUDY,
    ),
    Claim(
        "control-data",
        "A world that predicts images takes far more data than one of MiniGrid.",
        "section 3.2, appendix A.2",
        "",
        _NO_STUDY,
    ),
)
