"""Which OpenGL draws the frames: found out by drawing, before dm_control is imported and binds itself to one.

There are three ways to draw without a screen: EGL on a graphics card, EGL in software, and OSMesa, which is
software too. What the user says by MUJOCO_GL is obeyed.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping

from gobi.errors import GobiError, MissingExtra

DISABLED = "off"
"""MUJOCO_GL of a process that cannot draw: dm_control imports, but gives no frames."""

OFF = frozenset({DISABLED, "disable", "disabled", "false", "0"})
"""What MuJoCo understands as such."""

TRIED = "GOBI_GL_TRIED"
"""Tells child processes what MUJOCO_GL was found to work, so that each does not try again."""

WISH = "GOBI_GL_WISH"
"""The user's own MUJOCO_GL, where it did not work."""

PACKAGES = "libegl1 libopengl0 libgl1-mesa-dri"
"""Debian's and Ubuntu's packages for EGL in software."""

PATIENCE = 60
"""Seconds in which a picture must be drawn."""

SOFTWARE = ("llvmpipe", "softpipe", "swrast", "software", "swiftshader")

_DRAW = """
import mujoco
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><light pos='0 0 3'/><geom size='1'/><camera pos='0 0 4'/></worldbody></mujoco>"
)
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 32, 32)
renderer.update_scene(data, camera=0)
frame = renderer.render()
assert frame.max() > 0, "the picture is black"
from OpenGL import GL
print("drawn by", GL.glGetString(GL.GL_RENDERER).decode())
"""


@dataclasses.dataclass(frozen=True)
class Trial:
    """What came of drawing one picture.

    backend:  the MUJOCO_GL that it was tried with.
    drawn_by:  what OpenGL says drew it; empty if nothing did.
    trouble:  the last line of the complaint, if nothing did.
    """

    backend: str
    drawn_by: str
    trouble: str

    @property
    def works(self) -> bool:
        """Whether there was a picture."""
        return bool(self.drawn_by)

    @property
    def software(self) -> bool:
        """Whether the processor draws, not a graphics card."""
        return self.backend == "osmesa" or any(name in self.drawn_by.lower() for name in SOFTWARE)


def choose(needed: bool = True) -> str:
    """Sets MUJOCO_GL and PYOPENGL_PLATFORM to what can draw here, and returns MUJOCO_GL.

    Tries once for this process and its children. Where nothing can draw it raises, or, if frames are not
    `needed`, lets dm_control be imported without.
    """
    if "dm_control._render" in sys.modules:
        # It has bound itself to one at import, and cannot change any more.
        backend = sys.modules["dm_control._render"].BACKEND or DISABLED
    else:
        backend = os.environ.get("MUJOCO_GL", "").lower()
        if not backend or os.environ.get(TRIED) != backend:
            backend = _settle(backend)
    if needed and backend in OFF:
        raise GobiError(_why_not(backend))
    return backend


def _settle(wish: str) -> str:
    """Tries what the user wishes, or else all there is, and writes down what works."""
    if wish in OFF:
        # In small letters, which is all that dm_control understands.
        os.environ["MUJOCO_GL"] = wish
        return wish
    trial = attempt(wish) if wish else search()
    # Left to itself, dm_control tries all of them at import, and OSMesa's absence is an error there.
    backend = trial.backend if trial.works else DISABLED
    os.environ.update(_variables(backend))
    os.environ[TRIED] = backend
    if wish and not trial.works:
        os.environ[WISH] = wish
    return backend


def _why_not(backend: str) -> str:
    """One line for a user whose machine cannot draw."""
    if os.environ.get(TRIED) != backend:
        return f"frames are needed, but MUJOCO_GL={backend} forbids them: unset it"
    wish = os.environ.get(WISH)
    return complaint(attempt(wish)) + ", or unset MUJOCO_GL" if wish else complaint(search())


def search() -> Trial:
    """The best that works: EGL on a graphics card, OSMesa, EGL in software; otherwise the last failure."""
    if sys.platform != "linux":
        return attempt("glfw")
    egl = attempt("egl")
    if egl.works and not egl.software:
        return egl
    osmesa = attempt("osmesa")
    return osmesa if osmesa.works else egl


@functools.cache
def attempt(backend: str) -> Trial:
    """Draws one picture with that MUJOCO_GL, in a process of its own: a bad driver may crash it."""
    if importlib.util.find_spec("mujoco") is None:
        raise MissingExtra("this needs the package 'mujoco', which is not installed: pip install 'gobi[dmc]'")
    environment = {**os.environ, **_variables(backend)}
    try:
        ran = subprocess.run(
            [sys.executable, "-P", "-c", _DRAW],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Trial(backend, "", f"no picture after {PATIENCE} seconds")
    lines = ran.stdout.splitlines()
    if ran.returncode == 0 and lines and lines[-1].startswith("drawn by "):
        return Trial(backend, lines[-1].removeprefix("drawn by "), "")
    complaints = [line for line in ran.stderr.splitlines() if line and not line.startswith(" ")]
    said = complaints[-1] if complaints else f"exit code {ran.returncode}"
    return Trial(backend, "", textwrap.shorten(said, 100))


def complaint(trial: Trial) -> str:
    """One line that says what to install so that this can draw."""
    egl = f"apt-get install {PACKAGES}"
    advice = {
        "egl": f"{egl} (or libosmesa6); with an NVIDIA card, its driver's EGL (libnvidia-gl)",
        "osmesa": "apt-get install libosmesa6",
    }.get(trial.backend, "MUJOCO_GL=egl draws without a screen")
    return f"OpenGL ({trial.backend}) cannot draw here ({trial.trouble}): {advice}"


def _variables(backend: str) -> Mapping[str, str]:
    variables = {"MUJOCO_GL": backend}
    if backend in ("egl", "osmesa"):
        variables["PYOPENGL_PLATFORM"] = backend
    if backend == "osmesa":
        # dm_control would draw in a thread, which is gone at exit when it wants to tidy up: tracebacks.
        variables["DISABLE_RENDER_THREAD_OFFLOADING"] = "1"
    return variables
