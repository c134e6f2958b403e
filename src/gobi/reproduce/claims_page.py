"""All claims on one page, from the runs that were found: docs/claims.md is made by this."""

from __future__ import annotations

from collections.abc import Sequence

from gobi.analysis.comparison import millions
from gobi.analysis.runs import Run
from gobi.reproduce.claims import CLAIMS, SECTIONS, Claim
from gobi.reproduce.ending import tally
from gobi.reproduce.evidence import Evidence, Setting
from gobi.reproduce.occasion import commit
from gobi.reproduce.tables import to_markdown
from gobi.reproduce.verdicts import Verdict

Judged = tuple[Claim, Verdict]

PREFACE = """\
Every sentence of the paper that claims a result, in our words; what tests it here; and whether it held.
`{command}` makes this page: do not edit it.

- **held**, **not held**: the seeds can tell. *Sooner* is about frames to 90 % of the best return known,
  pre-training counted: the 95 % interval of the probability that a seed of the one gets there before a seed
  of the other leaves out one half, and equal arms would differ so much less than one time in 20 (an exact
  permutation test). A seed that never got there counts as the common end; one that touched the threshold and
  is below it at the end got there, and that is said. *Alike*, and *about* a number, is within a factor of
  1.5, interval included. Nothing is decided by so few seeds that not even a complete
  separation would be evidence (three against three). On control tasks nobody knows the best return: there
  the same is asked of the mean return over the frames that all arms have (*ahead*). Where RE3 is the other
  one, its authors' own numbers are told beside; to be ahead of an RE3 that is below their spread (mean less
  one standard deviation) decides nothing.
- **undecided**: too few seeds, intervals that overlap, runs that are too short, or only a part of the tasks.
- **not run**: runs are missing.
- **shown by a test**: no matter of runs; a test of the repository shows it.

Runs are found by their recipes. They are set against each other only if they differ in nothing but what the
study is about. Where they are not as the study asks for (shorter, with small networks), or come from
different versions of the code, or from one that was not recorded, that is said, with the tasks.
"""


def judge(evidence: Evidence) -> list[Judged]:
    """All claims, and how they fared."""
    return [(claim, claim.verdict(evidence)) for claim in CLAIMS]


def markdown(evidence: Evidence, command: str) -> str:
    """The page.

    command:  what made it.
    """
    judged = judge(evidence)
    parts = [
        "# The paper's claims",
        PREFACE.format(command=command).rstrip(),
        f"{len(CLAIMS)} claims: {tally(judged)}.",
    ]
    verdicts = {claim.name: verdict for claim, verdict in judged}
    headings = ["claim", "in the paper", "command", "verdict"]
    for title, claims in SECTIONS.items():
        rows = []
        for claim in claims:
            found = verdicts[claim.name]
            command = f"`{claim.command}`" if claim.command else "-"
            words = f"**{found.outcome}**: {found.because}"
            rows.append([f"`{claim.name}`: {claim.text}", claim.where, command, words])
        parts += [f"## {title}", to_markdown(headings, rows, left=len(headings)).rstrip()]
    parts += ["## The runs behind it", *_runs(evidence)]
    return "\n\n".join(parts) + "\n"


def _runs(evidence: Evidence) -> list[str]:
    """What each run counts as."""
    counted: dict[str, tuple[Run, dict[Setting, list[str]]]] = {}
    for (study, _, arm), settings in evidence.known.items():
        for setting, runs in settings.items():
            for run in runs:
                counted.setdefault(run.name, (run, {}))[1].setdefault(setting, []).append(f"{study} {arm}")
    if not counted:
        return ["None."]
    rows = []
    for name, (run, arms) in sorted(counted.items()):
        least = min(arms, key=lambda setting: (len(setting), setting))
        end = "" if run.card.get("finished") else ", not finished"
        length = f"{millions(float(run.columns['frames'].max()))}{end}"
        counts, but = ", ".join(arms[least]), ", ".join(least) or "-"
        rows.append([name, str(len(run.seeds)), length, commit(run), counts, but])
    others = len(evidence.runs) - len(counted)
    left = [f"{others} other runs are on other tasks, or of no study."] * bool(others)
    headings = ["run", "seeds", "frames", "commit", "counts as", "but"]
    about = "A plus after a commit: files had been changed since."
    return [to_markdown(headings, rows, left=len(headings)).rstrip(), about, *left]


def table(judged: Sequence[Judged]) -> list[list[str]]:
    """A line for each claim: its name, the verdict, the claim, and why."""
    return [[claim.name, verdict.outcome, claim.text, verdict.because] for claim, verdict in judged]
