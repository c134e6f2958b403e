"""What the paper claims of the worlds that imagine."""

from __future__ import annotations

from gobi.reproduce import measured
from gobi.reproduce.claims.claim import Claim
from gobi.reproduce.judging import alike, on_each, pair, saves_more, sooner
from gobi.reproduce.studies import N7, S4, TWELVE

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
        on_each(TWELVE, "minigrid/gobi", measured.doors_are_foreseen),
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
