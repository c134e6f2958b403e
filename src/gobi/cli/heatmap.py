"""`gobi heatmap`: where the agent of a run goes, at several stages of its training."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from gobi.analysis import heatmap as drawing
from gobi.cli.arguments import RunFolder, Switch, at_least
from gobi.cli.output import beside, progress_bar
from gobi.cli.terminal import say, show
from gobi.errors import GobiError
from gobi.training import run
from gobi.training.control.recipe import ControlRecipe

HEADINGS = ("frames", "level", "episodes", "visited", "seen", "solved")


def heatmap(
    folder: RunFolder,
    /,
    *,
    out: Path | None = None,
    levels: tuple[int, ...] = (0, 1, 2),
    episodes: int = 50,
    snapshots: int | Literal["all"] = 5,
    at: tuple[float, ...] = (),
    greedy: Switch = False,
    overwrite: Switch = False,
) -> None:
    """Draws where the agent goes as it learns: cells visited, seen, and never seen.

    Args:
        folder: the run's folder, or zoo/NAME.
        out: the file to write: .png, .pdf or .svg; by default heatmap.png in the run's folder,
            of an agent of the zoo NAME-heatmap.png here.
        levels: numbers of levels that training did not see; a row of the picture for each.
        episodes: how many are played on each level.
        snapshots: how many stages of training to show, evenly spaced, or all that were kept.
        at: instead, the stages nearest to these numbers of frames, such as 3.5e6 7e6.
        greedy: take the most likely action instead of drawing one.
        overwrite: replace the files if they are there.
    """
    if not levels:
        raise GobiError("--levels needs the number of at least one level")
    for level in levels:
        at_least("--levels", level, 0)
    at_least("--episodes", episodes, 1)
    if snapshots != "all":
        at_least("--snapshots", snapshots, 1)
    for frames in at:
        if not 0 <= frames < float("inf"):
            raise GobiError(f"--at takes numbers of frames, got {frames}")
    recipe = run.planned(run.Folder(folder)).recipe
    if isinstance(recipe, ControlRecipe):
        raise GobiError(
            f"a heatmap shows the cells of a grid, and {recipe.task} has none: try gobi watch {folder}"
        )
    stages = drawing.stages(folder, None if snapshots == "all" else snapshots, [round(one) for one in at])
    out = out or beside(folder, "heatmap.png")
    drawing.check_output(out)
    table = out.with_suffix(".csv")
    for path in (out, table):
        if path.exists() and not overwrite:
            raise GobiError(f"{path} is there already: give another --out, or --overwrite")

    found = []
    with progress_bar() as progress:
        for agent in progress.track(stages, description="playing"):
            found.append(drawing.maps(agent, levels, episodes, greedy))
    task = stages[0].env.spec.id
    drawing.save(out, task, found)
    say(f"{task}, seed {stages[0].seeds[0]}, new levels (levels of seed {stages[0].level_seed})")
    rows = [one.row for column in found for one in column]
    shown = [
        [
            f"{row['frames']:,}",
            str(row["level"]),
            str(row["episodes"]),
            f"{row['share_visited']:.0%}",
            f"{row['share_seen']:.0%}",
            f"{row['success']:.0%}",
        ]
        for row in rows
    ]
    show(shown, HEADINGS, numbers=HEADINGS)
    say(f"wrote {out} ({out.stat().st_size / 1000:.0f} kB) and {table}")
