"""Which OpenGL draws the frames."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from gobi.envs.dmc import rendering
from gobi.envs.dmc.rendering import Trial
from gobi.errors import GobiError, MissingExtra

CARD, LLVM = "NVIDIA H200/PCIe/SSE2", "llvmpipe (LLVM 15.0.6, 256 bits)"
VARIABLES = (
    "MUJOCO_GL", "PYOPENGL_PLATFORM", "DISABLE_RENDER_THREAD_OFFLOADING", rendering.TRIED, rendering.WISH,
)  # fmt: skip


@pytest.fixture
def machine(monkeypatch) -> Iterator[Callable[..., list[str]]]:
    """A Linux machine whose back ends are drawn by what is said, and on which nobody has chosen yet.

    Gives a list of what is tried.
    """
    before = {name: os.environ.pop(name, None) for name in VARIABLES}
    monkeypatch.delitem(sys.modules, "dm_control._render", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")

    def built(**drawn_by: str) -> list[str]:
        tried: list[str] = []

        def attempt(backend: str) -> Trial:
            tried.append(backend)
            name = drawn_by.get(backend, "")
            return Trial(backend, name, "" if name else f"no {backend} here")

        monkeypatch.setattr(rendering, "attempt", attempt)
        return tried

    yield built
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@pytest.mark.parametrize(
    ("backends", "chosen"),
    [
        ({"egl": CARD, "osmesa": LLVM}, "egl"),
        ({"egl": LLVM, "osmesa": LLVM}, "osmesa"),
        ({"osmesa": LLVM}, "osmesa"),
        ({"egl": LLVM}, "egl"),
    ],
)
def test_a_card_comes_first_then_osmesa_then_egl_in_software(machine, backends, chosen):
    machine(**backends)
    assert rendering.choose() == chosen
    assert os.environ["MUJOCO_GL"] == os.environ["PYOPENGL_PLATFORM"] == chosen


def test_it_is_tried_once_for_this_process_and_its_children(machine):
    tried = machine(egl=LLVM)
    assert [rendering.choose() for _ in range(3)] == ["egl"] * 3
    assert tried == ["egl", "osmesa"]


def test_the_user_is_obeyed_and_what_they_wish_is_tried(machine, monkeypatch):
    tried = machine(egl=CARD, osmesa=LLVM)
    monkeypatch.setenv("MUJOCO_GL", "OSMesa")
    assert rendering.choose() == "osmesa"
    assert tried == ["osmesa"]


def test_where_nothing_draws_one_line_names_the_packages(machine):
    machine()
    with pytest.raises(GobiError, match=r"no egl here.*apt-get install libegl1 .*libosmesa6") as raised:
        rendering.choose()
    assert "\n" not in str(raised.value)


def test_a_wish_that_cannot_be_fulfilled_is_named(machine, monkeypatch):
    machine(egl=CARD)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    for _ in range(2):
        with pytest.raises(GobiError, match=r"\(osmesa\).*install libosmesa6, or unset MUJOCO_GL"):
            rendering.choose()


def test_where_frames_are_not_needed_nothing_has_to_draw(machine):
    tried = machine()
    assert rendering.choose(needed=False) == rendering.choose(needed=False) == rendering.DISABLED
    assert tried == ["egl", "osmesa"]
    with pytest.raises(GobiError, match="libosmesa6"):
        rendering.choose()


def test_what_dm_control_has_bound_itself_to_stays(machine, monkeypatch):
    tried = machine(egl=CARD)
    monkeypatch.setitem(sys.modules, "dm_control._render", SimpleNamespace(BACKEND="glfw"))
    assert rendering.choose() == "glfw"
    assert tried == []


def test_dm_control_imported_without_frames_still_names_the_packages(machine, monkeypatch):
    machine()
    rendering.choose(needed=False)
    # Its own word for all of the words that switch drawing off.
    monkeypatch.setitem(sys.modules, "dm_control._render", SimpleNamespace(BACKEND="off"))
    with pytest.raises(GobiError, match="libosmesa6"):
        rendering.choose()


def test_a_user_who_forbids_drawing_is_reminded(machine, monkeypatch):
    tried = machine(egl=CARD)
    monkeypatch.setenv("MUJOCO_GL", "OFF")
    assert rendering.choose(needed=False) == os.environ["MUJOCO_GL"] == "off"
    with pytest.raises(GobiError, match="MUJOCO_GL=off forbids them: unset it"):
        rendering.choose()
    assert tried == []


def test_a_trial_without_mujoco_names_the_extra(monkeypatch):
    monkeypatch.setattr(rendering.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'gobi\[dmc\]'"):
        rendering.attempt.__wrapped__("egl")


@pytest.mark.usefixtures("suite")
def test_a_back_end_that_does_not_exist_is_a_failed_trial_with_its_last_words():
    trial = rendering.attempt("crayons")
    assert not trial.works
    assert "crayons" in trial.trouble
    assert "\n" not in trial.trouble


def test_what_was_chosen_here_draws(pixels):
    trial = rendering.attempt(pixels)
    assert trial.works
    assert trial.drawn_by
