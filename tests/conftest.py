"""What several test files share: commands, states drawn as text, levels and compiled functions made once."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import QUICKLY
from jaxtyping import install_import_hook

SOURCE = Path(__file__).parents[1] / "src"
PLAIN = ("gobi.envs.minigrid.solver", "gobi.envs.minigrid.oracle", "gobi.errors")
"""Host code of many small calls: a check takes ten times as long as what it checks."""


def checked_modules() -> list[str]:
    """All others. A package's own name would mean everything in it."""
    paths = (path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py"))
    names = (".".join(path.parts) for path in paths if path.name != "__init__")
    return [name for name in names if not name.startswith(PLAIN)]


# Shapes and dtypes are checked as the code runs. Heeded only before the first import.
install_import_hook(checked_modules(), "beartype.beartype")

from gobi import cli  # noqa: E402
from gobi.envs.dmc import rendering  # noqa: E402
from gobi.envs.minigrid import State, cells, make, numbered_levels  # noqa: E402
from gobi.errors import GobiError, require  # noqa: E402

# Heeded only before the first computation.
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *QUICKLY]).strip()
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # One folder for all workers and the processes that tests start: what one has compiled, the others load.
    CACHE = tempfile.mkdtemp(prefix="gobi-tests-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = CACHE
    atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)

NEEDED = "GOBI_NEEDS_PIXELS"
"""Where this variable is set, tests that cannot draw fail, and are not left out."""

MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000

HEADINGS = ">v<^"
LEGEND = {
    "#": int(cells.WALL_CELL),
    ".": int(cells.EMPTY_CELL),
    "G": int(cells.GOAL_CELL),
    "L": cells.pack(cells.LAVA, cells.RED),
}


@pytest.fixture(autouse=True, scope="module")
def _compiled_code_makes_room() -> Iterator[None]:
    """Forgets compiled functions before there are too many.

    Each takes some maps of memory, and Linux ends a process that needs more than 65,530 of them: XLA crashes
    while it compiles. All tests together in two processes come to that.
    """
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def gobi_command(capsys, tmp_path, monkeypatch):
    """Runs a command in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture(scope="session")
def sketch() -> Callable[..., State]:
    """A state from rows of text: # wall, . empty, G goal, L lava, > v < ^ the agent, other letters as named.

    `under` is what the agent stands on.
    """

    def drawn(
        *rows: str,
        carrying: int = 0,
        target: int = 0,
        under: int = int(cells.EMPTY_CELL),
        step_count: int = 0,
        **named: int,
    ) -> State:
        legend = LEGEND | named | dict.fromkeys(HEADINGS, under)
        grid = np.array([[legend[letter] for letter in row] for row in rows], np.uint16).T
        ((x, y, letter),) = (
            (x, y, letter) for y, row in enumerate(rows) for x, letter in enumerate(row) if letter in HEADINGS
        )
        return State(
            grid=jnp.asarray(grid),
            position=jnp.array([x, y], jnp.int32),
            direction=jnp.int32(HEADINGS.index(letter)),
            carrying=jnp.uint16(carrying),
            target=jnp.uint16(target),
            step_count=jnp.int32(step_count),
        )

    return drawn


@pytest.fixture(scope="session")
def compiled() -> Callable[[str, str], Any]:
    """A method of a task's environment, compiled: `compiled(task, "step")`."""

    @functools.cache
    def function(task: str, method: str) -> Any:
        return jax.jit(getattr(make(task), method))

    return function


@pytest.fixture(scope="session")
def first_levels() -> Callable[[str], State]:
    """The first 200 levels of seed 0, on the host."""

    @functools.cache
    def levels(task: str) -> State:
        return jax.tree.map(np.asarray, numbered_levels(make(task), seed=0, start=0, count=200))

    return levels


def leave_out(error: GobiError) -> None:
    if os.environ.get(NEEDED):
        pytest.fail(f"{NEEDED} is set, but {error}")
    pytest.skip(str(error))


@pytest.fixture(scope="session")
def pixels() -> str | None:
    """The OpenGL that draws here."""
    try:
        return rendering.choose()
    except GobiError as error:
        leave_out(error)


@pytest.fixture(scope="session")
def suite() -> ModuleType | None:
    """dm_control's own suite: the other implementation."""
    try:
        rendering.choose(needed=False)
        return require("dm_control.suite", extra="dmc")
    except GobiError as error:
        leave_out(error)
