"""The heap that commands run with: few arenas, unless the user wants it otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ARENAS = """
import ctypes, sys, threading
from gobi.cli.heap import few_arenas

if sys.argv[1] == "few":
    few_arenas()
libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype = ctypes.c_void_p
together, kept = threading.Barrier(6), []


def take():
    together.wait()
    # From its arena, which is 64 MiB of addresses; larger pieces would be mapped one by one.
    kept.append(libc.malloc(1000))
    together.wait()


threads = [threading.Thread(target=take) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len({address >> 26 for address in kept}))
"""


def arenas(how: str, **variables: str) -> int:
    known = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    command = [sys.executable, "-c", ARENAS, how]
    return int(subprocess.run(command, env=known | variables, capture_output=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's setting")
def test_threads_share_few_arenas_unless_the_user_has_asked_for_a_number():
    assert arenas("as it is") > 2
    assert arenas("few") <= 2
    assert arenas("few", MALLOC_ARENA_MAX="6") > 2
