"""What is said about the size of a bonus."""

from __future__ import annotations

import numpy as np
import pytest

from gobi.adapters.advice import Sizes, advice


@pytest.mark.parametrize(
    ("sizes", "words", "number"),
    [
        ({"episodes": 100, "bonuses": 400.0, "rewarded": 50, "returns": 40.0}, "pays more", "0.0006"),
        ({"episodes": 100, "bonuses": 400.0, "rewarded": 10, "returns": 8.0}, "does. Try the", "0.0006"),
        (
            {"episodes": 100, "bonuses": 400.0, "rewarded": 9, "returns": 7.2},
            "while rewards are rare",
            "0.0006",
        ),
        ({"episodes": 100, "bonuses": 0.1, "rewarded": 50, "returns": 40.0}, "too little", "2"),
        ({"episodes": 100, "bonuses": 0.1, "rewarded": 51, "returns": 40.0}, "pays without a bonus", "as it"),
        ({"episodes": 100, "bonuses": 30.0, "rewarded": 50, "returns": 40.0}, "as it is", ""),
        (
            {"episodes": 100, "bonuses": 30.0},
            "none of 100 episodes had a reward above 0",
            "about 1, 0.01 keeps",
        ),
        ({"episodes": 100, "bonuses": 1e-3}, "none of 100 episodes", "about 1, 0.1 keeps"),
        ({"episodes": 100}, "not one of 100 episodes was paid a bonus", "hash="),
        ({"episodes": 100, "rewarded": 50, "returns": 40.0}, "not one of 100 episodes was paid", "observe="),
        ({"episodes": 3, "bonuses": 30.0}, "too few", ""),
        ({"episodes": 100, "at_first": 1.0, "late": 0.001}, "spent", "0.1 %"),
    ],
)
def test_advice_goes_by_the_sizes_of_bonus_and_return(sizes, words, number):
    said = advice(Sizes(np.zeros(1), np.zeros(1), **sizes), 0.01, 100_000)
    assert words in said
    assert number in said
    assert "\n" not in said


@pytest.mark.parametrize("reward", ["", "count", "gobi", "noveld"])
def test_a_spent_bonus_s_reward_is_not_recommended_in_its_own_place(reward):
    spent = Sizes(np.zeros(1), np.zeros(1), episodes=100, at_first=1.0, late=0.001)
    _, _, named = advice(spent, 0.01, 100_000, reward).partition("at an episode's end (")
    assert set(named.rstrip(").").split(", ")) == {"gobi", "noveld", "ride", "ngu", "e3b"} - {reward}


def test_an_episode_of_penalties_is_not_a_rewarded_one():
    sizes, done = Sizes.none(2), np.array([True, True])
    for number in range(50):
        ended = done if number % 2 else ~done
        paid = np.array([-1.0, 5.0 if number == 7 else -1.0], np.float32)
        sizes.add(np.full(2, 0.01, np.float32), paid, ended)
    assert (sizes.episodes, sizes.rewarded, sizes.returns) == (50, 1, 5.0)
    assert "a rewarded episode earns 5 (1 of 50 were rewarded)" in advice(sizes, 1.0, 100)
