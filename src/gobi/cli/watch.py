"""`gobi watch`: a film of a trained agent, with what it imagined and what that earned."""

from __future__ import annotations

from pathlib import Path

from gobi.analysis import film
from gobi.cli.arguments import RunFolder, Switch, at_least
from gobi.cli.terminal import say
from gobi.envs.minigrid import render
from gobi.errors import GobiError, require
from gobi.training import trained


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
        folder: the run's folder.
        out: the file to write: .gif, .mp4, or .png for twelve pictures; by default episode.gif in the folder.
        seed: which of the run's agents; by default the first.
        level: the number of a level that training did not see.
        greedy: take the most likely action instead of drawing one.
        checkpoint: the name of an earlier checkpoint; by default the last one.
        max_frames: the film ends after this many pictures at the latest.
        fps: pictures per second.
        overwrite: replace the file if it is there.
    """
    at_least("--level", level, 0)
    at_least("--max-frames", max_frames, 1)
    agents = trained.load(folder, seed, checkpoint)
    seed = agents.seeds[0]
    out = out or folder / "episode.gif"
    render.check_output(out, fps)
    require("minigrid", extra="minigrid")
    if out.exists() and not overwrite:
        raise GobiError(f"{out} is there already: give another --out, or --overwrite")

    played = film.episode(agents, seed, level, greedy)
    told = film.bonus(agents, folder, seed, played)
    pictures = film.frames(agents, level, played, told, max_frames)
    render.save(out, pictures, fps)

    policy = "greedy" if greedy else "sampled"
    cut = "" if len(pictures) > len(played.actions) else f"; the film stops at --max-frames {max_frames}"
    say(f"{agents.env.spec.id}, seed {seed} after {agents.frames:,} frames, {policy} actions")
    say(f"new level {level} (of seed {agents.level_seed}): {played}{cut}")
    if agents.recipe.reward != "none":
        say(f"bonus {agents.recipe.reward}: {told.paid.sum():.2f} in all, {told.paid.mean():.3f} per step")
    if told.imagination is not None:
        say(f"memory: {told.imagination.sizes[-1]} seen or imagined views at the end")
    say(f"wrote {out} ({out.stat().st_size / 1000:.0f} kB)")
