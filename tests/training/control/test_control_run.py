"""A run on a control task, from the state: side by side, stopped and resumed, and when it breaks down."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from workers_here import After, Here

from gobi.envs.dmc import Step
from gobi.errors import GobiError
from gobi.training import checkpoints, metrics, run
from gobi.training.control import assembly, evaluation, loop, paying, recipes, seat
from gobi.training.control import trained as control_trained
from gobi.training.control.changing import Held
from gobi.training.control.evaluation import Evaluator, seeds_of
from gobi.training.control.parcel import packed
from gobi.training.control.recipe import ControlRecipe
from gobi.training.folder import alone
from gobi.training.stopping import Stopped
from gobi.training.trainer import NotFinite

TINY: dict[str, Any] = {
    "observations": "state",
    # An episode of 1000 environment steps is one of 50 agent steps then.
    "action_repeat": 20,
    "frames": 3000,
    "evaluate_every": 1200,
    "evaluation_episodes": 2,
    "random_steps": 20,
    "batch": 8,
    "hidden": 16,
    # The replay runs full: 50 transitions, in 54 slots.
    "capacity": 50,
}


def tiny(**changes: Any) -> ControlRecipe:
    return recipes.recipe("dmc/cartpole_balance", **{**TINY, **changes})


def trained(path: Path, plan: run.Plan, **options: Any) -> run.Folder:
    folder = run.Folder(path)
    if not path.exists():
        run.begin(folder, plan)
    loop.go(folder, plan, **options)
    return folder


@pytest.fixture(autouse=True, scope="module")
def _in_this_process():
    """Starting processes takes longer than all that is tested here; a command's test uses real workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "Worker", Here)
        yield


@pytest.fixture(scope="module")
def plan() -> run.Plan:
    return run.Plan(tiny(), (3, 4))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, plan) -> run.Folder:
    """Never stopped, and saved but once."""
    return trained(tmp_path_factory.mktemp("whole") / "run", plan)


def held(folder: run.Folder) -> tuple[bytes, dict[str, Any]]:
    """The arrays and the facts of the last checkpoint."""
    last = checkpoints.latest(folder.checkpoints)
    assert last is not None
    return (last / "arrays.safetensors").read_bytes(), checkpoints.facts(last)


def frames_held(folder: run.Folder, seed: int) -> list[np.ndarray]:
    """The replay's frames in the order in which they came, as the files have them."""
    paths = sorted((folder.replay / f"seed-{seed}").glob("*.safetensors"))
    return list(np.concatenate([safetensors.numpy.load_file(path)["frames"] for path in paths]))


def test_a_run_stopped_and_resumed_is_the_same_as_one_that_never_stopped(tmp_path, plan, whole):
    """In the middle of an interval and of an episode, before and after the replay ran full."""
    folder = run.Folder(tmp_path / "run")
    for steps in (33, 41):
        with pytest.raises(Stopped):
            trained(folder.path, plan, stopping=After(steps))
    trained(folder.path, plan, checkpoint_seconds=2.0)
    assert metrics.compare(folder.metrics, whole.metrics) == []
    (arrays, facts), (expected, also) = held(folder), held(whole)
    assert arrays == expected
    for name in ("steps", "updates", "diaries", "row"):
        assert facts[name] == also[name], name
    for seed in plan.seeds:
        mine, theirs = frames_held(folder, seed), frames_held(whole, seed)
        np.testing.assert_array_equal(mine[-54:], theirs[-54:])
    assert run.finished(folder, plan)


def test_a_folder_in_which_another_process_trains_is_refused(plan, whole):
    with alone(whole), pytest.raises(GobiError, match="run is being trained in by another process"):
        loop.go(whole, plan)
    loop.go(whole, plan)


def test_gobi_from_the_state_goes_on_where_it_was(tmp_path):
    """Stopped in the middle of an episode, when its world has had some lessons."""
    lessons = {"world_prefill": 60, "world_length": 9, "world_every": 10, "world_steps": 5}
    recipe = tiny(reward="gobi", world_batch=4, steps=2, world_pretrain=3, **lessons)
    plan = run.Plan(recipe, (3,))
    straight = trained(tmp_path / "straight", plan)
    with pytest.raises(Stopped):
        trained(tmp_path / "run", plan, stopping=After(83))
    folder = trained(tmp_path / "run", plan)
    assert metrics.compare(folder.metrics, straight.metrics) == []
    assert held(folder)[0] == held(straight)[0]
    last = {name: values[-1] for name, values in metrics.read(folder.metrics).items()}
    assert 0 < last["world/error"] < 2
    assert 0 < last["growth/made"] <= 11
    card = json.loads(folder.card.read_text())
    assert (card["world"], card["world_size"], card["privileged"]) == ("state", "", ["state"])
    assert card["world_parameters"] > 0
    assert not folder.pictures.exists()


