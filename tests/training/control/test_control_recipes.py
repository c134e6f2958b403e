"""Recipes for control: what each task's says, how they are written and read, and what they refuse."""

from __future__ import annotations

import math

import pytest

from gobi.agents.rad import slots_for
from gobi.envs.dmc.tasks import TASKS
from gobi.errors import GobiError
from gobi.rewards.control import RE3, Lessons, Reachability, Replayed
from gobi.training import resolved
from gobi.training.control import assembly, recipes
from gobi.training.control.recipe import ControlRecipe
from gobi.training.recipe import Recipe, differences, from_json
from gobi.types import Spec
from gobi.worlds import StateModel
from gobi.worlds.rssm import RSSM

TABLE = {
    # Coefficient and decay of RE3's code, and the paper's k.
    "dmc/pendulum_swingup": (0.25, 1e-5, 3),
    "dmc/hopper_hop": (0.05, 1e-5, 1),
    "dmc/walker_run_sparse": (0.05, 2.5e-5, 1),
    "dmc/cheetah_run_sparse": (0.05, 1e-5, 1),
    "dmc/cartpole_swingup_sparse": (0.05, 1e-5, 1),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", recipes.NAMES)
def test_each_task_has_the_published_numbers(task, name):
    whole = recipes.recipe(task, name)
    assert (whole.coefficient, whole.decay, whole.steps) == TABLE[task]
    assert (whole.frames, whole.all_frames, whole.agent_steps) == (500_000, 500_000, 250_000)
    assert (whole.batch, whole.hidden, whole.learning_rate, whole.capacity) == (512, 1024, 2e-4, 100_000)
    assert (whole.steps_per_row, whole.evaluation_episodes, whole.imagined_actions) == (5000, 10, 5)


@pytest.mark.parametrize("name", recipes.NAMES)
@pytest.mark.parametrize("reward", ["none", "gobi", "r1", "re3", "icm", "rnd"])
def test_a_recipe_survives_being_written_and_read(name, reward):
    whole = recipes.recipe("walker_run_sparse", name, reward=reward, hidden=64)
    again = from_json(whole.to_json())
    assert (again, type(again), again.digest) == (whole, ControlRecipe, whole.digest)


def test_the_task_says_of_which_kind_a_recipe_is():
    grid = from_json(Recipe("MiniGrid-Empty-5x5-v0", "gobi", 100).to_json())
    assert isinstance(grid, Recipe)
    with pytest.raises(GobiError, match="unknown recipe field 'decay_by'"):
        from_json(grid.to_json().replace("MiniGrid-Empty-5x5-v0", "dmc/hopper_hop"))
    with pytest.raises(GobiError, match="begins with dmc/"):
        ControlRecipe("hopper_hop", "gobi", 100)
    for text in ("[]", "3", "{", "{}"):
        with pytest.raises(GobiError, match="this is not a recipe"):
            from_json(text)


def test_recipes_of_two_kinds_differ_in_what_only_one_has():
    found = differences(Recipe("MiniGrid-Empty-5x5-v0", "gobi", 100), recipes.recipe("hopper_hop"))
    assert "unroll: 100 -> None" in found
    assert "action_repeat: None -> 2" in found


def test_from_the_state_a_run_is_made_for_a_laptop_and_takes_re3():
    small = recipes.recipe("pendulum_swingup", observations="state")
    assert (small.reward, small.hidden, small.frames) == ("re3", 256, 100_000)
    # The coefficient stays that of the task.
    assert small.coefficient == 0.25
    assert recipes.recipe("pendulum_swingup", observations="state", reward="none", hidden=8).hidden == 8


def test_from_the_state_gobi_has_a_world_of_states_and_coarser_codes():
    small = recipes.recipe("pendulum_swingup", observations="state", reward="gobi")
    spec = Spec("dmc/pendulum_swingup", (3,), "float32", 0, max_steps=500, action_size=1)
    world = assembly.world(small.changed(imagined_draws="normal", world_rate=0.5), spec)
    assert isinstance(world, StateModel)
    assert (world.size, world.action_size, world.steps, world.actions) == (3, 1, 3, 5)
    assert (world.draws, world.learning_rate) == ("normal", 0.5)
    made = assembly.reward(small, spec)
    assert isinstance(made, Replayed)
    assert isinstance(made.episodic, Reachability)
    assert (made.episodic.bits, made.normalised) == (16, "lifelong")
    assert assembly.reward(small.changed(normalised="product"), spec).normalised == "product"
    assert (made.episodic.schedule.batch, made.episodic.schedule.length) == (32, 9)
    assert set(resolved.options(small)["gobi"]) == {"credit", "bits", "untrained"}
    assert {"codes", "scaling"} < set(resolved.options(recipes.recipe("pendulum_swingup"))["gobi"])
    # Options that are given stay beside; of pixels there are fifty bits as ever.
    for given, options in (
        ({"reward_options": "credit=departure"}, "bits=16,credit=departure"),
        ({"reward_options": "bits=8"}, "bits=8"),
        ({"reward_options": ""}, ""),
        ({"name": "as_written"}, "bits=16,credit=departure,untrained=imagine"),
        ({"observations": "pixels"}, ""),
    ):
        words = {"observations": "state", "reward": "gobi", **given}
        assert recipes.recipe("pendulum_swingup", **words).reward_options == options


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"reward_options": "scaling=raw"}, "the option scaling=raw is for pictures"),
        ({"reward_options": "codes=learned"}, "the option codes=learned is for pictures"),
        ({"hashed": "reconstructed"}, "hashed=reconstructed is for a world of pictures"),
        ({"world_free_nats": 1.0}, "world_free_nats=1.0 is for a world of pictures"),
        ({"world_length": 1}, "from the state world_length must be at least 2"),
        ({"channels": 16}, "channels=16 is for pictures: train with --observations pixels"),
        ({"crop": 64}, "crop=64 is for pictures"),
        ({"stack": 1}, "stack=1 is for pictures"),
        ({"precision": "bfloat16"}, "precision=bfloat16 is for pictures"),
    ],
)
def test_what_only_pictures_have_is_refused_from_the_state(changes, told):
    with pytest.raises(GobiError, match=told):
        recipes.recipe("pendulum_swingup", observations="state", reward="gobi", **changes)
    recipes.recipe("pendulum_swingup", reward="gobi", **changes)


