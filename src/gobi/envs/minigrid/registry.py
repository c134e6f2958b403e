"""The tasks that have a name."""

from __future__ import annotations

import dataclasses

from gobi.envs.minigrid.doorkey import DoorKey
from gobi.envs.minigrid.empty import Empty
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.generator import Generator
from gobi.envs.minigrid.keycorridor import KeyCorridor
from gobi.envs.minigrid.multiroom import MultiRoom
from gobi.envs.minigrid.obstructedmaze import ObstructedMaze, ObstructedMaze1D
from gobi.envs.minigrid.television import Noisy
from gobi.errors import GobiError, unknown


@dataclasses.dataclass(frozen=True)
class Task:
    """A named task.

    generator:  its family and sizes.
    version:    which form of the task this id means, where there is more than one.
    paper:      one of the twelve names in the paper; for 2Q, see the version.
    """

    generator: Generator
    version: str = ""
    paper: bool = False


def _maze(
    quarters: int, start: tuple[int, int], visited: int, v1: bool, balls: bool = True, boxes: bool = True
):
    return ObstructedMaze(
        quarters=quarters,
        agent_room=start,
        rooms_visited=visited,
        keys_after_balls=v1,
        blocked=balls,
        key_in_box=boxes,
    )


SIDE, MIDDLE = (2, 1), (1, 1)
_LOST = "v0: a ball may destroy a key"
_REPAIRED = "v1: no key is lost"
_UNREGISTERED = "Farama's class; not registered there"
_NOISY = "a cell of the first room changes its colour at random"

TASKS: dict[str, Task] = {
    "MiniGrid-MultiRoom-N6-v0": Task(MultiRoom(6, 10), paper=True),
    "MiniGrid-MultiRoom-N7-S8-v0": Task(MultiRoom(7, 8), _UNREGISTERED, paper=True),
    "MiniGrid-MultiRoom-N12-S10-v0": Task(MultiRoom(12, 10), _UNREGISTERED, paper=True),
    "MiniGrid-KeyCorridorS3R3-v0": Task(KeyCorridor(3, 3), paper=True),
    "MiniGrid-KeyCorridorS4R3-v0": Task(KeyCorridor(4, 3), paper=True),
    "MiniGrid-KeyCorridorS5R3-v0": Task(KeyCorridor(5, 3), paper=True),
    "MiniGrid-KeyCorridorS6R3-v0": Task(KeyCorridor(6, 3), paper=True),
    "MiniGrid-ObstructedMaze-2Dlh-v0": Task(_maze(1, SIDE, 4, False, balls=False), paper=True),
    "MiniGrid-ObstructedMaze-2Dlhb-v0": Task(_maze(1, SIDE, 4, False), _LOST, paper=True),
    "MiniGrid-ObstructedMaze-1Q-v0": Task(_maze(1, MIDDLE, 5, False), _LOST, paper=True),
    "MiniGrid-ObstructedMaze-2Q-v0": Task(
        _maze(2, SIDE, 11, False), f"{_LOST}; starts in a side room", paper=True
    ),
    "MiniGrid-ObstructedMaze-Full-v0": Task(_maze(4, MIDDLE, 25, False), _LOST, paper=True),
    "MiniGrid-ObstructedMaze-2Dlhb-v1": Task(_maze(1, SIDE, 4, True), _REPAIRED),
    "MiniGrid-ObstructedMaze-1Q-v1": Task(_maze(1, MIDDLE, 5, True), _REPAIRED),
    "MiniGrid-ObstructedMaze-2Q-v1": Task(_maze(2, SIDE, 11, True), _REPAIRED),
    "MiniGrid-ObstructedMaze-Full-v1": Task(_maze(4, MIDDLE, 25, True), _REPAIRED),
    "gobi/ObstructedMaze-2Q-middle-v0": Task(
        _maze(2, MIDDLE, 11, False), f"{_LOST}; starts in the middle room, as the paper's 2Q"
    ),
    "MiniGrid-Empty-5x5-v0": Task(Empty(5)),
    "MiniGrid-Empty-8x8-v0": Task(Empty(8)),
    "MiniGrid-Empty-16x16-v0": Task(Empty(16)),
    "MiniGrid-DoorKey-5x5-v0": Task(DoorKey(5)),
    "MiniGrid-DoorKey-6x6-v0": Task(DoorKey(6)),
    "MiniGrid-DoorKey-8x8-v0": Task(DoorKey(8)),
    "MiniGrid-MultiRoom-N2-S4-v0": Task(MultiRoom(2, 4)),
    "MiniGrid-MultiRoom-N4-S5-v1": Task(MultiRoom(4, 5), "v1: four rooms (Farama's v0 has six)"),
    "MiniGrid-KeyCorridorS3R1-v0": Task(KeyCorridor(3, 1)),
    "MiniGrid-KeyCorridorS3R2-v0": Task(KeyCorridor(3, 2)),
    "MiniGrid-ObstructedMaze-1Dl-v0": Task(ObstructedMaze1D(key_in_box=False, blocked=False)),
    "MiniGrid-ObstructedMaze-1Dlh-v0": Task(ObstructedMaze1D(blocked=False)),
    "MiniGrid-ObstructedMaze-1Dlhb-v0": Task(ObstructedMaze1D()),
    "MiniGrid-ObstructedMaze-2Dl-v0": Task(_maze(1, SIDE, 4, False, balls=False, boxes=False)),
    "gobi/MultiRoom-N2-S4-noisy-v0": Task(Noisy(MultiRoom(2, 4)), _NOISY),
    "gobi/MultiRoom-N4-S5-noisy-v0": Task(Noisy(MultiRoom(4, 5)), _NOISY),
    "gobi/MultiRoom-N7-S8-noisy-v0": Task(Noisy(MultiRoom(7, 8)), _NOISY),
}

PAPER_TASKS: tuple[str, ...] = tuple(name for name, task in TASKS.items() if task.paper)
"""The twelve tasks of the paper. Farama's 2Q is not quite the paper's: that one is 2Q-middle."""
FARAMA_TASKS: tuple[str, ...] = tuple(
    name for name, task in TASKS.items() if not isinstance(task.generator, Noisy)
)
"""The tasks that Farama's rules play: all but those with a noisy television."""


def find(name: str) -> str:
    """The full id of a task; its prefix and version may be left out where that is unambiguous."""
    if name in TASKS:
        return name
    short = [full for full in TASKS if name in (full.removesuffix("-v0").removesuffix("-v1"), bare(full))]
    short += [full for full in TASKS if bare(full).rsplit("-v", 1)[0] == name]
    if len(set(short)) == 1:
        return short[0]
    if short:
        raise GobiError(f"'{name}' could be any of {', '.join(dict.fromkeys(short))}; name one in full")
    raise unknown("task", name, TASKS)


def make(task: str | Generator) -> MiniGrid:
    """The environment of a named task, or of a family with sizes of your own.

    >>> make("MiniGrid-KeyCorridorS3R3-v0").spec.max_steps
    270
    >>> make(MultiRoom(rooms=7, max_size=4)).spec.max_steps
    140
    """
    if isinstance(task, Generator):
        return MiniGrid(task)
    if not isinstance(task, str):
        raise GobiError(f"a task is a name or a family with its sizes, got {task!r}")
    name = find(task)
    return MiniGrid(TASKS[name].generator, name)


def short(name: str) -> str:
    """A task's id without its prefix and version, for the names of folders."""
    return bare(name).rsplit("-v", 1)[0]


def bare(name: str) -> str:
    """A task's id without the prefix that all of them have in common."""
    return name.removeprefix("MiniGrid-").removeprefix("gobi/")
