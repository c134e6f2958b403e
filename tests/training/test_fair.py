"""A world that reads the agent's view alone: its runs take no look that the task does not grant."""

from __future__ import annotations

import json

import jax
import pytest

import gobi
from gobi.training import assembly, recipes, run, world_model
from gobi.worlds import build
from gobi.worlds.network import FRONT

TASK = "gobi/MultiRoom-N2-S4-noisy-v0"
LOOKS = ("panorama", "view")


def tiny(**changes):
    small = {
        "frames": 160,
        "num_envs": 8,
        "unroll": 10,
        "pretrain_frames": 300,
        "pretrain_epochs": 1,
        "snapshots": 0,
        "count_room": 1024,
        "bank": 512,
    }
    return recipes.compact(recipes.recipe(TASK), **{**small, **changes})


def test_a_run_that_does_not_look_around_says_so_in_its_card(tmp_path):
    """On a task with a noisy television, of all."""
    folder, plan = run.Folder(tmp_path / "run"), run.Plan(tiny(world_reads="view"), (0,))
    run.begin(folder, plan)
    run.go(folder, plan)
    card = json.loads(folder.card.read_text())
    assert (card["privileged"], card["peeks"]) == ([], 0)
    assert card["frames"] == 160
    assert card["pretraining_frames"] >= 300
    assert card["world_parameters"] > 0


def test_without_looking_around_the_model_is_trained_on_views_alone(monkeypatch):
    given = []

    def train(network, data, *_, **__):
        given.append(data)
        return network

    monkeypatch.setattr(world_model, "train", train)
    env = gobi.make(TASK)
    for looks in LOOKS:
        world_model.pretrain(tiny(world_reads=looks), env, lambda *_: None)
    around, ahead = given
    assert around.panorama[:, :FRONT].any()
    assert not ahead.panorama[:, :FRONT].any()
    assert not ahead.after[:, :FRONT].any()
    # A view leads here or there: how often must stay in the data. A panorama leads to one place only.
    assert len(ahead) == 300 > len(around)


@pytest.mark.parametrize(
    ("changes", "reads", "privileges"),
    [
        ({}, {"observation", "panorama"}, ("panorama",)),
        ({"world_reads": "view"}, {"observation"}, ()),
        ({"world": "real"}, {"observation", "state"}, ("simulator",)),
    ],
)
def test_what_a_reward_reads_beyond_the_view_is_a_privilege(changes, reads, privileges):
    reward = assembly.reward(tiny(**changes), gobi.make(TASK), build(key=jax.random.key(0)))
    assert reward.reads == reads
    assert assembly.privileges(reward) == privileges
