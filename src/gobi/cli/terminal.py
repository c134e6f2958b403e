"""What the commands print with: tables that fit a terminal, and stay plain and whole in a pipe."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 240
"""Wide enough for every table we have: what is piped is read by programs, which do not want it wrapped."""

MIN_TABLE_WIDTH = 100
"""In a narrower terminal the lines run over: easier to read than columns of three letters."""


def console(error: bool = False) -> Console:
    """Standard output, or standard error, as rich sees it."""
    screen = Console(stderr=error, highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        screen.width = PIPE_WIDTH
    return screen


def say(text: str) -> None:
    """Prints a text; long lines are left to the terminal."""
    console().print(text, soft_wrap=True)


def note(text: str) -> None:
    """Prints what one should know of what else is printed."""
    say(f"note: {text}")


def show(rows: Sequence[Sequence[str]], headings: Sequence[str] = (), numbers: Sequence[str] = ()) -> None:
    """Prints a table. Columns whose headings are in `numbers` are set to the right.

    Only columns that are neither the first nor numbers may be broken into lines; a heading is broken at its
    newlines. Without headings, the table is a plain list.
    """
    screen = console()
    screen.width = max(screen.width, MIN_TABLE_WIDTH)
    ruled = bool(headings) and screen.is_terminal
    made = Table(
        box=box.SIMPLE_HEAD if ruled else None,
        show_header=bool(headings),
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0) if ruled else (0, 2, 0, 0),
    )
    for place, heading in enumerate(headings or [""] * len(rows[0])):
        right = heading in numbers
        shown = heading if screen.is_terminal else heading.replace("\n", " ")
        made.add_column(shown, justify="right" if right else "left", no_wrap=right or place == 0)
    for row in rows:
        made.add_row(*[Text(cell) for cell in row])
    with screen.capture() as drawn:
        screen.print(made)
    # rich fills every line with blanks up to the table's edge.
    for line in drawn.get().splitlines():
        screen.print(Text.from_ansi(line.rstrip()), soft_wrap=True)
