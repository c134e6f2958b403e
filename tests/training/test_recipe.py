"""A recipe refuses what it cannot mean, reads words, and survives being written down."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from gobi.agents import registry as learners
from gobi.errors import GobiError
from gobi.training.recipe import Recipe, differences, from_json, read_settings

HINTS = get_type_hints(Recipe)


def basic(**changes: Any) -> Recipe:
    """A recipe with some fields changed, made without the tests' type checker: the recipe has its own."""
    recipe = object.__new__(Recipe)
    defaults = Recipe(task="MiniGrid-Empty-5x5-v0", recipe="gobi", frames=1000)
    for name, value in (dataclasses.asdict(defaults) | changes).items():
        object.__setattr__(recipe, name, value)
    recipe.__post_init__()
    return recipe


def reader(field: str) -> str:
    """A learner that reads the field; the default one if it does, or if the field is of no learner."""
    readers = [name for name in learners.LEARNERS if field in learners.settings(name)]
    return readers[0] if readers else "impala"


def wrong_values(hint: Any) -> list[Any]:
    if get_origin(hint) is Literal:
        return ["nonsense", None, 6.0, [1]]
    return {
        bool: [1, "true", None],
        int: [1.0, "1", True, None],
        float: ["1", True, None, float("nan"), float("inf")],
        str: [1, None, True],
    }[hint]


@pytest.mark.parametrize("field", HINTS)
def test_a_field_takes_only_values_of_its_type(field):
    for value in wrong_values(HINTS[field]):
        with pytest.raises(GobiError, match=rf"^{field} must be [^\n]*$"):
            basic(**{field: value})


@pytest.mark.parametrize("field", [name for name, hint in HINTS.items() if get_origin(hint) is Literal])
def test_every_choice_of_a_field_is_allowed_and_can_be_written_as_a_word(field):
    for choice in get_args(HINTS[field]):
        assert getattr(basic(**{"learner": reader(field), field: choice}), field) == choice
        assert read_settings([f"{field}={choice}"]) == {field: choice}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frames": 0}, "frames must be at least 1, got 0"),
        ({"num_envs": 0}, "num_envs must be at least 1"),
        ({"unroll": -1}, "unroll must be at least 1"),
        ({"steps": -1}, "steps must be at least 0"),
        ({"bank": 0}, "bank must be at least 1"),
        ({"model_samples": 0}, "model_samples must be at least 1"),
        ({"count_room": 0}, "count_room must be at least 1"),
        ({"hash_bits": 0}, "hash_bits must be at least 1"),
        ({"coefficient": -0.1}, "coefficient must be at least 0"),
        ({"decay": -1e-9}, "decay must be at least 0"),
        ({"decay": 1.0}, "decay must be below 1, got 1.0"),
        ({"extrinsic": -1}, "extrinsic must be at least 0"),
        ({"clip": -1}, "clip must be at least 0"),
        ({"sampled_actions": -1}, "sampled_actions must be at least 0"),
        ({"learning_rate": -1}, "learning_rate must be at least 0"),
        ({"entropy_cost": -1}, "entropy_cost must be at least 0"),
        ({"value_cost": -1}, "value_cost must be at least 0"),
        ({"pretrain_frames": -1}, "pretrain_frames must be at least 0"),
        ({"pretrain_epochs": -1}, "pretrain_epochs must be at least 0"),
        ({"pretrain_rate": -1}, "pretrain_rate must be at least 0"),
        ({"snapshots": -1}, "snapshots must be at least 0"),
        ({"discount": -0.1}, "discount must be at least 0"),
        ({"discount": 1.01}, "discount must be at most 1, got 1.01"),
        ({"max_grad_norm": -1}, "max_grad_norm must be at least 0"),
        ({"pretrain_frames": 0}, "a learned world needs pretrain_frames, or world_mode=online"),
        ({"schedule_frames": -1}, "schedule_frames must be at least 0"),
        (
            {"schedule_frames": 1000, "learning_rate_decay": "none"},
            "schedule_frames .* not with learning_rate_decay=none",
        ),
        ({"world": "real", "sampled_actions": 3}, "sampled_actions needs a learned world"),
        ({"world": "real", "world_reads": "view"}, "world_reads=view needs a learned world"),
        ({"steps": 2, "world_reads": "view"}, "world_reads=view needs steps=1"),
    ],
)
def test_numbers_out_of_range_and_settings_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(GobiError, match=message):
        basic(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"discount": 1},
        {"clip": 0},
        {"extrinsic": 0},
        {"decay": 0},
        {"pretrain_frames": 0, "world_mode": "online"},
        {"pretrain_frames": 0, "reward": "count"},
        {"pretrain_frames": 0, "world": "real"},
    ],
)
def test_what_lies_on_the_edge_is_allowed(changes):
    made = basic(**changes)
    assert {name: getattr(made, name) for name in changes} == changes


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("frames=8e6", 8_000_000),
        ("frames=8_000_000", 8_000_000),
        ("schedule_frames=3e7", 30_000_000),
        ("frames=+12", 12),
        ("frames=1.5e3", 1500),
        ("frames=9007199254740993", 9007199254740993),
        ("coefficient=1", 1.0),
        ("coefficient=5e-3", 0.005),
        ("skip_executed=Yes", True),
        ("skip_executed=off", False),
        ("imagined_actions=7", 7),
        ("hash=simhash", "simhash"),
        ("reward_options=alpha=0.4", "alpha=0.4"),
    ],
)
def test_words_become_settings_of_the_fields_type(word, value):
    name = word.partition("=")[0]
    settings = read_settings([word])
    assert settings == {name: value}
    assert type(settings[name]) is type(value)


