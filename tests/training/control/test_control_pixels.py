"""A run from pixels, with everything: rendering, GoBI, a world model that learns, pictures, and a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import safetensors.numpy
from workers_here import After, Here

from gobi.training import checkpoints, metrics, run
from gobi.training.control import assembly, loop, recipes
from gobi.training.stopping import Stopped

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
    # The replay runs full after 16 agent steps: 12 transitions, in 17 slots.
    "capacity": 12,
    "reward_options": "scaling=centred",
    "steps": 1,
    "imagined_actions": 2,
    "world_size": "compact",
    "precision": "float32",
    "world_precision": "float32",
    "world_batch": 2,
    "world_length": 4,
    "world_every": 4,
    "world_steps": 2,
    "world_prefill": 8,
    "world_pretrain": 1,
}


SLOTS = 17


@pytest.fixture(scope="module", autouse=True)
def _quickly(pixels):
    """Without processes; and with code that XLA does not optimise, for it is run but a few times."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "Worker", Here)
        yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def plan() -> run.Plan:
    return run.Plan(recipes.recipe("pendulum_swingup", **TINY), (1,))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, plan) -> run.Folder:
    """Never stopped."""
    folder = run.Folder(tmp_path_factory.mktemp("whole") / "run")
    run.begin(folder, plan)
    loop.go(folder, plan)
    return folder


def last(folder: run.Folder) -> Path:
    found = checkpoints.latest(folder.checkpoints)
    assert found is not None
    return found


def frames_held(folder: run.Folder) -> np.ndarray:
    """What the replay holds at the end, in the order in which it came."""
    pieces = checkpoints.facts(last(folder))["replay"][0]
    paths = [folder.replay / "seed-1" / piece["name"] for piece in pieces]
    return np.concatenate([safetensors.numpy.load_file(path)["frames"] for path in paths])[-SLOTS:]


def test_gobi_from_pixels_learns_a_world_and_draws_it(whole):
    columns = metrics.read(whole.metrics)
    np.testing.assert_array_equal(columns["updates"], [6, 18])
    # More than the one code of a real frame: what is imagined counts.
    stored = safetensors.numpy.load_file(last(whole) / "arrays.safetensors")["['seats'][0].replay.stored"]
    assert stored.max() > 1
    assert np.isfinite(columns["world/loss"]).all()
    assert np.isfinite(columns["value_loss"]).all()
    assert (columns["re3/bonus"] > 0).all()
    assert sorted(path.name for path in whole.pictures.iterdir()) == ["000000001200.png", "000000002400.png"]


def test_an_episode_is_imagined_by_the_world_as_the_lessons_before_it_left_it(whole):
    """Lessons are due at the steps 8, 12, 16, 20 and 24: one, and then two at a time; episodes have ten."""
    kept = safetensors.numpy.load_file(last(whole) / "arrays.safetensors")
    learned = {name: int(array) for name, array in kept.items() if name.endswith(".learned")}
    assert learned == {
        "['seats'][0].reward[0].world.learned": 9,
        "['seats'][0].reward[0].present.learned": 7,
    }


def test_with_a_world_model_too_a_run_goes_on_where_it_stopped(tmp_path, plan, whole):
    """In the second episode, after lessons of the world and after the replay ran full; and in the last one.

    What holds for an episode alone, as the belief does, shows at the end only if it was lost in that one.
    """
    stopped = run.Folder(tmp_path / "run")
    run.begin(stopped, plan)
    with pytest.raises(Stopped):
        loop.go(stopped, plan, stopping=After(17))
    facts = checkpoints.facts(last(stopped))
    assert (facts["steps"], facts["updates"], facts["lessons"]) == (17, 11, 5)
    assert facts["diaries"][0]["episodes"] == 1
    assert facts["replay"][0][-1]["end"] > SLOTS
    with pytest.raises(Stopped):
        loop.go(stopped, plan, stopping=After(5))
    loop.go(stopped, plan)

    assert metrics.compare(stopped.metrics, whole.metrics) == []
    one, other = ((last(folder) / "arrays.safetensors").read_bytes() for folder in (stopped, whole))
    assert one == other
    facts, expected = (checkpoints.facts(last(folder)) for folder in (stopped, whole))
    for name in ("steps", "updates", "lessons", "diaries", "row"):
        assert facts[name] == expected[name], name
    np.testing.assert_array_equal(frames_held(stopped), frames_held(whole))
    for path in whole.pictures.iterdir():
        assert (stopped.pictures / path.name).read_bytes() == path.read_bytes()
