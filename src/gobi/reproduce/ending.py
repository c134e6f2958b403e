"""How a study ends: in a figure, a table, and a sentence for each claim of the paper that it tests."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gobi.analysis import heatmap
from gobi.envs.minigrid.registry import bare
from gobi.errors import GobiError, MissingExtra
from gobi.reproduce import claims, figures, returns, tables
from gobi.reproduce.claims import Claim
from gobi.reproduce.evidence import Compared, Evidence, arm_name
from gobi.reproduce.groups import listed
from gobi.reproduce.study import Study, short
from gobi.reproduce.verdicts import Outcome, Verdict
from gobi.training.files import disk_errors, write_whole
from gobi.training.folder import Folder

NO_CLAIM = "The paper claims nothing here: the study is ours."
MADE_BEFORE = ("grid.png", "maps-*.png")
"""Pictures that lie in the folder already."""
WORDS: dict[Outcome, str] = {
    "held": "Held here",
    "not held": "Did not hold here",
    "undecided": "Open",
    "not run": "Not run",
    "shown by a test": "Shown by a test",
}
"""How a sentence about each outcome begins; in the order in which they are counted."""
Apart = Mapping[tuple[str, str], str]
"""Arms, by task and name, that cannot be set beside the others, and why."""
LEVELS, EPISODES = (0, 1, 2), 50
"""Of maps: levels that training did not see, and how often each is played."""


@dataclasses.dataclass(frozen=True)
class Ending:
    """What a study came to.

    headings, rows:  its table; no rows if nothing was run.
    judged:          the paper's claims that it tests, and how they fared.
    notes:           what the table leaves out.
    search:          whether it is a search over settings, whose figure is its grid.
    """

    title: str
    headings: list[str]
    rows: list[list[str]]
    judged: list[tuple[Claim, Verdict]]
    notes: list[str]
    search: bool

    @property
    def sentences(self) -> list[str]:
        """What is to be said of each claim, the verdict first."""
        return [said(claim, verdict) for claim, verdict in self.judged] or [NO_CLAIM]


def conclude(name: str, evidence: Evidence, place: Path | None = None) -> tuple[Ending, list[Compared]]:
    """The table and the verdicts of a study, and the comparisons behind its figure.

    place:  where the study was trained: its table is about the runs there, if there are any.
    """
    study = evidence.studies[name]
    each = {task: evidence.whole(name, task, place) for task in study.tasks}
    found = [one for one, _ in each.values() if one is not None]
    apart = {(task, arm_name(arm)): why for task, (_, others) in each.items() for arm, why in others.items()}
    headings, rows = tables.rows(name, found)
    judged = conclusions(name, evidence)
    notes = [*_anchors(found), *_apart(apart), *_left_out(name, evidence, found, apart)]
    return Ending(study.title, headings, rows, judged, notes, bool(study.axes)), found


def conclusions(name: str, evidence: Evidence) -> list[tuple[Claim, Verdict]]:
    """The paper's claims that a study tests, and how they fared."""
    return [(claim, claim.verdict(evidence)) for claim in claims.of_study(name)]


def write(name: str, ending: Ending, found: Sequence[Compared], out: Path) -> tuple[list[Path], str]:
    """Writes the table, the sentences and the figures into a folder; what is there of them is replaced.

    Returns the files, and why there are no pictures, if so.
    """
    files: dict[str, bytes] = {"table.csv": tables.to_csv(ending.headings, ending.rows).encode()}
    complaint = ""
    try:
        files |= {} if ending.search else _pictures(name, ending.title, found)
    except MissingExtra as error:
        complaint = str(error)
    pictures = [name for name in files if name.endswith(".png")]
    pictures += sorted(path.name for kind in MADE_BEFORE for path in out.glob(kind))
    files["summary.md"] = _summary(ending, pictures).encode()
    with disk_errors(str(out)):
        out.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            write_whole(out / file, content)
    return [out / file for file in files], complaint


def draw_maps(study: Study, runs: Mapping[str, Path], out: Path, told: Callable[[str], None]) -> list[Path]:
    """Where agents go: a picture and a table for each run, and all runs of a task side by side in one.

    runs:  the folders of the runs, by those of their arms.
    """
    written = []
    for task in study.tasks:
        columns, names = [], []
        for arm in study.arms:
            if arm.task != task or arm.folder not in study.maps or arm.folder not in runs:
                continue
            try:
                stages = heatmap.stages(runs[arm.folder], at=study.maps[arm.folder])
            except GobiError as error:
                why = error if _has_agents(runs[arm.folder]) else "its snapshots are not kept"
                told(f"note: no map of {arm.folder}: {why}")
                continue
            told(f"playing {arm.folder}")
            mine = [heatmap.maps(agent, LEVELS, EPISODES) for agent in stages]
            heatmap.save(out / arm.folder / "heatmap.png", task, mine)
            columns += mine
            names += [arm.name] * len(mine)
        if columns:
            path = out / f"maps-{bare(task)}.png"
            with disk_errors(str(path)):
                write_whole(path, figures.png(heatmap.draw(task, columns, names), dpi=130))
            written.append(path)
    return written


