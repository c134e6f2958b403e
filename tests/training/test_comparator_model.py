"""The comparator that episodic curiosity learns before a run: its frames, its file, and who shares it."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from gobi.envs.minigrid import make
from gobi.errors import GobiError
from gobi.rewards.ec import EC
from gobi.training import beforehand, comparator_model
from gobi.training.recipe import Recipe

TASK = "MiniGrid-DoorKey-5x5-v0"


def recipe(**options) -> Recipe:
    chosen = {"size": "small", "pairs": 16, "batches": 1, "pretrain": 150, **options}
    words = ",".join(f"{name}={value}" for name, value in chosen.items())
    return Recipe(task=TASK, recipe="test", frames=1000, reward="ec", reward_options=words)


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """Two folders that share a comparator, the comparator, and what was told meanwhile."""
    folders, told = [tmp_path_factory.mktemp(name) for name in "ab"], []
    made = beforehand.shared(folders, recipe(), make(TASK), lambda *words: told.append(words))
    return folders, made, told


def same(one, other) -> bool:
    return all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


def test_it_plays_at_least_as_many_steps_as_asked_for_and_says_how_many(taught):
    _, made, told = taught
    assert made.frames == 200
    assert [words[1:] for words in told] == [(1, 1)]
    assert told[0][0].startswith("comparator, accuracy ")


def test_it_is_kept_in_every_folder_and_read_again_from_there(taught, monkeypatch):
    folders, made, _ = taught
    assert beforehand.checksum(folders[0]) == beforehand.checksum(folders[1]) is not None
    monkeypatch.setattr(comparator_model, "teach", None)
    again = comparator_model.load_or_train(folders[1], recipe(), make(TASK), lambda *_: None)
    assert (again.frames, again.seconds) == (made.frames, made.seconds)
    assert same(again.network, made.network)


def test_a_folder_without_one_gets_that_of_another(taught, tmp_path, monkeypatch):
    (first, _), made, _ = taught
    monkeypatch.setattr(comparator_model, "teach", None)
    got = beforehand.shared([tmp_path, first], recipe(), make(TASK), lambda *_: None)
    assert same(got.network, made.network)
    assert beforehand.checksum(tmp_path) == beforehand.checksum(first)


def test_the_reward_has_the_recipes_options_and_that_comparator_and_learns_no_more(taught):
    _, made, _ = taught
    reward = comparator_model.reward(recipe(beta=0.7), made.network)
    assert (reward.beta, reward.pretrain) == (0.7, 150)
    assert reward.init(jax.random.key(0), make(TASK).spec, 2).lessons is None
    assert reward.logs == ("ec/similarity", "ec/remembered")


def test_it_is_needed_only_where_it_is_asked_for():
    assert comparator_model.needed(recipe())
    assert not comparator_model.needed(recipe(pretrain=0))
    assert not comparator_model.needed(Recipe(task=TASK, recipe="test", frames=1000))


def test_where_nobody_pre_trains_the_option_is_refused_rather_than_ignored():
    with pytest.raises(GobiError, match="pretrain is an option of a run's own reward"):
        EC(pretrain=100).init(jax.random.key(0), make(TASK).spec, 2)
    with pytest.raises(GobiError, match="pretrain must be at least 0"):
        EC(pretrain=-1)
