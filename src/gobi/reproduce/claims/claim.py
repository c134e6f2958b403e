"""A claim of the paper: what it says, what tests it, and who judges it."""

from __future__ import annotations

import dataclasses

from gobi.reproduce.evidence import Evidence, NotRun
from gobi.reproduce.judging import Judge
from gobi.reproduce.verdicts import Verdict


@dataclasses.dataclass(frozen=True)
class Claim:
    """A result that the paper claims.

    name:   for tables and links.
    text:   the claim in our words.
    where:  where the paper makes it.
    runs:   what `gobi reproduce` must be told to test it: the study first; empty where nothing does.
    judge:  whether it held, from all runs that were found.
    test:   what pytest must be told, where a test of the repository shows it.
    """

    name: str
    text: str
    where: str
    runs: str
    judge: Judge
    test: str = ""

    @property
    def study(self) -> str:
        """The study that tests it."""
        return self.runs.partition(" ")[0]

    @property
    def command(self) -> str:
        """What tests it; empty if nothing does yet."""
        if self.test:
            return f"pytest {self.test}"
        return f"gobi reproduce {self.runs}" if self.runs else ""

    def verdict(self, evidence: Evidence) -> Verdict:
        """Whether it held; not run if runs are missing."""
        try:
            return self.judge(evidence).with_doubts()
        except NotRun as what:
            return Verdict("not run", str(what))
