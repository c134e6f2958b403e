"""`gobi watch`: a film of a trained agent, with what it imagined and what that earned."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gobi.analysis import control_film, film, pictures
from gobi.cli.arguments import RunFolder, Switch, at_least
from gobi.cli.output import beside, progress_bar
from gobi.cli.terminal import say
from gobi.envs.dmc import rendering
from gobi.errors import GobiError, require
from gobi.training import run, trained
from gobi.training.control import trained as control
from gobi.training.control.recipe import ControlRecipe


def watch(
    folder: RunFolder,
    /,
    *,
    out: Path | None = None,
    seed: int | None = None,
    level: int = 0,
    greedy: Switch = False,
    checkpoint: str | None = None,
    max_frames: int = 200,
    fps: int = 6,
    overwrite: Switch = False,
) -> None:
    """Films an episode of a trained agent, with the bonus and what was imagined at each step.

    Args:
        folder: the run's folder, or zoo/NAME.
        out: the file to write: .gif, .mp4, or .png for twelve pictures; by default episode.gif in the folder,
            of an agent of the zoo NAME-episode.gif here.
        seed: which of the run's agents; by default the first.
        level: the number of a level, or of an episode of control, that training did not see.
        greedy: take the most likely action, or the mean one, instead of drawing one.
        checkpoint: the name of an earlier checkpoint; by default the last one.
        max_frames: pictures at most. A film of a grid ends there; one of control leaves steps out instead.
        fps: pictures per second.
        overwrite: replace the file if it is there.
    """
    at_least("--level", level, 0)
    at_least("--max-frames", max_frames, 1)
    on_control = isinstance(run.planned(run.Folder(folder)).recipe, ControlRecipe)
    out = out or beside(folder, "episode.gif")
    pictures.check_output(out, fps)
    if out.exists() and not overwrite:
        raise GobiError(f"{out} is there already: give another --out, or --overwrite")
    if on_control:
        # A sheet shows no more, and drawing the others would take its time.
        most = min(max_frames, pictures.SHEET) if out.suffix.lower() == ".png" else max_frames
        agent = control.load(folder, () if seed is None else (seed,), checkpoint)
        shown = _control(agent, level, greedy, most)
    else:
        agents = trained.load(folder, seed, checkpoint)
        shown = _grid(agents, folder, level, greedy, max_frames)
    pictures.save(out, shown, fps)
    say(f"wrote {out} ({out.stat().st_size / 1000:.0f} kB)")


def _grid(
    agents: trained.Trained, folder: Path, level: int, greedy: bool, max_frames: int
) -> list[pictures.Frame]:
    """The pictures of an episode on a grid."""
    require("minigrid", extra="minigrid")
    seed = agents.seeds[0]
    played = film.episode(agents, seed, level, greedy)
    told = film.bonus(agents, folder, seed, played)
    shown = film.frames(agents, level, played, told, max_frames)
    cut = "" if len(shown) > len(played.actions) else f"; the film stops at --max-frames {max_frames}"
    _say_whose(agents, greedy)
    say(f"new level {level} (of seed {agents.level_seed}): {played}{cut}")
    _say_bonus(agents.recipe.reward, told.paid)
    if told.imagination is not None:
        say(f"memory: {told.imagination.sizes[-1]} seen or imagined views at the end")
    return shown


def _control(agents: control.ControlTrained, level: int, greedy: bool, most: int) -> list[pictures.Frame]:
    """The pictures of an episode on a control task."""
    require("dm_control", extra="dmc")
    # Pictures are wanted of agents that see the state, too.
    rendering.choose()
    seed = agents.seeds[0]
    with progress_bar() as progress:
        bar = progress.add_task("playing", total=None)

        def tell(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        played = control_film.episode(agents, seed, level, greedy, most, tell)
    told = control_film.bonus(agents, seed, played)
    shown = control_film.frames(level, played, told)
    part = "" if len(shown) > len(played.actions) else f"; pictures of {len(shown)} of its states"
    _say_whose(agents, greedy)
    say(f"new episode {level} (of seed {agents.level_seed}): {played}{part}")
    _say_bonus(agents.recipe.reward, told.paid)
    if told.imagination is not None:
        say(f"memory: {told.imagination.sizes[-1]} codes of what was seen or imagined, at the end")
    return shown


def _say_whose(agents: trained.Trained | control.ControlTrained, greedy: bool) -> None:
    policy = "greedy" if greedy else "sampled"
    say(f"{agents.recipe.task}, seed {agents.seeds[0]} after {agents.frames:,} frames, {policy} actions")


def _say_bonus(reward: str, paid: np.ndarray) -> None:
    if reward != "none":
        say(f"bonus {reward}: {paid.sum():.2f} in all, {paid.mean():.3f} per step")