def test_a_run_resumed_does_first_what_it_was_about_to_do(tmp_path, plan, monkeypatch):
    folder = run.Folder(tmp_path / "run")
    with pytest.raises(Stopped):
        trained(folder.path, plan, stopping=After(33))
    _, facts = held(folder)
    sent, plain = [], Here.send

    def send(worker: Here, action: np.ndarray) -> None:
        sent.append(np.asarray(action).tolist())
        plain(worker, action)

    def act(*_: Any) -> None:
        raise AssertionError("chosen anew")

    monkeypatch.setattr(Here, "send", send)
    monkeypatch.setattr(seat.Program, "act", act)
    with pytest.raises(Stopped):
        trained(folder.path, plan, stopping=After(2))
    assert sent[:2] == facts["actions"]
    assert len(sent) == 4
    assert sent[0] != sent[2]


def test_to_see_and_act_is_to_see_and_then_to_act(plan, whole):
    program = seat.program(plan.recipe, assembly.worker(plan.recipe, 0).spec)
    nothing = np.zeros(5, np.float32)
    one = program.begin(program.see_first(program.start(0), nothing), nothing)
    reached = packed(Step(np.arange(5, dtype=np.float32), 1.0, False, False))
    other, action = program.see_and_act(one, reached)
    seen = program.see(one, reached)
    np.testing.assert_array_equal(other.view, seen.view)
    assert int(other.steps) == int(seen.steps) == 1
    expected = program.act(program.acting(one.learner), seen.view, seen.key, seen.steps)
    np.testing.assert_allclose(action, expected, rtol=1e-6)
    # Not what it would have done before it saw that.
    assert not np.allclose(action, program.act(program.acting(one.learner), one.view, one.key, seen.steps))


def test_an_earlier_checkpoint_can_be_gone_on_from(tmp_path, plan, whole):
    folder = run.Folder(tmp_path / "run")
    for steps in (70, 20):
        with pytest.raises(Stopped):
            trained(folder.path, plan, stopping=After(steps))
    assert [path.name for path in checkpoints.available(folder.checkpoints)] == [
        "000000001400",
        "000000001800",
    ]
    trained(folder.path, plan, checkpoint="000000001400")
    assert metrics.compare(folder.metrics, whole.metrics) == []
    assert held(folder)[0] == held(whole)[0]


def test_frames_that_the_replay_has_forgotten_leave_the_disk(tmp_path, plan):
    folder = run.Folder(tmp_path / "run")
    for _ in range(4):
        with pytest.raises(Stopped):
            trained(folder.path, plan, stopping=After(30))
    kept = {piece["name"] for path in checkpoints.available(folder.checkpoints)
            for piece in checkpoints.facts(path)["replay"][0]}  # fmt: skip
    assert {path.name for path in (folder.replay / "seed-3").iterdir()} == kept
    assert not any(name.startswith("000000000000") for name in kept)


def test_an_altered_file_of_frames_is_refused(tmp_path, plan):
    folder = run.Folder(tmp_path / "run")
    with pytest.raises(Stopped):
        trained(folder.path, plan, stopping=After(25))
    (path,) = (folder.replay / "seed-4").iterdir()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(GobiError, match="is altered"):
        trained(folder.path, plan)


def test_a_seed_learns_the_same_alone_as_beside_another(tmp_path, plan, whole):
    alone = metrics.read(trained(tmp_path / "run", run.Plan(plan.recipe, (4,))).metrics)
    both = metrics.read(whole.metrics)
    mine = both["seed"] == 4
    for name in set(alone) - set(metrics.TIMINGS):
        np.testing.assert_array_equal(alone[name], both[name][mine], err_msg=name)


