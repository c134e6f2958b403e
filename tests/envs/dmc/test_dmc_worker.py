"""A control task in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import numpy as np
import pytest

from gobi.envs.dmc import Control, ControlTask, Worker
from gobi.errors import GobiError

pytestmark = pytest.mark.usefixtures("suite")
TASK = "cheetah_run_sparse"


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(TASK, 3, "state", repeat=4) as worker:
        yield worker


def actions(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, 6)).astype(np.float32)


def test_its_transitions_are_those_of_the_plain_environment(worker):
    plain, first = Control(TASK, 3, "state", repeat=4), worker.save()
    assert worker.spec == plain.spec
    assert np.array_equal(worker.reset(), plain.reset())
    ends = 0
    for action in actions(300):
        worker.send(action)
        expected, step = plain.step(action), worker.receive()
        assert np.array_equal(step.observation, expected.observation)
        assert step[1:] == expected[1:]
        if step.done:
            ends += 1
            assert np.array_equal(worker.reset(), plain.reset())
    assert ends == 1
    worker.load(first)


def test_what_it_saved_goes_on_in_the_plain_environment_and_back(worker):
    plain = Control(TASK, 8, "state", repeat=4)
    worker.reset()
    worker.step(actions(1)[0])
    plain.load(worker.save())
    kept = plain.save()
    expected = [worker.step(action) for action in actions(20)]
    steps = [plain.step(action) for action in actions(20)]
    worker.load(kept)
    again = [worker.step(action) for action in actions(20)]
    for one, two, three in zip(expected, steps, again, strict=True):
        assert np.array_equal(one.observation, two.observation)
        assert np.array_equal(one.observation, three.observation)


def test_errors_of_the_child_are_raised_here_and_it_goes_on(worker):
    worker.reset()
    message = r"dmc/cheetah_run_sparse, seed 3: .*takes actions of shape \(6,\), got \(2,\)"
    with pytest.raises(GobiError, match=message):
        worker.step(np.zeros(2, np.float32))
    with pytest.raises(GobiError, match="KeyError: 'made_by'"):
        worker.load({})
    assert worker.step(actions(1)[0]).observation.shape == (17,)


def test_a_step_under_way_must_be_received_before_anything_else(worker):
    worker.reset()
    with pytest.raises(GobiError, match=r"receive\(\) without send\(\)"):
        worker.receive()
    worker.send(actions(1)[0])
    for call in (worker.reset, worker.save, lambda: worker.send(actions(1)[0])):
        with pytest.raises(GobiError, match=r"a step is under way"):
            call()
    assert not worker.receive().done


def test_ctrl_c_and_sigterm_are_for_the_parent(worker):
    worker.reset()
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(worker.pid, number)
    assert worker.step(actions(1)[0]).observation.shape == (17,)
    # Ctrl-C in a terminal goes to the foreground group, of which the child is none.
    assert os.getpgid(worker.pid) != os.getpgid(0)


def test_a_child_that_cannot_start_says_why():
    worker = Worker(ControlTask("dmc/nobody_rest", "nobody", "rest"), 0, "state")
    with pytest.raises(GobiError, match=r"nobody_rest, seed 0: ValueError: Domain 'nobody' does not exist"):
        worker.reset()
    with pytest.raises(GobiError, match="closed"):
        worker.reset()


def test_a_child_that_is_killed_is_missed_and_closing_leaves_no_zombie():
    worker, other = Worker(TASK, 0, "state"), Worker(TASK, 1, "state")
    worker.reset(), other.reset()
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(GobiError, match=r"seed 0: its process ended unexpectedly \(exit code -9\)"):
        worker.step(actions(1)[0])
    pid = other.pid
    other.send(actions(1)[0])
    del other
    for gone in (worker.pid, pid):
        with pytest.raises(ProcessLookupError):
            os.kill(gone, 0)


def test_a_child_dies_with_its_parent():
    script = f"""
        import sys
        from gobi.envs.dmc import Worker
        workers = [Worker("{TASK}", seed, "state") for seed in range(2)]
        for worker in workers:
            worker.reset()
        print(*(worker.pid for worker in workers), flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdin is not None
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(children) == 2
    assert all(map(running, children))
    parent.kill()
    parent.wait()
    parent.stdin.close()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while any(map(running, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(running, children))


def running(pid: int) -> bool:
    """Whether the process does anything still; an orphan may stay a zombie where nobody collects it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"
