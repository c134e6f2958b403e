"""Runs in processes of their own, several at once.

What a child tells crosses as the calls of its listener, and in the end what came of it. It stops, with
everything saved, when its standard input ends: its parent has closed that, or was killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, BinaryIO

from gobi import processes
from gobi.cli.compiled import keep_compiled
from gobi.cli.train import make_deterministic
from gobi.errors import GobiError
from gobi.training import run
from gobi.training.pack import Listener
from gobi.training.record import Outcome
from gobi.training.stopping import Stopping
from gobi.training.trainer import Row

LOOK_SECONDS = 0.2
"""Between two looks at whether to stop."""

ENDING_SECONDS = 1.0
"""For a process that was killed to be gone."""

_SERVE = "from gobi.cli.crew import serve; serve()"


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a run ended.

    outcome:  of one that came to its end; None of one that was stopped, and saved, or did not begin.
    trouble:  what went wrong, in one line.
    """

    outcome: Outcome | None = None
    trouble: str = ""


class Child:
    """The run in a folder, going on in a process of its own."""

    def __init__(self, folder: run.Folder):
        # On a CPU, fewer threads for each would be no faster, and would round otherwise than a run alone.
        self._process = processes.start(_SERVE, str(folder.path))

    def listen(self, listener: Listener) -> Ended:
        """Hands on what the child tells until it ends."""
        assert self._process.stdout is not None
        while True:
            try:
                called, words = pickle.load(self._process.stdout)
            except EOFError:
                return Ended(trouble=_lost(self._process.wait()))
            except pickle.UnpicklingError:
                # Killed in the middle of a message; or it would wait for somebody to read what it writes.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return Ended(trouble=_lost(self._process.wait(ENDING_SECONDS)))
                self._process.kill()
                return Ended(trouble="what its process tells cannot be understood")
            if isinstance(words, Ended):
                return words
            getattr(listener, called)(*words)

    def stop(self) -> None:
        """Asks it to save everything and end."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()

    def close(self) -> None:
        """Waits for the end of one that was told to end, or has told what came of it."""
        assert self._process.stdout is not None
        self.stop()
        self._process.stdout.close()
        self._process.wait()


class Crew:
    """Trains runs, so many at once; each has a process, and a thread here that listens to it."""

    def __init__(self, at_once: int, stopping: Stopping):
        self.at_once, self.stopping = at_once, stopping
        self._over = False
        self._working: set[Child] = set()
        self._lock = threading.Lock()

    def train(
        self, runs: Sequence[run.Folder], begin: Callable[[run.Folder], Listener]
    ) -> Generator[tuple[run.Folder, Ended], None, None]:
        """Trains them, and gives what came of each as it ends; of those whose turn never came, too.

        When there is a reason to stop, all are saved before the last one is given.

        begin:  called when a run's turn comes, for what will listen to it.
        """
        with self.stopping, ThreadPoolExecutor(self.at_once) as pool:
            try:
                doing = {pool.submit(self._work, folder, begin): folder for folder in runs}
                left = set(doing)
                while left:
                    done, left = wait(left, LOOK_SECONDS, FIRST_COMPLETED)
                    for one in done:
                        yield doing[one], one.result()
                    if not self._over and self.stopping.why():
                        self._dismiss(Child.stop)
            except KeyboardInterrupt:
                self._dismiss(Child.kill)
                raise
            except BaseException:
                # Whatever went wrong here, their work is not lost.
                self._dismiss(Child.stop)
                raise

    def _dismiss(self, how: Callable[[Child], None]) -> None:
        """Nobody begins anything from now on, and who works is told to end."""
        with self._lock:
            self._over = True
            for child in self._working:
                how(child)

    def _work(self, folder: run.Folder, begin: Callable[[run.Folder], Listener]) -> Ended:
        with self._lock:
            if self._over or self.stopping.why():
                return Ended()
            try:
                listener, child = begin(folder), Child(folder)
            except (GobiError, OSError) as error:
                return Ended(trouble=_in_one_line(error))
            self._working.add(child)
        try:
            return child.listen(listener)
        finally:
            # Until it has ended it can be killed.
            child.close()
            with self._lock:
                self._working.discard(child)


class _Telling(Listener):
    """Of the child: what it hears, it passes on, as long as there is somebody to hear it."""

    def __init__(self, answers: BinaryIO):
        self.answers = answers

    def stage(self, what: str, done: int, total: int) -> None:
        self._pass_on("stage", what, done, total)

    def row(self, frames: int, total: int, row: Row, steps_per_second: float) -> None:
        self._pass_on("row", frames, total, row, steps_per_second)

    def say(self, text: str) -> None:
        self._pass_on("say", text)

    def _pass_on(self, called: str, *words: Any) -> None:
        # If the parent was killed there is still the run to be saved.
        with contextlib.suppress(BrokenPipeError):
            processes.write(self.answers, (called, words))


def serve() -> None:
    """The child: goes on with the run in the folder that it was given, and tells what comes of it."""
    processes.serve(_serve)


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    folder, stopping = run.Folder(Path(sys.argv[1])), _UntilTheEnd(requests)
    processes.write(answers, ("end", _trained(folder, _Telling(answers), stopping)))


def _trained(folder: run.Folder, listener: Listener, stopping: Stopping) -> Ended:
    try:
        plan = run.planned(folder)
        if plan.deterministic:
            make_deterministic()
        keep_compiled()
        return Ended(run.go(folder, plan, listener, stopping=stopping))
    except run.Stopped:
        return Ended()
    except GobiError as error:
        return Ended(trouble=_in_one_line(error))
    except Exception as error:
        # Nobody else could show where.
        traceback.print_exc()
        return Ended(trouble=f"unexpected {type(error).__name__}: {_in_one_line(error)}")


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _lost(code: int) -> str:
    """Why a process that did not say it ended, by its exit code."""
    if code >= 0:
        return f"its process ended unexpectedly (exit code {code})"
    return f"its process was killed by signal {-code}; if memory ran out, take fewer --processes"


class _UntilTheEnd(Stopping):
    """Stops once the parent's end of the standard input is closed; signals are the parent's."""

    def __init__(self, requests: BinaryIO):
        super().__init__(lambda _: None)
        threading.Thread(target=self._watch, args=(requests,), daemon=True).start()

    def _watch(self, requests: BinaryIO) -> None:
        # Not by way of the buffer, which the interpreter wants to close when it ends while we still wait.
        while os.read(requests.fileno(), 1):
            pass
        self.asked = True

    def __enter__(self) -> _UntilTheEnd:
        return self

    def __exit__(self, *_: object) -> None:
        pass
