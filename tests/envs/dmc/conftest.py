"""What the tests of the control tasks share."""

from __future__ import annotations

import os
from types import ModuleType

import pytest

from gobi.envs.dmc import rendering
from gobi.errors import GobiError, require

NEEDED = "GOBI_NEEDS_PIXELS"
"""Where this variable is set, tests that cannot draw fail, and are not left out."""


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
