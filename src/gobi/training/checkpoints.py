"""Checkpoints: everything a run needs to go on, with checksums; and weights alone.

A checkpoint is a folder named by its frames. It is written under a hidden name and then moved to its place in
one step: whatever stops the process, a folder that bears a number is a whole checkpoint. Readers change
nothing on the disk, so they may look at a run that is still going on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gobi.errors import GobiError
from gobi.training import trees
from gobi.training.files import (
    HIDDEN,
    checksum,
    disk_errors,
    parse_json,
    read_checked,
    sync_folder,
    to_json,
    write_synced,
    write_together,
)

ARRAYS, FACTS, MANIFEST = "arrays.safetensors", "facts.json", "manifest.json"


def save(folder: Path, tree: Any, facts: dict[str, Any], keep: int = 2) -> Path:
    """Writes a checkpoint into the folder and returns where it lies.

    tree:   arrays of any kind, typed keys among them, and numbers; see `trees.pack`.
    facts:  what JSON can hold; `facts["frames"]` gives the checkpoint its name.
    keep:   how many checkpoints stay. Those with more frames than this one go first: they were made before
            the run was taken up again from an earlier one, and will be made anew.
    """
    if keep < 1:
        raise GobiError(f"at least one checkpoint must be kept, got keep={keep}")
    place = folder / f"{int(facts['frames']):012d}"
    with disk_errors(f"the checkpoint {place}"):
        folder.mkdir(parents=True, exist_ok=True)
        _clean(folder)
        draft = folder / f"{HIDDEN}{place.name}.writing"
        try:
            _write_files(draft, tree, facts)
            replaced = _hide(place) if place.exists() else None
            draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        sync_folder(folder)
        if replaced:
            shutil.rmtree(replaced)
        forget_after(folder, int(facts["frames"]))
        for old in available(folder)[:-keep]:
            shutil.rmtree(_hide(old))
    return place


def available(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first; nothing that was not written to its end is among them."""
    if not folder.is_dir():
        return []
    whole = [path for path in folder.iterdir() if path.name.isdecimal() and (path / MANIFEST).is_file()]
    return sorted(whole, key=lambda path: int(path.name))


def latest(folder: Path) -> Path | None:
    """The newest checkpoint, or None before the first; if it is damaged, the error names the one before."""
    found = available(folder)
    if not found:
        return None
    _verified(found[-1])
    return found[-1]


def named(folder: Path, name: str) -> Path:
    """The checkpoint of that name."""
    names = [path.name for path in available(folder)]
    if name not in names:
        raise GobiError(f"no checkpoint '{name}' in {folder}; there are: {', '.join(names) or 'none'}")
    return folder / name


def chosen(folder: Path, name: str | None) -> Path | None:
    """The checkpoint of that name; without one the newest, or None before the first."""
    return named(folder, name) if name else latest(folder)


def before(path: Path) -> Path | None:
    """The checkpoint before that one, if there is one."""
    found = available(path.parent)
    earlier = found[: found.index(path)] if path in found else []
    return earlier[-1] if earlier else None


def advice(path: Path) -> str:
    """The end of an error about a checkpoint that cannot be used: how to go on from the one before it."""
    earlier = before(path)
    if earlier is None:
        return ""
    return f"; gobi resume {path.parent.parent} --checkpoint {earlier.name} goes on from the one before it"


def forget_after(folder: Path, frames: int) -> None:
    """Removes the checkpoints with more frames, for a run that goes on from an earlier one."""
    for path in available(folder):
        if int(path.name) > frames:
            shutil.rmtree(_hide(path))


def load(path: Path, like: Any, within: str = "") -> Any:
    """The tree of a checkpoint, in the structure of `like`; see `trees.unpack`.

    within:  only the part of the tree whose leaves' names begin so, such as `['state'].policy`.
    """
    files = _verified(path)
    return trees.unpack(files[ARRAYS], json.loads(files[FACTS]), like, str(path), within)


def facts(path: Path) -> dict[str, Any]:
    """What was saved beside the arrays, in a checkpoint or in a file of weights."""
    if path.suffix == ".safetensors":
        return _read_weights(path)[1]["facts"]
    return json.loads(_verified(path, [FACTS])[FACTS])["facts"]


def save_weights(path: Path, tree: Any, facts: dict[str, Any]) -> Path:
    """Writes a tree as NAME.safetensors and, beside it, NAME.json with the facts and the checksums.

    Arrays without the JSON count as not there.
    """
    beside = _json_beside(path)
    with disk_errors(f"the weights {path}"):
        packed, kinds_and_numbers = trees.pack(tree)
        about = {"facts": facts, **kinds_and_numbers}
        sums = {"arrays": checksum(packed), "about": checksum(to_json(about))}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_together({path: packed, beside: to_json({"checksums": sums, "about": about})})
    return path


def load_weights(path: Path, like: Any) -> Any:
    """The tree in a file of weights, in the structure of `like`; see `trees.unpack`."""
    packed, about = _read_weights(path)
    return trees.unpack(packed, about, like, str(path))


def _write_files(draft: Path, tree: Any, facts: dict[str, Any]) -> None:
    """Fills the folder of a checkpoint; the manifest comes last."""
    packed, kinds_and_numbers = trees.pack(tree)
    files = {ARRAYS: packed, FACTS: to_json({"facts": facts, **kinds_and_numbers})}
    files[MANIFEST] = to_json({name: checksum(content) for name, content in files.items()})
    draft.mkdir()
    for name, content in files.items():
        write_synced(draft / name, content)
    sync_folder(draft)


def _verified(path: Path, names: Sequence[str] = (ARRAYS, FACTS)) -> dict[str, bytes]:
    """The arrays and facts of a checkpoint, or some of them, if they are as they were written."""
    manifest = path / MANIFEST
    if not manifest.is_file():
        raise GobiError(f"{path} is not a checkpoint: it has no {MANIFEST}")
    instead = advice(path)
    try:
        sums = parse_json(manifest.read_bytes())
        return {name: read_checked(path / name, sums[name], instead) for name in names}
    except (ValueError, LookupError, TypeError):
        raise GobiError(f"the file {manifest} is altered{instead}") from None


def _read_weights(path: Path) -> tuple[bytes, dict[str, Any]]:
    """The arrays and what stands beside them, if both are as they were written."""
    beside = _json_beside(path)
    if not beside.is_file():
        raise GobiError(f"no weights at {path}" + (f": {beside.name} is missing" if path.exists() else ""))
    try:
        content = parse_json(beside.read_bytes())
        sums, about = content["checksums"], content["about"]
        if checksum(to_json(about)) != sums["about"]:
            raise ValueError("another checksum")
        return read_checked(path, sums["arrays"]), about
    except (ValueError, LookupError, TypeError):
        raise GobiError(f"the file {beside} is altered") from None


def _json_beside(path: Path) -> Path:
    if path.suffix != ".safetensors":
        raise GobiError(f"the name of a file of weights must end in .safetensors, got '{path.name}'")
    return path.with_suffix(".json")


def _hide(path: Path) -> Path:
    """Takes a checkpoint out of sight in one step, so that half of one is never taken for one."""
    hidden = path.with_name(f"{HIDDEN}{path.name}.removing")
    shutil.rmtree(hidden, ignore_errors=True)
    return path.rename(hidden)


def _clean(folder: Path) -> None:
    """Removes what killed processes left behind."""
    for ending in ("writing", "removing"):
        for path in folder.glob(f"{HIDDEN}*.{ending}"):
            shutil.rmtree(path)
