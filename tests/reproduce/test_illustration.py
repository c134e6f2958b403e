"""The nine-state example, against a brute-force search over all walks."""

from __future__ import annotations

import itertools

import pytest

from gobi.reproduce import illustration
from gobi.reproduce.illustration import CENTRE, START, STATES, grew, growth, neighbours, plan, within_reach

DISCOUNT = 0.99


def walked(path, reward):
    known, value = within_reach(START), 0.0
    for number, state in enumerate(path):
        after = known | within_reach(state)
        value += DISCOUNT**number * reward(len(after) - len(known))
        known = after
    return value, known


def walks(length):
    def extended(path):
        return [(*path, other) for other in neighbours((START, *path)[-1])]

    paths = [()]
    for _ in range(length):
        paths = list(itertools.chain.from_iterable(extended(path) for path in paths))
    return paths


@pytest.mark.parametrize("reward", [growth, grew])
def test_no_walk_of_five_moves_beats_the_plan(reward):
    ours = plan(reward, DISCOUNT)
    assert walked(ours.path[1:], reward)[0] == pytest.approx(ours.value)
    assert max(walked(path, reward)[0] for path in walks(5)) <= ours.value + 1e-12


def test_paid_by_growth_the_best_first_move_is_the_centre_and_shows_everything():
    ours = plan(growth)
    assert ours.path == (START, CENTRE)
    assert ours.gains == (5,)


def test_paid_for_growing_at_all_the_plan_takes_more_moves():
    ours = plan(grew)
    assert len(ours.path) == 4
    assert ours.path[1] != CENTRE
    assert sum(ours.gains) == len(STATES) - len(within_reach(START))


def test_the_picture_is_drawn(tmp_path):
    illustration.draw(tmp_path / "illustration.png")
    assert (tmp_path / "illustration.png").stat().st_size > 5_000
