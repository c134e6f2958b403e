"""The heap of the C library: few arenas, so that what was freed in one thread is used again by the others."""

from __future__ import annotations

import contextlib
import ctypes
import os

M_ARENA_MAX = -8
ARENAS = 2
"""glibc has eight for each core otherwise. Compiling runs in many threads, and leaves each of them room that
no other one uses: on two cores a run that compiles then takes some 300 MiB more."""


def few_arenas() -> None:
    """Asks glibc for few arenas, unless the user has; other C libraries stay as they are."""
    if "MALLOC_ARENA_MAX" in os.environ:
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(M_ARENA_MAX, ARENAS)
