"""Reads our docstrings for the reference: the aligned lines `name:  what it is` become a table with types."""

from __future__ import annotations

import re
from typing import Any

import griffe

LINE = re.compile(r"^(\*{0,2}\w+): +(\S.*)$")
"""A field, or an argument, with what it is."""


class Fields(griffe.Extension):
    """Turns the lists in docstrings into sections that mkdocstrings draws as tables."""

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Lists the fields of a record as its attributes."""
        del kwargs
        if cls.docstring:
            cls.docstring.value = sectioned(cls.docstring.value, "Attributes:")

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """Lists a function's arguments."""
        del kwargs
        if func.docstring:
            names = {parameter.name for parameter in func.parameters}
            func.docstring.value = sectioned(func.docstring.value, "Args:", names)


def sectioned(text: str, heading: str, only: set[str] | None = None) -> str:
    """A docstring whose lists of `name:  text` are put under a heading of Google's style.

    only:  the names that make a list one of arguments; another list stays a plain one.
    """
    made: list[str] = []
    for paragraph in text.split("\n\n"):
        entries = _entries(paragraph)
        if entries is None:
            made.append(paragraph)
        elif only is not None and not {name for name, _ in entries} <= only:
            made.append("\n".join(f"- `{name}`: {what}" for name, what in entries))
        else:
            made.append("\n".join([heading, *(f"    {name}: {what}" for name, what in entries)]))
    return "\n\n".join(made)


def _entries(paragraph: str) -> list[tuple[str, str]] | None:
    """The names and texts of a list, its longer lines joined; None where the paragraph is no list."""
    entries: list[tuple[str, str]] = []
    for line in paragraph.splitlines():
        found = LINE.match(line)
        if found:
            entries.append((found[1], found[2]))
        elif entries and line.startswith("  "):
            name, what = entries[-1]
            entries[-1] = (name, f"{what} {line.strip()}")
        else:
            return None
    return entries or None
