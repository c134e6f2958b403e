"""`gobi evaluate`: how well the agents of a run play levels that they were not trained on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gobi.analysis.evaluation import Evaluation, Score, score, wilson
from gobi.analysis.evaluation import evaluate as measure
from gobi.cli.arguments import RunFolder, Switch, at_least
from gobi.cli.output import beside, progress_bar
from gobi.cli.terminal import say, show
from gobi.envs import dmc, host
from gobi.errors import GobiError
from gobi.training import run, trained
from gobi.training.control import trained as control
from gobi.training.control.recipe import ControlRecipe
from gobi.training.files import disk_errors, to_json, write_whole
from gobi.training.host import trained as hosted
from gobi.training.host.recipe import HostRecipe
from gobi.training.recipe import Recipe

EPISODES = {Recipe: 1000, ControlRecipe: 10, HostRecipe: 100}
"""That each agent plays, unless one asks for more or fewer."""
MOST_LANES = 16
"""Episodes side by side on Gymnasium's tasks: they take turns on one core."""
Agents = trained.Trained | control.ControlTrained | hosted.HostTrained

HEADINGS = ("seed", "episodes", "success", "95 %", "return", "95 %", "length", "best known")


def evaluate(
    folder: RunFolder,
    /,
    *,
    episodes: int | None = None,
    greedy: Switch = False,
    seed: tuple[int, ...] = (),
    num_envs: int = 256,
    checkpoint: str | None = None,
    out: Path | None = None,
    overwrite: Switch = False,
) -> None:
    """Lets trained agents play whole episodes on levels, or from starts, that training did not see.

    Args:
        folder: the run's folder, or zoo/NAME.
        episodes: how many each agent plays, each on a level of its own; by default 1000, or 10 of control,
            or 100 of Gymnasium's.
        greedy: take the most likely action instead of drawing one; control always takes the mean action.
        seed: which of the run's agents; by default all.
        num_envs: episodes side by side; changes how long it takes, not what comes out.
        checkpoint: the name of an earlier checkpoint; by default the last one.
        out: the file to write; by default evaluation-POLICY-FRAMES.json in the run's folder;
            of an agent of the zoo NAME-evaluation-POLICY-FRAMES.json here.
        overwrite: replace the file if it is there.
    """
    at_least("--num-envs", num_envs, 1)
    recipe = run.planned(run.Folder(folder)).recipe
    greedy = greedy or isinstance(recipe, ControlRecipe)
    episodes = EPISODES[type(recipe)] if episodes is None else episodes
    at_least("--episodes", episodes, 1)
    agents = _load(folder, recipe, seed, checkpoint)
    how = "greedy" if greedy else "sampled"
    out = out or beside(folder, f"evaluation-{how}-{agents.frames:012d}.json")
    if out.suffix.lower() != ".json":
        raise GobiError(f"cannot write '{out}': the name must end in .json")
    if out.exists() and not overwrite:
        raise GobiError(f"{out} is there already: give another --out, or --overwrite")

    with progress_bar() as progress:
        bar = progress.add_task("making levels", total=None)

        def told(done: int, total: int) -> None:
            progress.update(bar, description="playing", completed=done, total=total)

        if isinstance(agents, control.ControlTrained):
            found = _measured(agents, episodes, told)
        elif isinstance(agents, hosted.HostTrained):
            found = _measured_on_host(agents, episodes, greedy, num_envs, told)
        else:
            found = measure(agents, episodes, greedy, num_envs, told)
    with disk_errors(str(out)):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, to_json(dataclasses.asdict(found)))
    _tell(found)
    say(f"wrote {out}")


def _load(folder: Path, recipe: Any, seed: tuple[int, ...], checkpoint: str | None) -> Agents:
    """The agents of a run of any kind."""
    if isinstance(recipe, ControlRecipe):
        return control.load(folder, seed, checkpoint)
    if isinstance(recipe, HostRecipe):
        return hosted.load(folder, seed, checkpoint)
    return trained.load(folder, seed or None, checkpoint)


def _measured_on_host(
    agents: hosted.HostTrained,
    episodes: int,
    greedy: bool,
    num_envs: int,
    progress: Callable[[int, int], None],
) -> Evaluation:
    """The scores of agents on a task of Gymnasium's."""
    played = hosted.play(agents, episodes, greedy, min(num_envs, MOST_LANES), progress)
    return Evaluation(
        task=agents.recipe.task,
        frames=agents.frames,
        source=agents.source.name,
        level_seed=agents.level_seed,
        policy="greedy" if greedy else "sampled",
        best_return=None,
        scores=tuple(_host_score(seed, one) for seed, one in zip(agents.seeds, played, strict=True)),
    )


def _host_score(seed: int, played: hosted.Played) -> Score:
    """Success as the task tells it; where it does not, an episode that earned anything counts as one."""
    told, plain = played.successes, score(seed, played.returns, played.lengths)
    if np.isnan(told).any():
        return plain
    solved = int(np.sum(told > 0))
    within = wilson(solved, len(told))
    return dataclasses.replace(plain, successes=solved, success=solved / len(told), success_within=within)


def _measured(
    agents: control.ControlTrained, episodes: int, progress: Callable[[int, int], None]
) -> Evaluation:
    """The scores of agents on a control task; an episode that earned anything counts as a success."""
    played = control.play(agents, episodes, progress)
    return Evaluation(
        task=agents.recipe.task,
        frames=agents.frames,
        source=agents.source.name,
        level_seed=agents.level_seed,
        policy="greedy",
        best_return=None,
        scores=tuple(score(seed, *one) for seed, one in zip(agents.seeds, played, strict=True)),
    )


def _tell(found: Evaluation) -> None:
    count = found.scores[0].episodes
    say(f"{found.task} after {found.frames:,} frames, {found.policy} actions")
    new = f"{count:,} new levels, none of the numbered levels of training (levels of seed {found.level_seed})"
    if dmc.is_control(found.task) or host.is_host(found.task):
        new = f"{count:,} new starts, none of those of training (starts of seed {found.level_seed})"
    say(new)
    best = "-" if found.best_return is None else f"{found.best_return:.3f}"
    show([[*_row(score), best] for score in found.scores], HEADINGS, numbers=HEADINGS)
    if len(found.scores) > 1:
        solved = np.array([score.success for score in found.scores])
        earned = np.array([score.mean_return for score in found.scores])
        say(
            f"{len(solved)} seeds: success {solved.mean():.1%} ({solved.min():.1%} to {solved.max():.1%}), "
            f"return {earned.mean():.3f} ({earned.min():.3f} to {earned.max():.3f})"
        )


def _row(score: Score) -> list[str]:
    low, high = score.success_within
    within = "-" if score.return_within is None else "{:.3f} to {:.3f}".format(*score.return_within)
    return [
        str(score.seed),
        f"{score.episodes:,}",
        f"{score.success:.1%}",
        f"{low:.1%} to {high:.1%}",
        f"{score.mean_return:.3f}",
        within,
        f"{score.mean_length:.1f}",
    ]
