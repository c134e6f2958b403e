"""What is learned before a run begins: a world model, or episodic curiosity's comparator.

It is made once, kept in the run's folder, and shared by the runs of a pack.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from gobi.envs.minigrid import MiniGrid
from gobi.errors import GobiError
from gobi.training import comparator_model, files, world_model
from gobi.training.comparator_model import Taught
from gobi.training.files import disk_errors, write_together, write_whole
from gobi.training.recipe import Recipe
from gobi.training.world_model import Pretrained, Stage

Learned = Pretrained | Taught
KINDS: tuple[ModuleType, ...] = (world_model, comparator_model)
"""Each has `needed`, `load_or_train`, its files MODEL (weights, and what vouches for them) and BESIDE."""


def shared(folders: Sequence[Path], recipe: Recipe, env: MiniGrid, stage: Stage) -> Learned | None:
    """One for several runs: that of the first folder with one, or a new one. Each folder gets it."""
    kind = _kind(recipe)
    if kind is None:
        return None
    source = next((folder for folder in folders if checksum(folder)), folders[0])
    made = kind.load_or_train(source, recipe, env, stage)
    mine = checksum(source)
    for folder in folders:
        if checksum(folder) != mine:
            _copy(kind, source, folder)
    return made


def kept(folder: Path, recipe: Recipe, env: MiniGrid) -> Learned | None:
    """What a run has learned beforehand; None if its recipe wants nothing of the kind."""
    kind = _kind(recipe)
    if kind is None:
        return None
    weights, about = kind.MODEL
    if not (folder / about).exists():
        raise GobiError(f"{folder} has no {weights}: without it the bonus cannot be told")
    return kind.load_or_train(folder, recipe, env, lambda *_: None)


def checksum(folder: Path) -> str | None:
    """What tells that which is kept in a folder from others; None where there is none."""
    for kind in KINDS:
        weights, about = (folder / name for name in kind.MODEL)
        if about.is_file():
            return files.checksum(weights.read_bytes())["sha256"]
    return None


def _kind(recipe: Recipe) -> ModuleType | None:
    return next((kind for kind in KINDS if kind.needed(recipe)), None)


def _copy(kind: ModuleType, source: Path, folder: Path) -> None:
    """The weights and what was written about them; the weights last, as when they are made."""
    with disk_errors(str(folder)):
        for name in kind.BESIDE:
            if (source / name).exists():
                write_whole(folder / name, (source / name).read_bytes())
        write_together({folder / name: (source / name).read_bytes() for name in kind.MODEL})
