"""Seconds from the start of `gobi train` to the first row of its metrics, the first time and again.

    python benchmarks/first_row.py --learners impala ppo --csv first-row.csv

Each time is that of a new process, from before Python starts. `nothing kept` begins with an empty folder for
compiled programs, as a new user does; `kept` is the same command with what that left there. The files that a
run writes tell how far it is: the recipe when everything is imported, the world model when that is learned,
then the first row, which `--frames` sets the length of. The run is stopped there.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gobi.training.run import Folder
from gobi.training.world_model import MODEL

LOOK_SECONDS = 0.02
ENDING_SECONDS = 60.0
"""For a run that was asked to stop: it finishes its interval, and saves."""


def main() -> None:
    """Measures each learner and reward, with nothing kept and with everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="KeyCorridorS3R3")
    parser.add_argument("--learners", nargs="+", default=["ppo"])
    parser.add_argument("--rewards", nargs="+", default=["gobi", "none"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--frames", help="of the whole run; by default the recipe's")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=15.0, help="at most, until a run's first row")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    rows = []
    for learner in options.learners:
        for reward in options.rewards:
            words = [options.task, "--learner", learner, "--reward", reward, "--seeds", str(options.seeds)]
            words += ["--frames", options.frames] if options.frames else []
            case = {"task": options.task, "learner": learner, "reward": reward, "seeds": options.seeds}
            for repeat in range(options.repeats):
                for row in kept_and_not(words, 60 * options.minutes):
                    rows.append(case | {"repeat": repeat} | row)
                    print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
                    write(options.csv, rows)


def kept_and_not(words: Sequence[str], limit: float) -> list[dict[str, str | float]]:
    """Two runs after each other: the second finds what the first has compiled."""
    with tempfile.TemporaryDirectory() as scratch:
        cache = Path(scratch) / "cache"
        return [
            {"programs": state} | first_row(words, Path(scratch) / state.replace(" ", "-"), cache, limit)
            for state in ("nothing kept", "kept")
        ]


def first_row(words: Sequence[str], out: Path, cache: Path, limit: float) -> dict[str, float]:
    """Seconds until the recipe, the world model and the first row are there."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ("JAX_COMPILATION_CACHE_DIR", "GOBI_CACHE")
    }
    folder, log = Folder(out), out.with_name(f"{out.name}.txt")
    places = {"imported": folder.recipe, "world_learned": out / MODEL[1], "first_row": folder.metrics}
    seconds: dict[str, float] = {}
    begun = time.perf_counter()
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "gobi", "train", *words, "--out", str(out)],
            stdout=said,
            stderr=said,
            env=variables | {"XDG_CACHE_HOME": str(cache)},
        )
    try:
        while "first_row" not in seconds:
            for name, path in places.items():
                if name not in seconds and has_row(path, header=name == "first_row"):
                    seconds[name] = round(time.perf_counter() - begun, 2)
            if process.poll() is not None and "first_row" not in seconds:
                sys.exit(f"`gobi train {' '.join(words)}` ended before its first row:\n{log.read_text()}")
            if time.perf_counter() - begun > limit:
                sys.exit(f"no row after {limit:.0f} seconds")
            time.sleep(LOOK_SECONDS)
    finally:
        end(process)
    return seconds


def has_row(path: Path, header: bool) -> bool:
    """Whether there is a whole line in a file, besides a header."""
    return path.exists() and path.read_bytes().count(b"\n") > int(header)


def end(process: subprocess.Popen[bytes]) -> None:
    """Stops a run, at once if it does not stop by itself."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ENDING_SECONDS)
        return
    process.kill()
    process.wait()


def write(path: Path | None, rows: Sequence[dict[str, str | float]]) -> None:
    """All rows so far; without a world model its column stays empty."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list({name: None for row in rows for name in row}))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
