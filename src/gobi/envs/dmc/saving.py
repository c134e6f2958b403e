"""A dm_control environment as arrays, and back: physics, what the task drew, random stream, step count."""

from __future__ import annotations

from typing import Any

import numpy as np

from gobi.errors import GobiError, require

Saved = dict[str, np.ndarray]

SHAPES = ("tex_", "mesh_", "skin_", "bvh_", "oct_")
"""Parts of a model that say how things look and where they can touch: large, and no task changes them."""


def save(env: Any, task: str) -> Saved:
    """The environment as arrays, at any moment of an episode or between two."""
    key, position, has_gauss, gauss = env.task.random.get_state()[1:]
    numbers = {f"task.{name}": np.asarray(value) for name, value in _numbers(env.task).items()}
    return {
        "made_by": np.frombuffer(_made_by(task).encode(), np.uint8).copy(),
        "physics": env.physics.get_state(_everything()),
        "sensors": np.array(env.physics.data.sensordata),
        "model": _to_bytes(_model(env)),
        "random.key": key.copy(),
        "random.position": np.array([position, has_gauss], np.int64),
        "random.gauss": np.array([gauss], np.float64),
        "steps": np.array([env._step_count, env._reset_next_step], np.int64),
        **numbers,
    }


def load(env: Any, task: str, saved: Saved) -> None:
    """Puts the environment where `save` found it."""
    made_by, expected = saved["made_by"].tobytes().decode(), _made_by(task)
    if made_by != expected:
        raise GobiError(f"this was saved by {made_by}, and {expected} cannot continue it exactly")
    _from_bytes(_model(env), saved["model"])
    env.physics.set_state(saved["physics"], _everything())
    # Positions, contacts and the like follow from the state by what dm_control ends each step with. Sensors
    # that feel forces do not: they belong to the step before.
    require("mujoco", extra="dmc").mj_step1(env.physics.model.ptr, env.physics.data.ptr)
    env.physics.data.sensordata[:] = saved["sensors"]
    position, has_gauss = (int(number) for number in saved["random.position"])
    env.task.random.set_state(
        ("MT19937", saved["random.key"], position, has_gauss, float(saved["random.gauss"][0]))
    )
    steps, over = saved["steps"]
    env._step_count, env._reset_next_step = int(steps), bool(over)
    for name, value in saved.items():
        if name.startswith("task."):
            setattr(env.task, name.removeprefix("task."), value.item() if value.ndim == 0 else value.copy())
    _show_terrain(env)


def _everything() -> int:
    """MuJoCo's word for all that the next step depends on, the solver's first guess with it."""
    return int(require("mujoco", extra="dmc").mjtState.mjSTATE_INTEGRATION)


def _model(env: Any) -> list[np.ndarray]:
    """The arrays of the model: some tasks draw a goal or a terrain into them for every episode."""
    model = env.physics.model.ptr
    names = [name for name in dir(model) if not name.startswith(("_", *SHAPES))]
    return [array for name in names if isinstance(array := getattr(model, name), np.ndarray) and array.size]


def _to_bytes(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays])


def _from_bytes(arrays: list[np.ndarray], content: np.ndarray) -> None:
    expected = sum(array.nbytes for array in arrays)
    if content.nbytes != expected:
        raise GobiError(f"this was saved of another model: {content.nbytes} bytes, not {expected}")
    start = 0
    for array in arrays:
        part = np.ascontiguousarray(content[start : start + array.nbytes])
        array[...] = part.view(array.dtype).reshape(array.shape)
        start += array.nbytes


def _numbers(task: Any) -> dict[str, Any]:
    """What a task remembers of its episode: all of its attributes that are numbers."""
    kinds = (bool, int, float, np.number, np.ndarray)
    return {name: value for name, value in vars(task).items() if isinstance(value, kinds)}


def _show_terrain(env: Any) -> None:
    """Graphics memory has a copy of the terrain, which must follow the model."""
    if not env.physics.model.nhfield or not env.physics.contexts:
        return
    upload = require("mujoco", extra="dmc").mjr_uploadHField
    with env.physics.contexts.gl.make_current() as context:
        for terrain in range(env.physics.model.nhfield):
            context.call(upload, env.physics.model.ptr, env.physics.contexts.mujoco.ptr, terrain)


def _made_by(task: str) -> str:
    return f"{task} on MuJoCo {require('mujoco', extra='dmc').__version__}"
