"""Another Python that finds what this one does, and what crosses between the two: pickled messages.

The child's standard input ends when its parent says so, and also when that is killed.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, BinaryIO


def start(code: str, *words: str, **variables: str) -> subprocess.Popen[bytes]:
    """A process that runs this code with these arguments, and these variables of the environment."""
    # The child finds its modules where we find ours.
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, **variables},
        # Ctrl-C goes to all processes of a session, and is for the parent to deal with.
        start_new_session=True,
    )


def serve(answer: Callable[[BinaryIO, BinaryIO], None]) -> None:
    """Of the child: does its work, given where messages come from and where they go to.

    Signals are for the parent to deal with.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not get between the messages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        answer(sys.stdin.buffer, answers)
    except (EOFError, BrokenPipeError):
        # The parent has gone; nobody is left to complain to.
        os._exit(0)


def write(stream: Any, message: object) -> None:
    """Sends a message, which `pickle.load` reads on the other side."""
    stream.write(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
    stream.flush()
