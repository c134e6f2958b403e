"""Errors that are the user's to mend: the command line prints them as one line."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class GobiError(Exception):
    """Something the caller can put right; the message says how."""


class MissingExtra(GobiError, ImportError):
    """An optional package is not installed."""


def require(module: str, extra: str) -> ModuleType:
    """Imports an optional module, or says in one line which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtra(
            f"this needs the package '{package}', which is not installed: pip install 'gobi[{extra}]'"
        ) from error


def unknown(kind: str, name: str, known: Iterable[str]) -> GobiError:
    """An error for a name that does not exist, naming the nearest ones that do."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    hint = f"did you mean {', '.join(near)}?" if near else f"known are {shown}"
    return GobiError(f"unknown {kind} '{name}'; {hint}")