def test_the_last_word_on_a_field_counts():
    assert read_settings(["clip=1", "frames=5", "clip=2"]) == {"clip": 2.0, "frames": 5}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("frames", r"--set takes FIELD=VALUE, got 'frames'"),
        ("coeficient=1", r"unknown recipe field 'coeficient'; did you mean coefficient"),
        ("=1", r"unknown recipe field ''"),
        ("frames=many", r"frames must be of type int, got 'many'"),
        ("frames=1.5", r"frames must be of type int, got '1.5'"),
        ("frames=inf", r"frames must be of type int, got 'inf'"),
        ("frames=nan", r"frames must be of type int, got 'nan'"),
        ("frames=+-3", r"frames must be of type int"),
        ("frames=²", r"frames must be of type int"),
        ("frames=", r"frames must be of type int, got ''"),
        ("clip=wide", r"clip must be of type float, got 'wide'"),
        ("skip_executed=maybe", r"skip_executed must be true or false, got 'maybe'"),
        ("credit=both", r"credit must be one of arrival, departure, got 'both'"),
        ("imagined_actions=8", r"imagined_actions must be one of 6, 7, got '8'"),
    ],
)
def test_a_word_that_means_nothing_gets_one_line_that_says_why(word, message):
    with pytest.raises(GobiError, match=message) as refusal:
        read_settings([word])
    assert "\n" not in str(refusal.value)


def test_a_recipe_survives_json():
    recipe = basic(coefficient=0.1, decay=5e-8, erase_movable=True, imagined_actions=7)
    again = from_json(recipe.to_json())
    assert again == recipe
    assert again.digest == recipe.digest
    assert len(recipe.to_json().splitlines()) == 2 + len(dataclasses.fields(recipe))


@pytest.mark.parametrize(
    "text",
    ["", "{", "3", "[1]", '{"task": "x"}', "null", '{"task": 1, "recipe": "gobi", "frames": 3}'],
)
def test_what_is_no_recipe_is_refused(text):
    with pytest.raises(GobiError):
        from_json(text)


def test_a_field_from_elsewhere_is_named():
    text = basic().to_json().replace('"coefficient"', '"coeficient"')
    with pytest.raises(GobiError, match="unknown recipe field 'coeficient'; did you mean coefficient"):
        from_json(text)


def test_every_field_changes_the_digest():
    base = basic(reward="noveld", num_envs=12)
    names = {
        "reward": "rnd",
        "reward_options": "norm=squared",
        "lifelong": "rnd",
        "lifelong_options": "shared=true",
        "learner": "ppo",
        "imitation_rows": 64,
        "imitation_cost": 0.5,
    }
    digests = {base.digest}
    for field in dataclasses.fields(Recipe):
        value = getattr(base, field.name)
        if field.name in names:
            value = names[field.name]
        elif get_origin(HINTS[field.name]) is Literal:
            value = next(choice for choice in get_args(HINTS[field.name]) if choice != value)
        else:
            value = {
                bool: lambda v: not v,
                int: lambda v: v + 1,
                float: lambda v: v / 2 or 0.5,
                str: str.upper,
            }[HINTS[field.name]](value)
        fixed = {"reward": "noveld", "learner": reader(field.name), "num_envs": 12}
        if field.name.startswith("imitation"):
            fixed["values"] = "two"
        base = basic(**fixed)
        changed = basic(**{**fixed, field.name: value})
        assert changed.digest != base.digest, field.name
        digests |= {base.digest, changed.digest}
    # The learner's own change is the other learner's base, and that of the values imitation's.
    assert len(digests) == 1 + len(dataclasses.fields(Recipe))


def test_a_whole_number_for_a_float_is_the_same_setting():
    assert basic(coefficient=1).digest == basic(coefficient=1.0).digest


def test_differences_name_the_fields_with_both_values():
    one = basic()
    assert differences(one, one) == []
    assert differences(one, one.changed(credit="departure", frames=2000)) == [
        "frames: 1000 -> 2000",
        "credit: arrival -> departure",
    ]


def test_a_changed_recipe_is_checked_again():
    with pytest.raises(GobiError, match="frames must be at least 1"):
        basic().changed(frames=-1)


@pytest.mark.parametrize(
    ("frames", "row", "updates"),
    [(1, 1, 1), (3200, 1, 1), (3201, 1, 2), (8_000_000, 10, 2500), (70_000_000, 64, 21_888)],
)
def test_updates_are_as_many_as_the_frames_need_in_whole_rows(frames, row, updates):
    recipe = basic(frames=frames)
    assert (recipe.updates_per_row, recipe.updates) == (row, updates)
    assert recipe.updates * recipe.frames_per_update >= frames


@pytest.mark.parametrize(
    ("reward", "imagines"),
    [("gobi", True), ("r1", True), ("r2", True), ("r3", False), ("count", False), ("none", False)],
)
def test_only_rewards_with_reachability_imagine(reward, imagines):
    assert basic(reward=reward).imagines == imagines


def test_a_field_that_came_later_leaves_kept_recipes_what_they_were():
    now = basic()
    fields = json.loads(now.to_json())
    for field in dataclasses.fields(Recipe):
        if field.metadata.get("later"):
            del fields[field.name]
    assert "schedule_frames" not in fields
    assert "learner" not in fields
    kept = json.dumps(fields, indent=1)
    assert from_json(kept) == now
    assert now.digest == hashlib.sha256(kept.encode()).hexdigest()[:12]
    assert basic(schedule_frames=30_000_000).digest != now.digest
    assert basic(learner="ppo").digest != now.digest
