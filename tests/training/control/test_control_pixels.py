"""A run from pixels, with everything: rendering, GoBI, a world model that learns, pictures, and a resume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from workers_here import Here

from gobi.training import checkpoints, metrics, run
from gobi.training.control import assembly, loop, recipes
from gobi.training.stopping import Stopped, Stopping

TINY: dict[str, Any] = {
    # An episode has 10 agent steps then.
    "action_repeat": 100,
    "frames": 2400,
    "evaluate_every": 1200,
    "evaluation_episodes": 1,
    "random_steps": 6,
    "batch": 4,
    "hidden": 8,
    "channels": 4,
    "crop": 20,
    "image_size": 32,
    "capacity": 16,
    "steps": 1,
    "imagined_actions": 2,
    "world_size": "compact",
    "world_precision": "float32",
    "world_batch": 2,
    "world_length": 4,
    "world_every": 4,
    "world_steps": 2,
    "world_prefill": 8,
    "world_pretrain": 1,
}


def test_gobi_from_pixels_learns_a_world_draws_it_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(assembly, "Worker", Here)
    plan = run.Plan(recipes.recipe("pendulum_swingup", **TINY), (1,))
    whole, stopped = run.Folder(tmp_path / "whole"), run.Folder(tmp_path / "stopped")
    run.begin(whole, plan)
    loop.go(whole, plan)

    columns = metrics.read(whole.metrics)
    np.testing.assert_array_equal(columns["updates"], [6, 18])
    assert (columns["growth"] > 0).all()
    assert np.isfinite(columns["world/loss"]).all()
    assert np.isfinite(columns["value_loss"]).all()
    assert sorted(path.name for path in whole.pictures.iterdir()) == ["000000001200.png", "000000002400.png"]

    run.begin(stopped, plan)
    stopping = Stopping(lambda _: None, until=0.0)
    with pytest.raises(Stopped):
        # Its time is up after the very first step.
        loop.go(stopped, plan, stopping=stopping)
    loop.go(stopped, plan)
    assert metrics.compare(stopped.metrics, whole.metrics) == []
    one, other = (checkpoints.latest(folder.checkpoints) for folder in (stopped, whole))
    assert one is not None
    assert other is not None
    assert (one / "arrays.safetensors").read_bytes() == (other / "arrays.safetensors").read_bytes()
