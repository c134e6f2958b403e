"""Where commands write, and how they show that they are at work."""

from __future__ import annotations

from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gobi.cli.terminal import console
from gobi.errors import GobiError
from gobi.zoo import catalogue


def new_folder(asked: Path | None, default: str) -> Path:
    """The folder to write into: never one that holds something. By default runs/NAME, runs/NAME-2, ..."""
    if asked is not None:
        if not _is_free(asked):
            raise GobiError(f"the output folder {asked} is already in use: give another --out")
        return asked
    number, folder = 1, Path("runs") / default
    while not _is_free(folder):
        number += 1
        folder = Path("runs") / f"{default}-{number}"
    return folder


def beside(folder: Path, name: str) -> Path:
    """A file in the folder of a run; of an agent of the zoo, which lies in the package, here instead."""
    return Path(f"{folder.name}-{name}") if catalogue.is_entry(folder) else folder / name


def _is_free(folder: Path) -> bool:
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def progress_bar(*columns: TextColumn) -> Progress:
    """A bar on standard error, gone when it is done; silent where that is not a terminal."""
    screen = console(error=True)
    shown = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), *columns
    return Progress(*shown, console=screen, transient=True, disable=not screen.is_terminal)
