"""A reward of one's own, in one file: FILE.py:CLASS, wherever the name of a reward is asked for.

The class is a `gobi.rewards.Reward`, or any class with `init(key, spec, num_envs)` and
`step(state, transition)`. A run pins the file by its checksum, FILE.py:CLASS@CHECKSUM, so that it does not go
on with another one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from gobi import settings
from gobi.errors import GobiError, unknown
from gobi.rewards.checked import TRIED, Checked, Plain, in_one_line, tried
from gobi.rewards.reward import Reward

__all__ = [
    "CALLS", "TRIED", "Checked", "Name", "Plain", "is_own", "load", "parse", "pinned", "short",
    "tried",
]  # fmt: skip

WRITTEN = "FILE.py:CLASS"
PINNED = 12
"""Letters of the checksum in a pinned name."""

CALLS = {"init": ("key", "spec", "num_envs"), "step": ("state", "transition")}
"""What a class must answer to, if it is not a `Reward` already."""


@dataclasses.dataclass(frozen=True)
class Name:
    """Where a reward of one's own is written.

    file:      the file, as it was given.
    made:      the class in it.
    checksum:  the beginning of the file's SHA-256 if it is pinned, else empty.
    """

    file: Path
    made: str
    checksum: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.made}" + (f"@{self.checksum}" if self.checksum else "")


def is_own(name: str) -> bool:
    """Whether a reward's name is that of a file, and not of one of the library."""
    return name.endswith(".py") or ".py:" in name


def parse(name: str) -> Name:
    """The parts of a name."""
    file, colon, rest = name.rpartition(":")
    made, _, checksum = rest.partition("@")
    if not colon or not file.endswith(".py") or not made.isidentifier():
        raise GobiError(f"a reward of your own is written {WRITTEN}, got '{name}'")
    return Name(Path(file), made, checksum)


def pinned(name: str) -> str:
    """The same name with the checksum that the file has now."""
    parts = parse(name)
    return str(dataclasses.replace(parts, checksum=_checksum(_content(parts))))


def short(name: str) -> str:
    """The class alone, for the names of folders."""
    return parse(name).made


def load(name: str, options: str | Mapping[str, Any] = "") -> Reward:
    """The reward in FILE.py:CLASS. Its shapes are checked when it is first traced.

    options:  arguments of the class, by name; or written as NAME=VALUE,NAME=VALUE, which needs annotations
              there.
    """
    parts = parse(name)
    made = _class(parts)
    _refuse_missing_calls(made, parts)
    chosen = _options(made, parts, options)
    try:
        reward = made(**chosen)
    except Exception as error:
        raise GobiError(f"{parts} could not be made: {in_one_line(error)}") from error
    inner = reward if isinstance(reward, Reward) else Plain(reward)
    return Checked(inner, f"{parts.file}:{parts.made}")


def _class(parts: Name) -> type:
    module = _module(parts)
    if not inspect.isclass(found := getattr(module, parts.made, None)):
        mine = [
            name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__
        ]
        raise unknown(f"class of {parts.file}", parts.made, mine)
    return found


def _module(parts: Name) -> ModuleType:
    """The file as a module; the same file with the same content is loaded once in a process."""
    content = _content(parts)
    found = _checksum(content)
    if parts.checksum and parts.checksum != found:
        raise GobiError(
            f"{parts.file} has changed since the run was started: its checksum was {parts.checksum} and is "
            f"{found} now; put it back, or start a new run"
        )
    where = hashlib.sha256(str(parts.file.expanduser().resolve()).encode()).hexdigest()[:PINNED]
    name = f"gobi_own_{where}_{found}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(parts.file)
    # Dataclasses, Equinox's modules among them, look for their module by its name.
    sys.modules[name] = module
    try:
        exec(compile(content, str(parts.file), "exec"), module.__dict__)
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception):
            raise
        raise GobiError(f"{parts.file} cannot be imported: {in_one_line(error)}") from error
    return module


def _content(parts: Name) -> bytes:
    path = parts.file.expanduser()
    if not path.is_file():
        raise GobiError(f"the file of the reward {parts} is missing: there is no {path} in {Path.cwd()}")
    return path.read_bytes()


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:PINNED]


def _refuse_missing_calls(made: type, parts: Name) -> None:
    for method, arguments in CALLS.items():
        if not callable(getattr(made, method, None)):
            raise GobiError(f"{parts} has no method {method}({', '.join(arguments)})")


def _options(made: type, parts: Name, given: str | Mapping[str, Any]) -> dict[str, Any]:
    if not given:
        return {}
    taken = inspect.signature(made).parameters
    if isinstance(given, str):
        hints = {**get_type_hints(made), **get_type_hints(made.__init__)}
        return settings.options(str(parts), given, [name for name in taken if name in hints], hints)
    any_name = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
    for name in given:
        if name not in taken and not any_name:
            raise unknown(f"option of {parts}", name, taken)
    return dict(given)
