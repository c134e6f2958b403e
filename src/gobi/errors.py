"""Errors that are the user's to mend: the command line prints them as one line."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Iterable
from types import ModuleType


class GobiError(Exception):
    """Something the caller can put right; the message says how."""


class MissingExtra(GobiError, ImportError):
    """An optional package is not installed, or does not work here."""


def require(module: str, extra: str) -> ModuleType:
    """Imports an optional module, or says in one line which extra brings it."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        install = f"pip install 'gobi[{extra}]'"
        if importlib.util.find_spec(package) is None:
            told = f"this needs the package '{package}', which is not installed: {install}"
        else:
            told = f"the package '{package}' is installed, but does not work here: {error}"
            # Something that it needs itself.
            told += f": {install}" if isinstance(error, ModuleNotFoundError) else ""
        raise MissingExtra(told) from error


def unknown(kind: str, name: str, known: Iterable[str]) -> GobiError:
    """An error for a name that does not exist, naming the nearest ones that do."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    hint = f"did you mean {', '.join(near)}?" if near else f"known are {shown}"
    return GobiError(f"unknown {kind} '{name}'; {hint}")
