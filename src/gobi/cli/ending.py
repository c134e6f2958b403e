"""What `gobi reproduce` says at the end of a study, and how all studies stand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gobi.cli.terminal import note, say, show
from gobi.errors import MissingExtra
from gobi.reproduce import STUDIES, Study, ending
from gobi.reproduce.evidence import Evidence, gather

LEFT = ("task", "arm")
"""Columns of the table that are not numbers."""


def draw_maps(study: Study, out: Path) -> None:
    """The maps of a study that has some, all runs of a task side by side."""
    if not study.maps:
        return
    try:
        for path in ending.draw_maps(study, out, say):
            say(f"written: {path}")
    except MissingExtra as error:
        say(f"no maps: {error}")


def end(figure: str, folders: Sequence[Path], out: Path) -> None:
    """The table of a study and a sentence for each claim of the paper, from the runs in these folders."""
    evidence = Evidence(gather(folders, note))
    found, compared = ending.conclude(figure, evidence)
    if found.rows and not found.search:
        numbers = [name for name in found.headings if name not in LEFT]
        show(found.rows, found.headings, numbers)
    for text in found.notes:
        note(text)
    say("")
    for text in found.sentences:
        say(text)
    files, complaint = ending.write(figure, found, compared, out)
    if complaint:
        say(f"no pictures: {complaint}")
    say(f"written: {', '.join(map(str, files))}")


def say_claims(figure: str) -> None:
    """A sentence for each claim of a figure that takes no runs."""
    for claim, verdict in ending.conclusions(figure, Evidence([])):
        say(ending.said(claim, verdict))


def states(place: Path) -> dict[str, tuple[str, str]]:
    """How far each study is in a folder of studies, and how the claims fared that it tests."""
    runs = gather([place], note) if place.is_dir() else []
    everything = Evidence(runs)
    found = {}
    for name, study in STUDIES.items():
        # Runs that another study has made count: they are not trained again for this one.
        done, total = everything.finished(name), len(study.arms)
        if not (place / name).is_dir():
            found[name] = "not begun", "-"
            continue
        state = "done" if done == total else f"{done} of {total} runs done"
        judged = ending.conclusions(name, everything)
        found[name] = state, ending.tally(judged) if judged else "no claim of the paper"
    return found


def illustrated(place: Path) -> tuple[str, str]:
    """The same of the one figure that takes no training."""
    drawn = (place / "illustration" / "illustration.png").is_file()
    judged = ending.conclusions("illustration", Evidence([]))
    return ("done", ending.tally(judged)) if drawn else ("not begun", "-")