def test_a_reward_that_imagines_nothing_leaves_the_world_s_settings_alone():
    recipes.recipe("pendulum_swingup", observations="state", reward="re3", world_length=1, prior="mean")
    with pytest.raises(GobiError, match="stack=1 is for pictures"):
        recipes.recipe("pendulum_swingup", observations="state", reward="re3", stack=1)


@pytest.mark.parametrize("changes", [{"reward": "re3"}, {"observations": "state"}])
def test_re3_alone_has_the_form_that_the_recipe_gives_it_as_a_factor(changes):
    ours, written = (recipes.recipe("hopper_hop", name, **changes) for name in ("gobi", "as_written"))
    assert (ours.reward, ours.reward_options) == ("re3", "")
    assert (written.reward, written.reward_options) == ("re3", "form=log")
    spec = Spec("dmc/hopper_hop", (15,), "float32", 0, max_steps=500, action_size=4)
    alone = assembly.reward(written, spec)
    assert isinstance(alone, RE3)
    assert alone.form == "log"
    chosen = recipes.recipe("hopper_hop", "as_written", reward_options="k=5", **changes)
    assert chosen.reward_options == "form=log,k=5"


def test_options_that_are_given_stay_beside_those_of_the_recipe():
    own = "credit=departure,untrained=imagine"
    for given, options, factor in (
        ({}, own, "form=log"),
        ({"reward_options": "bits=8"}, f"{own},bits=8", "form=log"),
        ({"reward_options": "credit=arrival"}, "untrained=imagine,credit=arrival", "form=log"),
        ({"lifelong_options": "k=5"}, own, "form=log,k=5"),
        ({"reward_options": "", "lifelong_options": ""}, "", ""),
    ):
        made = recipes.recipe("hopper_hop", "as_written", **given)
        assert (made.reward_options, made.lifelong_options) == (options, factor)


def test_what_a_recipe_says_of_one_reward_is_not_said_of_another():
    assert recipes.recipe("hopper_hop", "as_written").reward_options == "credit=departure,untrained=imagine"
    assert recipes.recipe("hopper_hop", "as_written", reward="rnd").reward_options == ""
    other = recipes.recipe("hopper_hop", "as_written", lifelong="rnd")
    assert (other.lifelong, other.lifelong_options) == ("rnd", "")
    assert other.reward_options == "credit=departure,untrained=imagine"


def test_pixels_are_in_bfloat16_where_there_is_a_gpu():
    ours = recipes.recipe("hopper_hop")
    assert (ours.precision, ours.world_precision) == ("bfloat16", "bfloat16")
    assert recipes.recipe("hopper_hop", "as_written").precision == "float32"
    slow = recipes.on_a_cpu(ours, precision="bfloat16")
    assert (slow.precision, slow.world_precision) == ("bfloat16", "float32")
    assert recipes.on_a_cpu(ours).precision == "float32"
    state = recipes.recipe("hopper_hop", observations="state")
    assert recipes.on_a_cpu(state) == state


def test_as_written_pays_as_a_step_is_made_whatever_can_be_known_then():
    assert recipes.recipe("hopper_hop", "as_written").paid == "made"
    assert recipes.recipe("hopper_hop", "as_written", reward="re3").paid == "made"
    assert recipes.recipe("hopper_hop", "as_written", reward="icm").paid == "sampled"
    assert recipes.recipe("hopper_hop", "as_written", lifelong="rnd").paid == "sampled"
    assert recipes.recipe("hopper_hop").paid == "sampled"


