"""What `gobi reproduce` says at the end of a study, and how all studies stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gobi.cli.terminal import note, say, show
from gobi.errors import GobiError, MissingExtra
from gobi.reproduce import STUDIES, Study, ending, grid
from gobi.reproduce.evidence import Compared, Evidence, gather
from gobi.training.files import disk_errors, write_whole

LEFT = ("task", "arm")
"""Columns of the table that are not numbers."""


def draw_maps(study: Study, runs: Mapping[str, Path], out: Path) -> None:
    """The maps of a study that has some, all runs of a task side by side; the runs by their arms' folders."""
    if not study.maps:
        return
    try:
        for path in ending.draw_maps(study, runs, out, say):
            say(f"written: {path}")
    except MissingExtra as error:
        say(f"no maps: {error}")


def search(figure: str, found: Sequence[Compared], out: Path) -> list[Path]:
    """Keeps and draws the tables of a search, and returns the best runs of each method that has some."""
    study = STUDIES[figure]
    scores = grid.scores(study, found)
    if not scores:
        say("no grid: there are no runs of it")
        return []
    with disk_errors(str(out)):
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "grid.csv", grid.to_csv(scores, study.axes).encode())
    written = [out / "grid.csv"]
    try:
        grid.draw(out / "grid.png", scores, study.axes)
        written.append(out / "grid.png")
    except MissingExtra as error:
        say(f"no picture of the grid: {error}")
    best, alike = grid.best(scores), grid.alike(scores)
    if best:
        say("\nthe best of each method, by the mean return over all frames, on the seeds that chose it:")
        show(
            [[one.arm.folder, f"{one.mean:.3f}", one.reached] for one in best],
            ["run", "mean return", "frames to threshold"],
            ["mean return", "frames to threshold"],
        )
    for text in alike:
        say(f"no best of {text}")
    say(f"written: {', '.join(map(str, written))}")
    return [folder for one in best for folder in one.folders]


def end(figure: str, folders: Sequence[Path], out: Path, kept: bool = False) -> None:
    """The table of a study and a sentence for each claim of the paper, from the runs in these folders.

    kept:  the folders were named by the user; the maps and the grid of the study are still to be made too.
    """
    evidence = Evidence(gather(folders, note))
    if kept and not evidence.runs:
        raise GobiError(nothing_in(folders))
    if kept and not evidence.begun(figure):
        note(f"none of the {len(evidence.runs)} runs found is one of {figure}")
    found, compared = ending.conclude(figure, evidence, None if kept else out)
    if kept:
        draw_maps(STUDIES[figure], ending.mapped(evidence, compared), out)
    if kept and found.search:
        search(figure, compared, out)
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


def nothing_in(folders: Sequence[Path]) -> str:
    """What to say where folders that were named hold no run that can be judged."""
    return f"no run in {', '.join(map(str, folders))}: a run is a folder with a card.json and a metrics.csv"


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
        seeds = everything.finished(name)
        # What was made there from runs that are kept elsewhere begins nothing.
        if not (place / name).is_dir() or not (everything.begun(name) or _begun(place / name)):
            found[name] = "not begun", "-"
            continue
        judged = ending.conclusions(name, everything)
        found[name] = _state(study, seeds), ending.tally(judged) if judged else "no claim of the paper"
    return found


def _begun(folder: Path) -> bool:
    """Whether a run was begun there, if only just."""
    return any(folder.rglob("recipe.json"))


def _state(study: Study, seeds: Sequence[int]) -> str:
    """How far a study is: by the number of seeds that each of its runs that are finished has."""
    runs = f"{len(seeds)} of {len(study.arms)} runs"
    if seeds and min(seeds) < study.seeds:
        return f"{runs}, {min(seeds)} of {study.seeds} seeds"
    return "done" if len(seeds) == len(study.arms) else f"{runs} done"


def illustrated(place: Path) -> tuple[str, str]:
    """The same of the one figure that takes no training."""
    drawn = (place / "illustration" / "illustration.png").is_file()
    judged = ending.conclusions("illustration", Evidence([]))
    return ("done", ending.tally(judged)) if drawn else ("not begun", "-")
