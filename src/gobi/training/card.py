"""The card of a run: what was trained on what, with how much experience and help, where and how long."""

from __future__ import annotations

import dataclasses
import datetime
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import gobi
from gobi.envs.minigrid import ceilings
from gobi.envs.minigrid.registry import TASKS
from gobi.errors import GobiError
from gobi.training.files import disk_errors, parse_json, to_json, write_whole

PACKAGES = ("jax", "jaxlib", "gobi", "equinox", "optax", "numpy")


@dataclasses.dataclass(frozen=True)
class Card:
    """What one must know of a run to judge it, or to do it again.

    task:              its id.
    task_version:      which form of the task the id means, where there is more than one.
    best_return:       what a solver that knows the whole grid reaches on average; None where not measured.
    solvable_share:    the share of levels that can be solved at all; None where not measured.
    reward:            name of the intrinsic reward.
    recipe:            name of the recipe.
    recipe_digest:     of all its fields, so that a changed one is noticed.
    network:           name of the policy's network.
    world:             name of the world that imagines.
    world_size:        name of the size of its network; empty without one.
    policy_parameters: numbers that are learned in the policy.
    world_parameters:  numbers that are learned in the world model; 0 without one.
    precision:         what the networks compute in.
    seeds:             the seeds of the run.
    deterministic:     whether the accelerator was told to repeat itself bit for bit.
    privileged:        what the agent's training used that the task does not show: panorama, simulator, ...
    frames:            steps in the environment so far, of each seed, without those below.
    pretraining_frames: steps that the world model was trained on beforehand.
    peeks:             views taken without a step, of each seed: three for each panorama.
    seconds:           time of training so far, compiling included, pre-training and making levels not.
    started, finished: in UTC; None before the end.
    device, devices:   kind of the first device, and how many there are.
    versions:          of Python and the packages that matter.
    commit:            of gobi's source if it is a git checkout; "+changes" if files differ from it.
    command:           the command line.
    beside:            agents of other runs that were trained in the same process; its time was shared out.
    pretraining_pairs: different pairs of panorama and action among the pre-training's steps.
    pretraining_seconds: time that pre-training took.
    options:           of each reward that was paid: all its options and their values, the defaults included.
                       These three are None in cards from before they were recorded.
    """

    task: str
    task_version: str
    best_return: float | None
    solvable_share: float | None
    reward: str
    recipe: str
    recipe_digest: str
    network: str
    world: str
    world_size: str
    policy_parameters: int
    world_parameters: int
    precision: str
    seeds: tuple[int, ...]
    deterministic: bool
    privileged: tuple[str, ...]
    frames: int
    pretraining_frames: int
    peeks: int
    seconds: float
    started: str
    finished: str | None
    device: str
    devices: int
    versions: dict[str, str]
    commit: str | None
    command: str
    beside: int = 0
    pretraining_pairs: int | None = None
    pretraining_seconds: float | None = None
    options: dict[str, dict[str, Any]] | None = None


ABOUT_THE_OCCASION = ("seconds", "started", "finished", "command", "beside", "pretraining_seconds")
"""Fields that differ between two runs of the very same thing."""


def begin(task: str, **described: Any) -> Card:
    """The card of a run that starts now on this machine.

    task:       id of the task; its version and what can be reached on it are looked up.
    described:  the fields of `Card` that only the run knows, from `reward` to `privileged`; and any other
                whose value is not to be what is found here.
    """
    known, named = ceilings.known().get(task), TASKS.get(task)
    found = {
        "task_version": named.version if named else "",
        "best_return": known.best_return if known else None,
        "solvable_share": known.solvable_share if known else None,
        "frames": 0,
        "pretraining_frames": 0,
        "peeks": 0,
        "seconds": 0.0,
        "started": now(),
        "finished": None,
        "device": jax.devices()[0].device_kind,
        "devices": jax.device_count(),
        "versions": versions(),
        "commit": commit(),
        "command": command_line(),
    }
    return Card(task=task, **{**found, **described})


def write(path: Path, card: Card, **changes: Any) -> Card:
    """Writes the card as JSON, with some fields changed if given, and returns what was written."""
    card = dataclasses.replace(card, **changes)
    with disk_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, to_json(dataclasses.asdict(card)))
    return card


def read(path: Path) -> Card:
    """The card in a file."""
    if not path.is_file():
        raise GobiError(f"no card at {path}")
    try:
        fields = parse_json(path.read_bytes())
        return Card(**{**fields, "seeds": tuple(fields["seeds"]), "privileged": tuple(fields["privileged"])})
    except (ValueError, LookupError, TypeError) as error:
        raise GobiError(f"{path} is not a card of this version of gobi: {error}") from None


def differences(
    card_a: Card, card_b: Card, ignore: Sequence[str] = ABOUT_THE_OCCASION
) -> dict[str, tuple[Any, Any]]:
    """The fields in which two cards differ, with both values."""
    pairs = {
        field.name: (getattr(card_a, field.name), getattr(card_b, field.name))
        for field in dataclasses.fields(Card)
    }
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b and name not in ignore}


def parameters(tree: Any) -> int:
    """How many numbers a network learns: its floating-point arrays, or what stands for their shapes."""
    arrays = [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype") and hasattr(leaf, "size")]
    return sum(int(leaf.size) for leaf in arrays if jnp.issubdtype(leaf.dtype, jnp.inexact))


def now() -> str:
    """The time, UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def versions(*more: str) -> dict[str, str]:
    """Python's version and those of the packages that decide what a run computes; some runs need more."""
    return {"python": platform.python_version()} | {
        name: metadata.version(name) for name in (*PACKAGES, *more)
    }


def command_line() -> str:
    """What was typed; of the program only its name."""
    program, *words = sys.argv or [""]
    name = Path(program).name
    return shlex.join(["gobi" if name == "__main__.py" else name, *words])


def commit() -> str | None:
    """The commit of gobi's source if that is a git checkout; "+changes" is added if files differ from it."""
    package = Path(gobi.__file__).parent
    # gobi may be installed somewhere inside the checkout of another project, whose commit would mean nothing.
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    found = _git(package, "rev-parse", "HEAD")
    return f"{found}+changes" if found and _git(package, "status", "--porcelain", ".") else found or None


def _git(folder: Path, *words: str) -> str | None:
    """What git prints, or None if it cannot."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
