"""Entries of the zoo: which agents there are, where their files lie, and how well each was found to play.

An entry is the folder of a run without what only training needs: recipe, card, world model, learning curves,
the policy of one seed, and a record of its evaluation.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from gobi.errors import GobiError, unknown

AGENTS = Path(__file__).parent / "agents"
"""The folder of all entries. It is part of the package: nothing may be written there but by `zoo.making`."""
PREFIX = "zoo"
"""zoo/NAME on the command line is the entry NAME."""
RECORD = "zoo.json"
MOST_BYTES = 1_000_000
"""The largest size of an entry."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """An agent of the zoo, and how it did on levels that were not seen in training. Intervals are of 95 %.

    folder:          where its files lie.
    task, learner:   as in its recipe.
    seed:            the agent's.
    chosen:          why this seed of its run.
    frames:          what it was trained on.
    levels:          how many levels it was evaluated on, one episode each.
    level_seed:      whose levels; they are 0 .. levels - 1.
    policy:          sampled from, or greedy.
    mean_return, success, mean_length:  means per episode.
    return_within:   the normal interval of the return; None for a single level.
    success_within:  Wilson's interval of the success rate.
    best_return:     the best return known in the task.
    command:         what evaluates it again.
    commit:          of gobi's source as it evaluated; None outside of a git checkout.
    """

    folder: Path
    task: str
    learner: str
    seed: int
    chosen: str
    frames: int
    levels: int
    level_seed: int
    policy: str
    mean_return: float
    return_within: tuple[float, float] | None
    success: float
    success_within: tuple[float, float]
    mean_length: float
    best_return: float | None
    command: str
    commit: str | None

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.folder.name

    @property
    def size(self) -> int:
        """Bytes in all its files."""
        return size(self.folder)

    @property
    def record(self) -> dict[str, object]:
        """What is kept of it in a file: all but where that file lies."""
        fields = dataclasses.asdict(self)
        del fields["folder"]
        return fields


def names() -> list[str]:
    """The names of all agents."""
    return sorted(path.parent.name for path in AGENTS.glob(f"[!.]*/{RECORD}"))


def entries() -> list[Entry]:
    """All agents, by their names."""
    return [read(AGENTS / name) for name in names()]


def read(folder: Path) -> Entry:
    """The entry in a folder."""
    try:
        fields = json.loads((folder / RECORD).read_bytes())
        for name in ("return_within", "success_within"):
            fields[name] = fields[name] and tuple(fields[name])
        return Entry(folder, **fields)
    except (OSError, ValueError, LookupError, TypeError):
        raise GobiError(f"{folder} is not an entry of the zoo: {RECORD} is missing or altered") from None


def find(name: str) -> Path:
    """The folder of the agent of that name, or of the one that was trained on the task of that id."""
    known = names()
    if name in known:
        return AGENTS / name
    if not known:
        raise GobiError(f"no agent '{name}': the zoo is empty")
    trained_on = [entry.folder for entry in entries() if entry.task == name]
    if len(trained_on) != 1:
        raise unknown("agent of the zoo", name, known)
    return trained_on[0]


def resolve(path: Path) -> Path:
    """The folder that is meant where the folder of a run is asked for: a path, or zoo/NAME."""
    prefix, *rest = path.parts or ("",)
    if prefix != PREFIX or not rest or path.exists():
        return path
    return find("/".join(rest))


def is_entry(folder: Path) -> bool:
    """Whether a folder is that of an entry, where nothing may be written."""
    return folder.resolve().parent == AGENTS.resolve()


def size(folder: Path) -> int:
    """Bytes in all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
