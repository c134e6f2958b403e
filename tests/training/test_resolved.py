"""A run knows all options of its rewards, and does not go on as another method when a default has changed."""

from __future__ import annotations

import dataclasses
import json

import equinox as eqx
import pytest

from gobi.cli import packs
from gobi.errors import GobiError
from gobi.rewards import Count, registry
from gobi.training import card, recipes, resolved, run
from gobi.training.control import recipes as control_recipes
from gobi.training.folder import Folder, Plan
from gobi.training.host import recipes as host_recipes
from gobi.training.recipe import Recipe

TASK = "MiniGrid-Empty-5x5-v0"


class CountedOtherwise(Count):
    """Counts, in a version of gobi with another default."""

    view: str = eqx.field(static=True, default="full_grid")


@pytest.fixture
def other_defaults(monkeypatch):
    def change():
        entry = dataclasses.replace(registry.REWARDS["count"], make=CountedOtherwise)
        monkeypatch.setitem(registry.REWARDS, "count", entry)

    return change


@pytest.fixture
def plan() -> Plan:
    tiny = {"num_envs": 4, "unroll": 5, "frames": 20, "bank": 8, "snapshots": 0, "count_room": 64}
    return Plan(Recipe(task=TASK, recipe="gobi", reward="count", network="compact", **tiny), (0,))


@pytest.mark.parametrize(
    ("recipe", "found"),
    [
        (recipes.recipe(TASK, reward="noveld", reward_options="alpha=0.4"), {"noveld": {"alpha": 0.4}}),
        (recipes.recipe(TASK, reward="noveld"), {"noveld": {"alpha": 0.5, "capacity": None}}),
        (recipes.recipe(TASK, lifelong="rnd"), {"rnd": {"loss_weight": 0.1}}),
        (recipes.recipe(TASK, "as_written"), {"count": {"shared": True, "view": "observation"}}),
        (recipes.recipe(TASK, reward="r1"), {}),
        (recipes.recipe(TASK, reward="none"), {}),
        (control_recipes.recipe("dmc/hopper_hop", reward="gobi"), {"gobi": {}, "re3": {"k": 3}}),
        (host_recipes.recipe("gym/CartPole-v1", reward="rnd"), {"rnd": {"rate": 1e-4}}),
    ],
    ids=["given", "default", "lifelong", "by fields", "r1", "none", "control", "host"],
)
def test_options_come_out_whole(recipe, found):
    options = resolved.options(recipe)
    assert list(options) == list(found)
    for reward, chosen in found.items():
        assert {name: options[reward][name] for name in chosen} == chosen
    assert not resolved.changed(json.loads(json.dumps(options)), recipe)


def test_a_run_does_not_go_on_with_other_defaults(tmp_path, plan, other_defaults):
    folder = Folder(tmp_path / "mine")
    run.begin(folder, plan)
    assert json.loads(folder.run.read_text())["options"]["count"]["view"] == "observation"
    other_defaults()
    told = "mine was begun with other defaults .*count view: observation -> full_grid;"
    with pytest.raises(GobiError, match=told):
        run.go(folder, plan)
    with pytest.raises(GobiError, match=told):
        packs.check([(folder, plan)])
    # Whoever only looks at it is not held up.
    assert run.planned(folder) == plan


def test_runs_from_before_go_on_and_the_card_tells_all_options(tmp_path, plan, other_defaults):
    folder = Folder(tmp_path / "old")
    run.begin(folder, plan)
    folder.run.write_text(json.dumps({"seeds": [0], "deterministic": False}))
    other_defaults()
    run.go(folder, plan)
    options = card.read(folder.card).options
    assert options is not None
    assert options["count"] == {"view": "full_grid", "shared": False, "capacity": 64}


def test_a_run_with_other_defaults_is_not_taken_for_the_same(tmp_path, plan, other_defaults, monkeypatch):
    there, here = Folder(tmp_path / "study" / "there"), Folder(tmp_path / "here")
    run.begin(there, plan)
    monkeypatch.setattr(run, "finished", lambda *_: True)
    assert packs.reused([(here, plan)], tmp_path / "study") == [(there, plan)]
    other_defaults()
    assert packs.reused([(here, plan)], tmp_path / "study") == [(here, plan)]
