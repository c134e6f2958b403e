"""`gobi claims`: everything that the paper claims, and whether it held in the runs that there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gobi.cli.ending import nothing_in
from gobi.cli.terminal import note, say, show
from gobi.errors import GobiError
from gobi.reproduce import claims_page
from gobi.reproduce.ending import tally
from gobi.reproduce.evidence import Evidence, gather
from gobi.training.files import disk_errors, write_whole

USUAL = (Path("reproduced"), Path("results"))
"""Where runs are looked for unless folders are named."""


def claims(
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = (),
    /,
    *,
    markdown: Path | None = None,
) -> None:
    """Lists what the paper claims, and whether it held: from runs, told by their recipes, in any folders.

    Args:
        folders: where to look for runs; by default reproduced and results.
        markdown: a file to write the list to, such as docs/claims.md; it is replaced.
    """
    evidence = Evidence(gather(chosen(folders), note))
    if folders and not evidence.runs:
        note(nothing_in(folders))
    judged = claims_page.judge(evidence)
    show(claims_page.table(judged), ["claim", "verdict", "what the paper claims", "because"])
    say(f"\n{len(judged)} claims: {tally(judged)}; from {len(evidence.runs)} runs")
    if markdown is not None:
        words = " ".join(str(folder) for folder in folders)
        page = claims_page.markdown(evidence, f"gobi claims {words}".rstrip() + f" --markdown {markdown}")
        with disk_errors(str(markdown)):
            markdown.parent.mkdir(parents=True, exist_ok=True)
            write_whole(markdown, page.encode())
        say(f"written: {markdown}")


def chosen(folders: Sequence[Path]) -> list[Path]:
    """The named folders, or those of the usual ones that are there."""
    for folder in folders:
        if not folder.exists():
            raise GobiError(f"there is no {folder}")
        if not folder.is_dir():
            raise GobiError(f"{folder} is a file: name the folder of a run, or one that has runs inside")
    return list(folders) or [folder for folder in USUAL if folder.is_dir()]