def test_rows_tell_what_was_played_and_what_was_paid(plan, whole):
    columns = metrics.read(whole.metrics)
    np.testing.assert_array_equal(columns["frames"], [1200, 1200, 2400, 2400, 3000, 3000])
    np.testing.assert_array_equal(columns["seed"], [3, 4] * 3)
    np.testing.assert_array_equal(columns["episodes"], [1, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(columns["updates"], [40, 40, 100, 100, 130, 130])
    np.testing.assert_array_equal(columns["length"], 1000)
    took, evaluated = np.diff(columns["seconds"][::2], prepend=0), columns["evaluation_seconds"][::2]
    assert ((evaluated > 0) & (evaluated < took)).all()
    # The coefficient of the last update: one for each agent step but the first 20.
    steps = columns["frames"] / 20 - 1
    paid = plan.recipe.coefficient * (1 - plan.recipe.decay) ** steps
    np.testing.assert_allclose(columns["coefficient"], paid, rtol=1e-6)
    assert (columns["bonus"] > 0).all()
    assert ((columns["bonus_share"] > 0) & (columns["bonus_share"] < 1)).all()
    # A balanced pole earns up to 1 a step; even one that falls starts upright.
    assert ((columns["return"] > 50) & (columns["return"] <= 1000)).all()
    np.testing.assert_array_equal(columns["success"], 1)
    for name in ("policy_loss", "value_loss", "entropy", "temperature", "re3/distance"):
        assert np.isfinite(columns[name]).all(), name


def test_the_card_tells_what_one_must_know(plan, whole):
    card = json.loads(whole.card.read_text())
    assert card["task"] == "dmc/cartpole_balance"
    assert (card["reward"], card["world"], card["frames"]) == ("re3", "none", 3000)
    assert card["privileged"] == ["state"]
    assert card["versions"].keys() >= {"dm_control", "mujoco"}
    assert card["finished"]
    assert card["policy_parameters"] > 0


def test_a_loss_that_is_not_a_number_stops_the_run_with_the_last_good_checkpoint_kept(tmp_path):
    plan = run.Plan(tiny(learning_rate=1e30, reward="none", frames=1000), (0,))
    with pytest.raises(NotFinite, match=r"became (nan|inf|-inf) before frame .* the last good checkpoint is"):
        trained(tmp_path / "run", plan, checkpoint_seconds=0.0)
    last = checkpoints.latest(tmp_path / "run" / "checkpoints")
    assert last is not None
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(checkpoints.facts(last)["diaries"]))


def test_between_checkpoints_too_it_is_the_loss_that_is_named_and_not_the_action_that_came_of_it(tmp_path):
    plan = run.Plan(tiny(learning_rate=1e30, reward="none", frames=1000), (0,))
    with pytest.raises(NotFinite, match=r"loss became (nan|inf|-inf) .*there is no checkpoint before that"):
        trained(tmp_path / "run", plan)


def played_and_updated(program: seat.Program, knobs: paying.Knobs) -> dict[str, float]:
    """What is told of a few updates after a few steps that earn 1 each."""
    nothing = np.zeros(5, np.float32)
    one = program.begin(program.see_first(program.start(0), nothing), nothing)
    for step in range(8):
        view, reached = one.view, packed(Step(np.full(5, step, np.float32), 1.0, False, False))
        one = program.see(one, reached)
        one = program.collect(one, view, np.zeros(1, np.float32), reached)
    program.knobs = knobs
    for number in range(2):
        one = program.update(dataclasses.replace(one, steps=jnp.int32(100)), number)
    return program.told(one)


def test_the_total_reward_is_the_task_s_and_the_decayed_bonus(whole, plan):
    """All of these numbers are arguments of one compiled program."""
    program = seat.program(plan.recipe, assembly.worker(plan.recipe, 0).spec)

    def told(**changes: float) -> dict[str, float]:
        numbers = {"coefficient": 0.5, "decay": 0.01, "extrinsic": 2.0, "clip": np.inf, **changes}
        knobs = paying.Knobs(**{name: np.float32(value) for name, value in numbers.items()})
        return played_and_updated(program, knobs)

    both = told()
    np.testing.assert_allclose(both["coefficient"], 0.5 * 0.99**100, rtol=1e-6)
    np.testing.assert_allclose(both["batch_reward"], 2 + both["coefficient"] * both["bonus"], rtol=1e-5)
    assert 0 < both["bonus_share"] < 1
    alone = told(extrinsic=0.0)
    np.testing.assert_allclose(alone["batch_reward"], alone["coefficient"] * alone["bonus"], rtol=1e-5)
    assert alone["bonus_share"] == 1
    assert told(coefficient=0.0)["batch_reward"] == 2
    assert told(clip=0.25)["batch_reward"] == 0.25
    program.knobs = paying.knobs(plan.recipe)


@pytest.mark.parametrize("cores", [1, 2])
def test_an_evaluation_does_not_depend_on_how_many_play_it(plan, whole, monkeypatch, cores):
    """The last of the run above, by hand: its numbers are in the last row."""
    monkeypatch.setattr(evaluation, "cores", lambda: cores)
    agents = control_trained.load(whole.path, (4,))
    program = seat.program(plan.recipe, assembly.worker(plan.recipe, 0).spec)
    learner: Any = checkpoints.load(agents.source, program.shapes().learner, within="['seats'][1].learner")
    acting = Held.of(learner.acting)
    evaluator = Evaluator(plan.recipe, program, 2)
    played = evaluator.play(acting, seeds_of(4, 3, 2))
    assert len(evaluator.workers) == cores
    columns = metrics.read(whole.metrics)
    assert np.float32(played.returns.mean()) == np.float32(columns["return"][-1])
    other = evaluator.play(acting, seeds_of(4, 2, 2))
    assert not np.array_equal(other.returns, played.returns)
    again = evaluator.play(acting, seeds_of(4, 3, 2))
    np.testing.assert_array_equal(again.returns, played.returns)
