"""Files that are there whole or not at all, and that say so when they were altered."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gobi.errors import GobiError

HIDDEN = "."
"""The names of files and folders that are being written or removed begin with this."""

DRAFT_SECONDS = 3600
"""A draft that was not touched for so long has no writer any more."""


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, or replaces it, such that it is there either whole or as it was before."""
    write_together({path: content})


def write_together(files: dict[Path, bytes]) -> None:
    """Writes files of one folder that belong together; the last vouches for the others.

    Nothing is replaced before all are on the disk. A process killed while they are moved to their places
    leaves them without the last one, never with one that vouches for others.
    """
    drafts = {path: path.with_name(f"{HIDDEN}{path.name}.{os.getpid()}.writing") for path in files}
    try:
        for path, content in files.items():
            _forget_old_drafts(path)
            write_synced(drafts[path], content)
        *_, last = files
        if len(files) > 1:
            last.unlink(missing_ok=True)
        for path, draft in drafts.items():
            draft.replace(path)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
    sync_folder(last.parent)


def _forget_old_drafts(path: Path) -> None:
    """Removes what killed processes left; what is recent may be another process's that is still at work."""
    for draft in path.parent.glob(f"{HIDDEN}{glob.escape(path.name)}.*.writing"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - draft.stat().st_mtime > DRAFT_SECONDS:
                draft.unlink()


def write_synced(path: Path, content: bytes) -> None:
    """Writes a file and waits until it is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Makes the names given in a folder outlast a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checksum(content: bytes) -> dict[str, Any]:
    """The SHA-256 and the length of what goes into a file."""
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def read_checked(path: Path, expected: dict[str, Any], advice: str = "") -> bytes:
    """The content of a file, if it still has that checksum; the advice ends the error if it has not."""
    if not path.is_file():
        raise GobiError(f"the file {path} is missing{advice}")
    content = path.read_bytes()
    if len(content) < expected["bytes"]:
        raise GobiError(f"the file {path} is truncated: {len(content)} of {expected['bytes']} bytes{advice}")
    if checksum(content) != expected:
        raise GobiError(f"the file {path} is altered: it has another checksum than when written{advice}")
    return content


def parse_json(content: bytes | str) -> Any:
    """What JSON says; a ValueError where it is none, or is nested deeper than Python follows."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def to_json(content: Any) -> bytes:
    """JSON, one entry a line; scalars and arrays of NumPy and JAX become numbers and lists."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic | np.ndarray | jax.Array):
            return value.tolist()
        raise GobiError(f"{value!r} cannot be written as JSON")

    return (json.dumps(content, indent=1, default=plain) + "\n").encode()


@contextlib.contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turns what the disk complains about into one clear line."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else str(error.strerror or error)
        raise GobiError(f"could not write {what}: {why}; what was saved before is untouched") from error
