"""A long parity run: many shards, several processes, every finished shard on disk at once.

A run that was stopped goes on where it left off: shards are numbered, and what a number plays is fixed by the
code. Shards that other code has played, ours or Farama's, do not count.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import multiprocessing
import os
import pathlib
import signal
from collections.abc import Callable, Iterable

from gobi.envs.minigrid.parity.transitions import Tally, check_shard, code_version
from gobi.errors import GobiError

FILE = "transitions.jsonl"
Progress = Callable[[Tally], None]


def run(
    tasks: Iterable[str],
    transitions: int,
    jobs: int = 1,
    folder: pathlib.Path | None = None,
    progress: Progress = lambda tally: None,
) -> list[Tally]:
    """Compares at least `transitions` transitions of each task; one line of the result per task.

    folder:    where finished shards are kept and looked for; nothing is kept without one.
    progress:  called with each finished shard, those of an earlier run first.
    """
    if transitions < 1 or jobs < 1:
        raise GobiError(f"parity needs transitions >= 1 and jobs >= 1, got {transitions} and {jobs}")
    names = list(dict.fromkeys(tasks))
    earlier = recorded(folder)
    done = {name: [tally for tally in earlier if tally.task == name] for name in names}
    for tally in itertools.chain(*done.values()):
        progress(tally)

    def finished(tally: Tally) -> None:
        done[tally.task].append(tally)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            _append(folder / FILE, json.dumps(dataclasses.asdict(tally)))
        progress(tally)

    if jobs == 1:
        for name in names:
            while total(done[name]) < transitions:
                finished(check_shard(name, _next(done[name], ())))
    else:
        _in_parallel(done, transitions, jobs, finished)
    return [add_up(name, done[name]) for name in names]


def recorded(folder: pathlib.Path | None) -> list[Tally]:
    """The shards that a folder holds of the present code. A last line cut short by a crash is left out."""
    if folder is None or not (folder / FILE).exists():
        return []
    found = []
    for line in (folder / FILE).read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            entry = json.loads(line)
            if entry.get("code") == code_version():
                found.append(Tally(**entry))
    return list({(tally.task, tally.shard): tally for tally in found}.values())


def _append(path: pathlib.Path, line: str) -> None:
    """Adds a line to a file, on a line of its own even if a crash cut the last one short."""
    with path.open("ab+") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(f"{line}\n".encode())


def total(tallies: Iterable[Tally]) -> int:
    """Transitions compared in these shards."""
    return sum(tally.transitions for tally in tallies)


def add_up(task: str, tallies: Iterable[Tally]) -> Tally:
    """All shards of a task as one."""
    ordered = sorted(tallies, key=lambda tally: tally.shard)
    devices = ", ".join(sorted({tally.device for tally in ordered}))
    return sum(ordered, Tally(task, shard=len(ordered), device=devices))


def _next(done: Iterable[Tally], running: Iterable[int]) -> int:
    """The smallest shard number that is neither done nor running."""
    used = {tally.shard for tally in done} | set(running)
    return next(number for number in range(len(used) + 1) if number not in used)


def _in_parallel(
    done: dict[str, list[Tally]], transitions: int, jobs: int, finished: Callable[[Tally], None]
) -> None:
    """Each process stays with one task as long as that one needs more, since changing means compiling."""
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        pools = [
            stack.enter_context(
                concurrent.futures.ProcessPoolExecutor(1, mp_context=context, initializer=_prepare_child)
            )
            for _ in range(jobs)
        ]
        stack.push(_stop_children)
        last: dict[int, str] = {}
        running: dict[concurrent.futures.Future[Tally], tuple[int, str, int]] = {}

        def wanted(pool: int) -> str | None:
            """The task this process should take on: its last one, else the one furthest behind."""
            missing = {}
            for name, tallies in done.items():
                typical = total(tallies) / len(tallies) if tallies else transitions / jobs
                coming = typical * sum(name == other for _, other, _ in running.values())
                missing[name] = transitions - total(tallies) - coming
            open_ = {name: lack for name, lack in missing.items() if lack > 0}
            return last[pool] if last.get(pool) in open_ else max(open_, key=open_.__getitem__, default=None)

        def dispatch(pool: int) -> None:
            name = wanted(pool)
            if name is not None:
                shard = _next(done[name], [n for _, other, n in running.values() if other == name])
                last[pool] = name
                running[pools[pool].submit(check_shard, name, shard)] = (pool, name, shard)

        for pool in range(jobs):
            dispatch(pool)
        while running:
            ready, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                running.pop(future)
                finished(future.result())
            busy = {pool for pool, _, _ in running.values()}
            for pool in set(range(jobs)) - busy:
                dispatch(pool)


def _prepare_child() -> None:
    """Ctrl-C is for the process that the user sees, which ends the others; a GPU is shared by all of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def _stop_children(kind: object, error: object, trace: object) -> None:
    """Ends shards that are still being played when the run breaks off: they will be played again."""
    del kind, trace
    if error is not None:
        for child in multiprocessing.active_children():
            child.terminate()