def mapped(evidence: Evidence, found: Sequence[Compared]) -> dict[str, Path]:
    """The runs whose maps can be drawn, by their arms' folders: of each arm the one with most snapshots."""
    folders = {}
    for one in found:
        for name in one.arms:
            runs = evidence.of(one.task.name, name, one.setting)
            if not runs:
                # An arm that comes again with its looks counted.
                continue
            most = max(runs, key=lambda run: len(list(Folder(run.folder).snapshots.glob("*.safetensors"))))
            folders[f"{short(one.task.name)}/{arm_name(name)}"] = most.folder
    return folders


def _has_agents(folder: Path) -> bool:
    """Whether a run's policies lie beside its curves."""
    kept = Folder(folder)
    return any(kept.snapshots.glob("*")) or any(kept.checkpoints.glob("*"))


def said(claim: Claim, verdict: Verdict) -> str:
    """The claim, and whether it held."""
    return f"The paper ({claim.where}): {claim.text} {sentence(verdict)}"


def sentence(verdict: Verdict) -> str:
    """A verdict as a sentence of its own."""
    return f"{WORDS[verdict.outcome]}: {verdict.because}."


def tally(judged: Sequence[tuple[Claim, Verdict]]) -> str:
    """How many claims held, and so on, in a few words."""
    counts = Counter(verdict.outcome for _, verdict in judged)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in WORDS if counts[outcome]) or "-"


def _pictures(name: str, title: str, found: Sequence[Compared]) -> dict[str, bytes]:
    """The curves, and what else a study shows."""
    if not found:
        return {}
    drawn = {"figure.png": figures.curves(title, found)}
    if name == "accuracy":
        drawn["accuracy.png"] = figures.accuracy(found[0])
    if name == "wallclock":
        drawn["wallclock.png"] = figures.wallclock(found[0])
    return drawn


def _anchors(found: Sequence[Compared]) -> list[str]:
    """Where our RE3 lies beside its authors' own, on control tasks."""
    beside = [(one, returns.beside_published(one, arm)) for one in found for arm in one.arms]
    return [f"{one.where}: {there.text}" for one, there in beside if there is not None]


def _apart(arms: Apart) -> list[str]:
    """Why arms are not in the table, those of one task and reason together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for (task, arm), why in arms.items():
        alike.setdefault((task, why), []).append(arm)
    return [
        f"not in the table: {listed(names)} on {short(task)} ({why})" for (task, why), names in alike.items()
    ]


def _left_out(name: str, evidence: Evidence, found: Sequence[Compared], apart: Apart) -> list[str]:
    """Runs of the study that are not in its table: their setting is another one, or their seeds are there."""
    shown = {run.folder for one in found for scored in one.arms.values() for run in scored.group.runs}
    tabled = {one.task.name: one.setting for one in found}
    others, again = set(), set()
    for (study, task, arm), settings in evidence.known.items():
        if study != name or (task, arm) in apart:
            continue
        for setting, runs in settings.items():
            names = [run.name for run in runs if run.folder not in shown]
            if setting == tabled.get(task):
                again.update(names)
            else:
                others.update(f"{run} ({', '.join(setting) or 'as the study asks for'})" for run in names)
    notes = []
    if others:
        notes.append(f"not in the table, as they differ in more than the study: {', '.join(sorted(others))}")
    if again:
        notes.append(
            f"not in the table, as their seeds are there from other runs: {', '.join(sorted(again))}"
        )
    unfinished = sorted({
        run.name
        for one in found
        for scored in one.arms.values()
        for run in scored.group.runs
        if not run.card.get("finished")
    })  # fmt: skip
    return [*notes, *[f"not finished: {', '.join(unfinished)}"] * bool(unfinished)]


def _summary(ending: Ending, pictures: Sequence[str]) -> str:
    parts = [f"# {ending.title[:1].upper()}{ending.title[1:]}"]
    parts += [f"![{name.removesuffix('.png')}]({name})" for name in pictures]
    parts.append(tables.to_markdown(ending.headings, ending.rows).rstrip() if ending.rows else "No runs yet.")
    parts += [f"- {note}" for note in ending.notes]
    parts.append("## What the paper claims")
    if not ending.judged:
        parts.append(NO_CLAIM)
    for claim, verdict in ending.judged:
        parts.append(f"**{claim.text}** ({claim.where})\n\n{sentence(verdict)}")
    return "\n\n".join(parts) + "\n"
