"""Measures how well each task can be played at all, and writes the numbers that come with gobi.

python benchmarks/task_ceilings.py
python benchmarks/task_ceilings.py --tasks MiniGrid-MultiRoom-N6-v0 --levels 100 --out ceilings.json
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import shlex
import sys
from pathlib import Path

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Column, Table

import gobi
from gobi.envs.minigrid import ObstructedMaze, ceilings, registry
from gobi.envs.minigrid.generator import Generator

LEVELS, MANY = 2000, 20_000
FEW = {"MiniGrid-MultiRoom-N12-S10-v0": 500}
"""Fewer where levels are slow to make."""


def counted(generator: Generator) -> int | None:
    """Where keys can be lost, the share of such levels is counted over many more levels than are solved."""
    if isinstance(generator, ObstructedMaze) and generator.blocked and not generator.keys_after_balls:
        return MANY
    return None


@dataclasses.dataclass(frozen=True)
class Args:
    """Measures how well each task can be played at all."""

    tasks: tuple[str, ...] = ()
    """Which tasks; all of them if none is named."""
    levels: int | None = None
    """Levels of each task; 2,000 if not said, 500 for MultiRoom-N12-S10."""
    seed: int = 0
    """Whose levels."""
    effort: int = ceilings.EFFORT
    """How hard the solver looks for shorter plans."""
    out: Path | None = None
    """The file to write; entries of other tasks in it are kept. The one inside the package if not said."""


def main(args: Args) -> None:
    """Measures, writes after each task, and prints a table."""
    out = args.out or Path(str(importlib.resources.files("gobi.envs.minigrid").joinpath("ceilings.json")))
    command = "python benchmarks/task_ceilings.py " + shlex.join(sys.argv[1:])
    entries = json.loads(out.read_text("utf-8")) if out.exists() else {}
    console = Console()
    table = Table(Column("task", no_wrap=True), "levels", "solvable", "return", "steps", "failures")
    with Progress(console=console) as progress:
        for task in [registry.find(name) for name in args.tasks] or list(registry.TASKS):
            levels = args.levels or FEW.get(task, LEVELS)
            bar = progress.add_task(task, total=levels)
            env = registry.make(task)
            found = ceilings.measure(
                env,
                levels,
                args.seed,
                counted=None if args.levels else counted(env.generator),
                effort=args.effort,
                after_each=lambda bar=bar: progress.advance(bar),
            )
            progress.update(bar, completed=levels)
            made_by = {"command": command.strip(), "gobi": gobi.__version__}
            entries[task] = {
                key: round(value, 6) for key, value in dataclasses.asdict(found).items()
            } | made_by
            ordered = {name: entries[name] for name in registry.TASKS if name in entries}
            out.write_text(json.dumps(ordered, indent=2) + "\n", "utf-8")
            table.add_row(
                task,
                str(found.levels),
                f"{found.solvable_share:.1%}",
                f"{found.best_return:.4f}",
                f"{found.mean_steps:.1f}",
                str(found.failures),
            )
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Args))