def test_a_sequence_longer_than_an_episode_is_refused():
    spec = Spec("dmc/hopper_hop", (100, 100, 3), "uint8", 0, max_steps=20, action_size=4)
    recipe = recipes.recipe("hopper_hop", world_length=22, action_repeat=50)
    with pytest.raises(GobiError, match=r"world_length must be at most 21, .* action_repeat=50, got 22"):
        assembly.reward(recipe, spec)
    # As many as an episode has frames; and without a world model nobody asks for any.
    assembly.reward(recipe.changed(world_length=21), spec)
    assembly.reward(recipe.changed(reward="re3"), spec)


@pytest.mark.parametrize(
    ("frames", "batch", "transitions"),
    [
        (500_000, 512, 100_000),
        (200_000, 512, 100_000),
        (100_000, 512, 50_000),
        (10, 512, 512),
        (10, 64, 500),
    ],
)
def test_a_replay_is_no_longer_than_its_run_and_holds_a_batch_and_an_episode(frames, batch, transitions):
    spec = Spec("dmc/hopper_hop", (100, 100, 3), "uint8", 0, max_steps=500, action_size=4)
    recipe = recipes.recipe("hopper_hop", frames=frames, batch=batch)
    assert assembly.slots(recipe, spec) == slots_for(transitions, 500)


def test_a_replay_that_may_hold_no_whole_sequence_is_refused():
    spec = Spec("dmc/hopper_hop", (100, 100, 3), "uint8", 0, max_steps=500, action_size=4)
    small = recipes.recipe("hopper_hop", batch=8, capacity=98)
    with pytest.raises(GobiError, match=r"capacity must be at least 99, .* world_length=50 .*, got 98"):
        assembly.reward(small, spec)
    assembly.reward(small.changed(capacity=99), spec)


def test_a_run_without_a_lesson_is_too_short_to_imagine_unless_it_would_not_anyway():
    def short(frames: int, **changes) -> bool:
        return recipes.recipe("hopper_hop", frames=frames, **changes).too_short_to_imagine

    assert short(5000)
    assert not short(5001)
    assert not short(5000, steps=0)
    assert not short(5000, reward="re3")


def test_frames_are_whole_agent_steps():
    assert recipes.recipe("hopper_hop", frames=1001).all_frames == 1002
    assert recipes.recipe("hopper_hop", frames=1001, action_repeat=4).agent_steps == 251


@pytest.mark.parametrize("how", ["spread", "together"])
def test_there_are_as_many_lessons_in_every_episode_however_they_come(how):
    recipe = recipes.recipe("hopper_hop", world_lessons=how)
    lessons = Lessons()
    due = [assembly.lessons_due(recipe, lessons, step) for step in range(1, 5001)]
    assert sum(due[:2499]) == 0
    assert due[2499] == lessons.pretrain
    for first in range(2500, 5000, 500):
        assert sum(due[first : first + 500]) == 100
    assert max(due[2500:]) == (1 if how == "spread" else 100)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"decay": 1.0}, "decay must be below 1"),
        ({"discount": 1.1}, "discount must lie between 0 and 1"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"world_prefill": 10}, "world_prefill must be at least world_length"),
        ({"evaluation_episodes": 0}, "evaluation_episodes must be at least 1"),
        ({"learning_rate": math.nan}, "learning_rate must be a finite number"),
        ({"lifelong": "gobi"}, "the lifelong factor must be one of"),
        ({"reward": "icm", "paid": "made"}, "paid must be sampled"),
        ({"reward": "r1", "normalised": "product"}, "'r1' is none"),
        ({"lifelong": "rnd", "paid": "made"}, "paid must be sampled"),
    ],
)
def test_what_cannot_work_is_refused(changes, told):
    with pytest.raises(GobiError, match=told):
        recipes.recipe("hopper_hop", **changes)


def test_every_setting_of_the_learner_and_the_world_reaches_them():
    recipe = recipes.recipe(
        "hopper_hop", hidden=7, channels=3, crop=60, stack=2, learning_rate=0.1, temperature=0.2,
        temperature_rate=0.3, discount=0.4, target_rate=0.5, precision="bfloat16", steps=4,
        imagined_actions=6, imagined_draws="normal", world_free_nats=0.7,
        prior="mean", hashed="reconstructed", world_rate=0.6, world_precision="float32", world_size="compact",
    )  # fmt: skip
    spec = Spec("dmc/hopper_hop", (100, 100, 3), "uint8", 0, max_steps=500, action_size=4)
    rad, world = assembly.learner(recipe), assembly.world(recipe, spec)
    assert isinstance(world, RSSM)
    assert (rad.hidden, rad.channels, rad.crop, rad.stack, rad.precision) == (7, 3, 60, 2, "bfloat16")
    rates = rad.learning_rate, rad.temperature, rad.temperature_rate, rad.discount, rad.rate
    assert rates == (0.1, 0.2, 0.3, 0.4, 0.5)
    assert (world.steps, world.actions, world.prior, world.hashed) == (4, 6, "mean", "reconstructed")
    assert (world.learning_rate, world.precision, world.sizes) == (0.6, "float32", assembly.COMPACT)
    assert (world.draws, world.free_nats) == ("normal", 0.7)
