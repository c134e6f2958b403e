"""The card: it holds what the design asks for, survives any stop, and never fails for want of git."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
import subprocess
import sys
from importlib import metadata

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import gobi
from gobi.envs.minigrid import TASKS, ceilings
from gobi.errors import GobiError
from gobi.training import card as cards

FULL = "MiniGrid-ObstructedMaze-Full-v1"


def example(task: str = FULL, **changed) -> cards.Card:
    described = {
        "reward": "gobi", "recipe": "gobi", "recipe_digest": "0a1b", "network": "compact", "world": "learned",
        "world_size": "compact", "policy_parameters": 10, "world_parameters": 20, "precision": "float32",
        "seeds": (0, 1), "deterministic": False, "privileged": ("panorama",),
    }  # fmt: skip
    return cards.begin(task, **{**described, **changed})


def test_it_knows_the_task_the_machine_and_the_versions():
    card = example()
    assert card.task_version == TASKS[FULL].version != ""
    assert card.best_return == ceilings.known()[FULL].best_return
    assert (card.device, card.devices) == (jax.devices()[0].device_kind, jax.device_count())
    assert card.versions["jax"] == jax.__version__
    assert {"python", "jax", "jaxlib", "gobi", "equinox", "optax", "numpy"} == set(card.versions)
    assert card.versions["gobi"] == metadata.version("gobi")
    started = datetime.datetime.fromisoformat(card.started)
    assert started.utcoffset() == datetime.timedelta(0)
    assert abs(datetime.datetime.now(datetime.UTC) - started) < datetime.timedelta(minutes=1)


def test_a_task_of_ones_own_has_no_ceiling():
    card = example("my/own-task")
    assert (card.task_version, card.best_return, card.solvable_share) == ("", None, None)


def test_it_is_updated_as_the_run_goes_on_and_read_back_the_same(tmp_path):
    path = tmp_path / "run" / "card.json"
    card = cards.write(path, example())
    assert (json.loads(path.read_text())["frames"], card.finished) == (0, None)
    card = cards.write(path, card, frames=3200, peeks=9600, seconds=1.5, finished=cards.now())
    assert cards.read(path) == card
    assert (card.frames, card.peeks) == (3200, 9600)
    assert [file.name for file in path.parent.iterdir()] == ["card.json"]


def test_what_is_no_card_is_refused(tmp_path):
    path = tmp_path / "card.json"
    with pytest.raises(GobiError, match="no card at"):
        cards.read(path)
    for content in ("{", "[]", '{"task": "x"}', json.dumps({**dataclasses.asdict(example()), "more": 1})):
        path.write_text(content)
        with pytest.raises(GobiError, match="is not a card of this version"):
            cards.read(path)


def test_differences_are_those_that_matter():
    card = example()
    later = dataclasses.replace(card, started="later", seconds=9.0, command="another")
    assert cards.differences(card, later) == {}
    assert cards.differences(card, later, ignore=()).keys() == {"started", "seconds", "command"}
    other = dataclasses.replace(later, precision="bfloat16", seeds=(0, 1, 2))
    assert cards.differences(card, other) == {
        "precision": ("float32", "bfloat16"),
        "seeds": ((0, 1), (0, 1, 2)),
    }


def test_parameters_are_counted_in_networks_and_in_their_shapes():
    net = eqx.nn.MLP(3, 2, 5, 1, key=jax.random.key(0))
    assert cards.parameters(net) == 3 * 5 + 5 + 5 * 2 + 2
    assert cards.parameters(eqx.filter_eval_shape(lambda: net)) == cards.parameters(net)
    assert cards.parameters({"steps": jnp.int32(3), "keys": jax.random.key(0), "none": None}) == 0


def test_the_command_is_what_was_typed_without_the_place_of_the_program(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/gobi", "train", "--out", "my runs"])
    assert cards.command_line() == "gobi train --out 'my runs'"


# The commit


def git(folder, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout whose folder `gobi` is taken for the package."""
    package = tmp_path / "gobi"
    package.mkdir()
    (package / "__init__.py").touch()
    git(tmp_path, "init")
    monkeypatch.setattr(gobi, "__file__", str(package / "__init__.py"))
    return package


def test_the_commit_is_that_of_the_source_and_changes_are_told(checkout):
    git(checkout, "add", ".")
    git(checkout, "commit", "-m", "first")
    commit = git(checkout, "rev-parse", "HEAD")
    assert re.fullmatch("[0-9a-f]{40}", commit)
    assert cards.commit() == commit
    (checkout / "new.py").touch()
    assert cards.commit() == f"{commit}+changes"


def test_the_checkout_of_a_project_that_merely_uses_gobi_is_not_taken_for_ours(checkout):
    (checkout.parent / "theirs.py").touch()
    git(checkout.parent, "add", "theirs.py")
    git(checkout.parent, "commit", "-m", "theirs")
    assert cards.commit() is None


def test_without_git_or_a_checkout_there_is_no_commit_and_no_error(checkout, monkeypatch):
    assert cards.commit() is None
    monkeypatch.setenv("PATH", "")
    assert cards.commit() is None
    assert example().commit is None
