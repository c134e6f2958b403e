"""`gobi doctor`: what is installed, on which device it runs, and whether it plays correctly."""

from __future__ import annotations

import importlib
import platform
import shutil
from importlib import metadata
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import gobi
from gobi.cli.terminal import say, show
from gobi.envs.dmc import rendering
from gobi.envs.minigrid import rules
from gobi.errors import GobiError

REQUIRED = ("jax", "jaxlib", "equinox", "optax", "jaxtyping", "numpy", "safetensors", "tyro", "rich")
"""The packages without which something in gobi does not run."""

EXTRAS = {
    "minigrid": ("minigrid", "pillow", "imageio-ffmpeg"),
    "plot": ("matplotlib",),
    "gymnasium": ("gymnasium",),
    "tensorboard": ("tensorboardX",),
    "wandb": ("wandb",),
    "dmc": ("dm_control", "mujoco", "pillow", "imageio-ffmpeg"),
    "sb3": ("stable-baselines3",),
    "cuda12": ("jax-cuda12-plugin",),
    "cuda13": ("jax-cuda13-plugin",),
}
"""The packages that each extra brings."""


def doctor() -> None:
    """Shows versions, devices and extras, and checks that a task plays as it should."""
    say(f"gobi {gobi.__version__}, Python {platform.python_version()}, {platform.platform()}\n")
    broken: list[str] = []

    found, rows = _packages()
    broken += found
    show(rows, ["package", "version", ""])
    say("")

    found, rows = _devices()
    broken += found
    show(rows, ["device", "kind", ""])
    say("")

    show(_extras(), ["extra", "brings", ""])
    say(f"\nframes of control tasks: {_drawing()}")

    found, outcome = _self_check() if not broken else ([], "left out")
    broken += found
    say(f"self-check: {outcome}")
    if broken:
        raise GobiError(f"not in order: {', '.join(broken)}")


def _packages() -> tuple[list[str], list[tuple[str, str, str]]]:
    """The required packages that do not load, and a row for each that is required."""
    broken, rows = [], []
    for name in REQUIRED:
        try:
            importlib.import_module(name)
            rows.append((name, metadata.version(name), "ok"))
        except Exception as error:  # a broken package may fail in any way
            broken.append(f"package {name}")
            rows.append((name, "-", f"does not load: {error}"))
    return broken, rows


def _devices() -> tuple[list[str], list[tuple[str, str, str]]]:
    """The device trouble, and a row for each device that JAX uses."""
    try:
        devices = jax.devices()
    except RuntimeError as error:
        return ["devices"], [("none", "-", str(error))]
    rows = [(str(device), device.device_kind, device.platform) for device in devices]
    idle_gpu = shutil.which("nvidia-smi") or Path("/dev/nvidia0").exists()
    if idle_gpu and all(device.platform == "cpu" for device in devices):
        rows.append(("GPU", "NVIDIA", "not used by JAX: pip install 'gobi[cuda13]' (or cuda12)"))
    return [], rows


def _extras() -> list[tuple[str, str, str]]:
    rows = []
    for extra, packages in EXTRAS.items():
        missing = [name for name in packages if _version(name) is None]
        brings = ", ".join(f"{name} {_version(name)}" if _version(name) else name for name in packages)
        rows.append((extra, brings, f"pip install 'gobi[{extra}]'" if missing else "ok"))
    return rows


def _drawing() -> str:
    """What draws the frames of control tasks here, or what to install."""
    # The others of the extra are for films.
    if missing := [name for name in EXTRAS["dmc"][:2] if _version(name) is None]:
        return f"need {' and '.join(missing)}: pip install 'gobi[dmc]'"
    try:
        trial = rendering.attempt(rendering.choose())
    except GobiError as error:
        return str(error)
    slow = "; in software, some 40 a second" if trial.software else ""
    return f"ok, drawn by {trial.drawn_by} (MUJOCO_GL={trial.backend}{slow})"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _self_check() -> tuple[list[str], str]:
    """Plays the shortest way through the smallest task: its reward is known to the last digit."""
    env = gobi.make("MiniGrid-Empty-5x5-v0")
    forward, turn = rules.FORWARD, rules.RIGHT
    actions = jnp.array([forward, forward, turn, forward, forward], jnp.int32)
    start, _ = env.reset(jax.random.key(0))
    _, played = jax.jit(lambda state: jax.lax.scan(env.step, state, actions))(start)
    rewards, ended = np.asarray(played.reward), np.asarray(played.terminated)
    expected = np.float32(1 - 0.9 * len(actions) / env.spec.max_steps)
    if rewards[-1] == expected and not rewards[:-1].any() and ended.tolist() == [False] * 4 + [True]:
        return [], f"ok ({env.spec.id} solved in 5 steps, reward {rewards[-1]:.3f}, on {jax.devices()[0]})"
    return [
        "self-check"
    ], f"FAILED ({env.spec.id}: rewards {rewards.tolist()}, expected {expected} at the end)"
