"""The folder of a run: where its files are, what it was asked to do, and whether it has done it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from gobi.errors import GobiError
from gobi.training import card, checkpoints, resolved
from gobi.training.files import disk_errors, parse_json, to_json, write_whole
from gobi.training.recipe import AnyRecipe, from_json

R = TypeVar("R", bound=AnyRecipe)


@dataclasses.dataclass(frozen=True)
class Folder:
    """Where the files of a run are."""

    path: Path

    @property
    def recipe(self) -> Path:
        """All settings."""
        return self.path / "recipe.json"

    @property
    def run(self) -> Path:
        """The seeds, whether the run repeats itself bit for bit, and all options of its rewards."""
        return self.path / "run.json"

    @property
    def card(self) -> Path:
        """What one must know to judge the run."""
        return self.path / "card.json"

    @property
    def metrics(self) -> Path:
        """One row per seed and interval."""
        return self.path / "metrics.csv"

    @property
    def checkpoints(self) -> Path:
        """Everything that a run needs to go on."""
        return self.path / "checkpoints"

    @property
    def snapshots(self) -> Path:
        """The first seed's policy along the way."""
        return self.path / "snapshots"

    @property
    def policy(self) -> Path:
        """One seed's policy alone, instead of checkpoints, in a run that was stripped for the zoo."""
        return self.path / "policy.safetensors"

    @property
    def board(self) -> Path:
        """TensorBoard's files."""
        return self.path / "tensorboard"

    @property
    def replay(self) -> Path:
        """The frames that control tasks are learned from: checkpoints name those that they need."""
        return self.path / "replay"

    @property
    def pictures(self) -> Path:
        """What the world model of a control task saw, and what it made of it."""
        return self.path / "pictures"

    @property
    def curves(self) -> Path:
        """The learning curves."""
        return self.path / "curves.png"


@dataclasses.dataclass(frozen=True)
class Plan(Generic[R]):
    """What a run was asked to do, by a recipe of either kind."""

    recipe: R
    seeds: tuple[int, ...]
    deterministic: bool = False


Run = tuple[Folder, Plan]
"""Where a run lies, and what it was asked to do."""


@contextlib.contextmanager
def alone(*folders: Folder) -> Iterator[None]:
    """While this lasts no other process trains in these folders; refuses those in which one does."""
    with contextlib.ExitStack() as held:
        for folder in folders:
            held.enter_context(_held(folder.path))
        yield


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """A lock on the folder itself, which leaves no file and ends with the process, however that ends."""
    try:
        import fcntl

        place = os.open(path, os.O_RDONLY)
    except (ImportError, FileNotFoundError):
        # A system that has no such locks; a folder that was never begun, which is refused for that.
        yield
        return
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GobiError(f"{path} is being trained in by another process") from None
        except OSError:
            # Nor on some disks of a network.
            pass
        yield
    finally:
        os.close(place)


def begin(folder: Folder, plan: Plan) -> None:
    """Makes the folder of a new run; refuses one in which there is something."""
    if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
        raise GobiError(f"the output folder {folder.path} is already in use: give another --out")
    with disk_errors(str(folder.path)):
        folder.path.mkdir(parents=True, exist_ok=True)
        write_whole(folder.recipe, (plan.recipe.to_json() + "\n").encode())
        asked = {
            "seeds": plan.seeds,
            "deterministic": plan.deterministic,
            "options": resolved.options(plan.recipe),
            "command": card.command_line(),
        }
        write_whole(folder.run, to_json(asked))


def planned(folder: Folder) -> Plan:
    """What the run in a folder was asked to do."""
    if not folder.recipe.is_file() or not folder.run.is_file():
        raise GobiError(f"{folder.path} is not the folder of a run: it has no {folder.recipe.name}")
    asked = _asked(folder)
    try:
        recipe = from_json(folder.recipe.read_bytes())
    except GobiError as error:
        raise GobiError(f"{folder.recipe}: {error}") from error
    return Plan(recipe, asked["seeds"], asked["deterministic"])


def begun_by(folder: Folder) -> str:
    """The command that began the run, whichever goes on with it; the present one where it is not known."""
    asked = _asked(folder) if folder.run.is_file() else {}
    return asked.get("command") or card.command_line()


def changed_options(folder: Folder, recipe: AnyRecipe) -> list[str]:
    """The options of the run's rewards that the code's defaults make otherwise now, each with both values."""
    return resolved.changed(_asked(folder).get("options"), recipe) if folder.run.is_file() else []


def refuse_changed_options(folder: Folder, recipe: AnyRecipe) -> None:
    """Refuses to go on with a run as another method than it was begun as."""
    if changed := changed_options(folder, recipe):
        raise GobiError(
            f"{folder.path} was begun with other defaults than its reward has now: {'; '.join(changed)}; "
            "go on with the gobi that began it, which the card names, or start a new run"
        )


def _asked(folder: Folder) -> dict[str, Any]:
    """What run.json says, each part of its type."""
    try:
        asked = parse_json(folder.run.read_bytes())
        if not isinstance(asked, dict):
            raise ValueError("it must be an object")
        seeds, options = asked.get("seeds"), asked.get("options")
        if not (isinstance(seeds, list) and seeds and all(type(seed) is int for seed in seeds)):
            raise ValueError(f"seeds must be whole numbers in a list, at least one, got {seeds!r}")
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"seeds must differ from each other, got {seeds!r}")
        if type(asked.get("deterministic")) is not bool:
            raise ValueError(f"deterministic must be true or false, got {asked.get('deterministic')!r}")
        rewards = options.values() if isinstance(options, dict) else [options]
        if options is not None and not all(isinstance(chosen, dict) for chosen in rewards):
            raise ValueError(f"options must be an object of objects, got {options!r}")
    except ValueError as error:
        raise GobiError(f"the file {folder.run} is altered: {error}") from None
    return {**asked, "seeds": tuple(seeds)}


def finished(folder: Folder, plan: Plan) -> bool:
    """Whether the run has come to its end."""
    kept = checkpoints.available(folder.checkpoints)
    return bool(kept) and checkpoints.facts(kept[-1])["frames"] >= plan.recipe.all_frames
