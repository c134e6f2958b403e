"""From words on the command line to a call: tyro reads the flags, and what it rejects is told in one line."""

from __future__ import annotations

import contextlib
import functools
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
import tyro.constructors

from gobi.errors import GobiError
from gobi.zoo import catalogue

TaskName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
"""A task's id or short name, given without a flag."""
RunPlace = Annotated[
    Path,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="DIR",
        instance_from_str=lambda words: catalogue.resolve(Path(words[0])),
        is_instance=lambda value: isinstance(value, Path),
        str_from_instance=lambda path: [str(path)],
    ),
]
"""Where a run lies: its folder, or zoo/NAME."""
RunFolder = Annotated[RunPlace, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
"""The folder of a run, or zoo/NAME, given without a flag."""
Switch = tyro.conf.FlagCreatePairsOff[bool]
"""A flag that is off unless it is given."""

LARGEST_SEED = 2**31 - 1
MOST_SEEDS = 10_000
"""Far more than any device trains side by side."""


class UsageError(GobiError):
    """The command line makes no sense: the exit code is another one than for work that failed."""


def bind(command: Callable[..., None], words: Sequence[str], program: str) -> Callable[[], None]:
    """The command with its arguments read from the words, ready to be called. `--help` exits from here."""

    # tyro would call the command itself; it must not run while its error output is held back.
    @functools.wraps(command)
    def bound(*args: Any, **options: Any) -> Callable[[], None]:
        return functools.partial(command, *args, **options)

    for word in words:
        if "\0" in word:
            raise UsageError(f"an argument has a null byte in it: {word!r} (see {program} --help)")
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(bound, prog=program, args=words)
    except SystemExit as end:
        if end.code in (None, 0):
            raise
        raise UsageError(f"{_in_one_line(complaint.getvalue())} (see {program} --help)") from None


def check_seed(seed: int) -> None:
    """Refuses a seed that does not fit into 31 bits."""
    at_least("--seed", seed, 0)
    at_most("--seed", seed, LARGEST_SEED)


def seeds_from(seed: int, seeds: int) -> tuple[int, ...]:
    """So many seeds, from the first one on; a number of them that cannot be meant is refused."""
    check_seed(seed)
    at_least("--seeds", seeds, 1)
    at_most("--seeds", seeds, MOST_SEEDS)
    check_seed(seed + seeds - 1)
    return tuple(range(seed, seed + seeds))


def at_least(flag: str, value: int | float, least: int) -> None:
    """Refuses a number that is too small to mean anything, or is none."""
    if not value >= least:
        raise GobiError(f"{flag} must be at least {least}, got {value}")


def at_most(flag: str, value: int | float, most: int) -> None:
    """Refuses a number that is larger than anything that could be done."""
    if value > most:
        raise GobiError(f"{flag} must be at most {most}, got {value}")


def _in_one_line(box: str) -> str:
    """The gist of tyro's boxed message: the part above its first rule, and the flags it speaks of below."""
    parts: list[list[str]] = [[]]
    _title, *lines = re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines() or [""]
    for line in lines:
        # Two columns of border; where the terminal knows no lines, blanks and dashes stand for them.
        inside = line[2:].rstrip(" │")
        if re.fullmatch(r"[─-]{4,}╯?", inside):
            parts.append([])
        elif inside:
            parts[-1].append(inside)
    gist, *others = [part for part in parts if part] or [[box]]
    if gist[0].startswith("Missing from"):
        message = f"missing {', '.join(_names(gist))}"
    else:
        message = " ".join(" ".join(gist).split())
    message = message[:1].lower() + message[1:].rstrip(".")
    for heading, *about in others:
        if heading.startswith("Unrecognized options"):
            message += f"; unrecognized options: {', '.join(_names(about))}"
        if heading.startswith("Perhaps you meant"):
            message += f"; did you mean {_names(about)[0].split()[0]}?"
    return message


def _names(lines: Sequence[str]) -> list[str]:
    """The flags in a part of the box: indented, and less than what is said about them."""
    return [line.strip() for line in lines if re.match(r" {4}\S", line)]
