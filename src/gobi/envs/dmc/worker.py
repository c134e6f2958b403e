"""A control task in a process of its own, so that it is simulated and drawn while others learn.

Requests and answers cross by the child's standard input and output. The child ends when its input does, which
is also when the parent is killed; signals are for the parent to deal with.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import weakref
from typing import Any, BinaryIO, NoReturn

import numpy as np

from gobi import processes
from gobi.envs.dmc import rendering
from gobi.envs.dmc.environment import Control, Observations, Step, check
from gobi.envs.dmc.tasks import ControlTask
from gobi.errors import GobiError
from gobi.types import Spec

PATIENCE = 5.0
"""Seconds in which a child that was told to end does so, or is killed."""

_SERVE = "from gobi.envs.dmc.worker import serve; serve()"


class Worker:
    """`Control` in a process of its own: `send` an action, do something else, `receive` the step.

    The constructor returns at once; the first call waits until the child is ready.
    """

    def __init__(
        self,
        task: str | ControlTask,
        seed: int,
        observations: Observations = "pixels",
        repeat: int = 2,
        size: int = 100,
    ):
        """`repeat`: environment steps for which an action is held. `size`: height and width of a frame."""
        self.task = check(task, seed, observations, repeat, size)
        rendering.choose(needed=observations == "pixels")
        self._name = f"{self.task.id}, seed {seed}"
        # It must not reach for the accelerator.
        self._process = processes.start(_SERVE, JAX_PLATFORMS="cpu")
        self._end = weakref.finalize(self, _end, self._process)
        self._spec: Spec | None = None
        self._waiting = False
        self._put((self.task, seed, observations, repeat, size))

    @property
    def spec(self) -> Spec:
        """What a learner must know of the task."""
        if self._spec is None:
            try:
                self._spec = self._get()
            except GobiError:
                self.close()
                raise
        assert self._spec is not None
        return self._spec

    @property
    def pid(self) -> int:
        """The number of the child process."""
        return self._process.pid

    def reset(self) -> np.ndarray:
        """Starts the next episode and returns its first observation."""
        return self._ask("reset")

    def send(self, action: np.ndarray) -> None:
        """Lets the child take a step, and does not wait for it."""
        self._request("step", np.asarray(action))
        self._waiting = True

    def receive(self) -> Step:
        """Waits for the step that was sent."""
        if not self._waiting:
            raise GobiError(f"{self._name}: receive() without send()")
        self._waiting = False
        return self._get()

    def step(self, action: np.ndarray) -> Step:
        """Takes a step and waits for it."""
        self.send(action)
        return self.receive()

    def frame(self, size: int | None = None) -> np.ndarray:
        """The picture that the task's camera sees now, whatever the observations are."""
        return self._ask("frame", size)

    def save(self) -> dict[str, np.ndarray]:
        """All that `load` needs to continue from here, bit for bit; the same as `Control` saves."""
        return self._ask("save")

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continues where `save` was called."""
        self._ask("load", saved)

    def close(self) -> None:
        """Ends the child."""
        self._end()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, *arguments: Any) -> Any:
        self._request(method, *arguments)
        return self._get()

    def _request(self, method: str, *arguments: Any) -> None:
        if self._waiting:
            raise GobiError(f"{self._name}: a step is under way; receive() it first")
        _ = self.spec
        self._put((method, arguments))

    def _put(self, message: object) -> None:
        if not self._end.alive:
            raise GobiError(f"{self._name}: the worker was closed")
        assert self._process.stdin is not None
        try:
            processes.write(self._process.stdin, message)
        except OSError:
            self._lost()

    def _get(self) -> Any:
        if not self._end.alive:
            raise GobiError(f"{self._name}: the worker was closed")
        assert self._process.stdout is not None
        try:
            trouble, answer = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError):
            self._lost()
        except BaseException:
            # Half an answer has been read: what comes next could not be understood.
            self._process.kill()
            self.close()
            raise
        if trouble:
            raise GobiError(f"{self._name}: {trouble}")
        return answer

    def _lost(self) -> NoReturn:
        self.close()
        code = self._process.returncode
        raise GobiError(f"{self._name}: its process ended unexpectedly (exit code {code})")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Closes the child's input, which ends it, and waits for it, so that no zombie is left."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    process.stdout.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def serve() -> None:
    """The child: answers requests from its standard input until that ends."""
    processes.serve(_answer)


def _answer(requests: BinaryIO, answers: BinaryIO) -> None:
    try:
        control = Control(*pickle.load(requests))
    except Exception as error:
        processes.write(answers, (_told(error), None))
        return
    processes.write(answers, ("", control.spec))
    while True:
        method, arguments = pickle.load(requests)
        try:
            answer = "", getattr(control, method)(*arguments)
        except Exception as error:
            answer = _told(error), None
        processes.write(answers, answer)


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, GobiError) else f"{type(error).__name__}: {error}"
