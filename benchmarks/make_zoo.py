"""Entries of the zoo, from finished runs on grids.

    python benchmarks/make_zoo.py runs/KeyCorridorS6R3-gobi runs/MultiRoom-N6-gobi

Each run gives one agent: that of the seed with the largest mean return of its last 100 training episodes, or
of `--seed`. It is stripped to what evaluating and filming need, evaluated on levels that training did not
see, and refused above 1 MB. By default it goes into the package's own zoo, src/gobi/zoo/agents/NAME.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gobi.errors import GobiError
from gobi.training import card
from gobi.zoo.catalogue import Entry
from gobi.zoo.making import Making, make

AGENTS = Path(__file__).parents[1] / "src" / "gobi" / "zoo" / "agents"


def main() -> None:
    """Makes an entry of each run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--seed", type=int, help="whose policy; by default the best at the end of training")
    parser.add_argument("--name", default="", help="of a single entry; by default its task's")
    parser.add_argument("--levels", type=int, default=1000, help="to evaluate on")
    parser.add_argument("--greedy", action="store_true", help="evaluate the most likely actions")
    parser.add_argument("--out", type=Path, default=AGENTS, help="the folder of all entries")
    parser.add_argument("--overwrite", action="store_true", help="replace entries of the same name")
    options = parser.parse_args()
    if options.name and len(options.runs) > 1:
        parser.error("--name is for a single run")
    making = Making(
        place=options.out,
        name=options.name,
        seed=options.seed,
        levels=options.levels,
        greedy=options.greedy,
        overwrite=options.overwrite,
        # Before the first entry is written: that would count as a change of the source.
        commit=card.commit(),
    )
    for source in options.runs:
        try:
            print(summary(make(source, making)), flush=True)
        except GobiError as error:
            sys.exit(f"make_zoo.py: error: {error}")


def summary(entry: Entry) -> str:
    """An entry in two lines."""
    best = "" if entry.best_return is None else f" of {entry.best_return:.3f}"
    return (
        f"{entry.name}: {entry.task}, {entry.learner}, seed {entry.seed} ({entry.chosen}), "
        f"{entry.frames:,} frames\n"
        f"  {entry.levels:,} new levels, {entry.policy} actions: return {entry.mean_return:.3f}{best}, "
        f"success {entry.success:.1%}; {entry.size:,} bytes in {entry.folder}"
    )


if __name__ == "__main__":
    main()
