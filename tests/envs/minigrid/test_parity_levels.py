"""`gobi parity --levels`: it reads levels right, passes ours, and would find levels that are not Farama's."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from gobi.envs.minigrid import DoorKey, KeyCorridor, MultiRoom, cells, make, multiroom, oracle
from gobi.envs.minigrid.bank import numbered_levels
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.parity import chains, levels
from gobi.envs.minigrid.parity.contents import ABSENT, joint, taken_apart
from gobi.envs.minigrid.parity.features import features
from gobi.envs.minigrid.state import State
from gobi.errors import GobiError

POWER = 1000
CORRIDOR = KeyCorridor(3, 3)
ROOMS = MultiRoom(4, 5, side=12)


@functools.cache
def farama_features(generator) -> levels.Sample:
    return features(generator, oracle.farama_levels(MiniGrid(generator), seed=5, count=POWER))


def our_levels(generator, count: int = POWER) -> State:
    return jax.tree.map(np.array, numbered_levels(MiniGrid(generator), seed=5, start=0, count=count))


def differing(generator, altered: State) -> set[str]:
    """The features in which these levels are found to differ from Farama's."""
    rows = levels.tested(features(generator, altered), farama_features(generator))
    return {row.feature for row in rows if row.adjusted_p < levels.ALPHA}


# Reading levels


def test_rooms_recovered_from_the_grid_are_the_ones_that_farama_made():
    env = make("MiniGrid-MultiRoom-N6-v0")
    farama = oracle.new_farama(env)
    for seed in range(20):
        farama.reset(seed=seed)
        level = jax.tree.map(lambda part: np.asarray(part)[None], oracle.from_farama(farama))
        chain = chains.recovered(taken_apart(level), rooms=6)
        for number, room in enumerate(farama.rooms):
            assert tuple(chain.low[number, 0]) == tuple(room.top)
            assert tuple(chain.high[number, 0] - chain.low[number, 0] + 1) == tuple(room.size)
            if number < 5:
                assert tuple(chain.door[number, 0]) == tuple(farama.rooms[number + 1].entryDoorPos)
                door = farama.grid.get(*chain.door[number, 0])
                assert cells.COLOUR_NAMES[chain.colour[number, 0]] == door.color
        assert (chain.side[-1, 0], chain.colour[-1, 0]) == (ABSENT, ABSENT)


def test_doors_between_rooms_are_the_ones_that_farama_made():
    farama = oracle.new_farama(MiniGrid(CORRIDOR))
    for seed in range(20):
        farama.reset(seed=seed)
        level = jax.tree.map(lambda part: np.asarray(part)[None], oracle.from_farama(farama))
        found = features(CORRIDOR, level)
        for column, row in np.ndindex(3, 3):
            for name, side in (("right of", 0), ("below", 1)):
                door = farama.room_grid[row][column].doors[side]
                if door is not None:
                    # The hallway's walls are gone, which Farama marks as True.
                    colour = -1 if door is True else cells.COLOUR_NAMES.index(door.color)
                    assert found[f"door {name} {column},{row}: colour"] == colour
        target_room = found["target's room"][0]
        assert farama.obj in farama.room_grid[target_room % 3][target_room // 3].objs


def test_levels_are_read_alike_in_one_batch_or_in_many(monkeypatch):
    some = our_levels(CORRIDOR, 50)
    whole = features(CORRIDOR, some)
    monkeypatch.setattr("gobi.envs.minigrid.parity.features.BATCH", 16)
    for name, value in features(CORRIDOR, some).items():
        np.testing.assert_array_equal(value, whole[name])


@pytest.mark.parametrize("seed", range(5))
def test_things_are_found_where_they_are(seed):
    generator = DoorKey(8)
    farama = oracle.new_farama(MiniGrid(generator))
    farama.reset(seed=seed)
    level = jax.tree.map(lambda part: np.asarray(part)[None], oracle.from_farama(farama))
    found = {name: value[0] for name, value in features(generator, level).items()}
    key = farama.grid.get(found["key x"], found["key y"])
    door = farama.grid.get(found["door x"], found["door y"])
    assert (key.type, door.type, door.is_locked) == ("key", "door", True)
    assert (found["agent x"], found["agent y"]) == tuple(farama.agent_pos)
    steps = abs(key.cur_pos[0] - farama.agent_pos[0]) + abs(key.cur_pos[1] - farama.agent_pos[1])
    assert found["steps from agent to key"] == steps
    assert (found["key count"], found["box count"], found["box x"]) == (1, 0, -1)
    assert found["locked doors without a key"] == 0


def test_a_lost_key_is_counted_and_makes_the_level_unsolvable():
    generator = DoorKey(5)
    altered = our_levels(generator, 4)
    altered.grid[(altered.grid & cells.OBJECT_MASK) == cells.KEY] = cells.EMPTY_CELL
    described = levels._described(MiniGrid(generator), altered)
    np.testing.assert_array_equal(described["locked doors without a key"], 1)
    np.testing.assert_array_equal(described["solvable"], 0)


def test_joint_categories_are_equal_only_where_all_parts_are():
    parts = np.indices((3, 5, 4)).reshape(3, -1) - 1
    assert len(np.unique(joint(*parts))) == 60


# Our levels


@pytest.mark.parametrize(
    "task",
    ["DoorKey-5x5", CORRIDOR, "ObstructedMaze-1Dlhb", ROOMS],
)
def test_our_levels_are_distributed_like_faramas(task):
    report = levels.compare_levels(make(task), 200, seed=1)
    assert report.passed
    assert len(report.tests) > 10
    assert (report.unsolvable, report.unsolvable_farama) == (0, 0)


def test_the_first_maze_with_balls_loses_one_key_in_fifteen_and_its_repaired_form_none():
    lossy = levels.compare_levels(make("MiniGrid-ObstructedMaze-2Dlhb-v0"), 120, seed=1)
    assert lossy.passed
    assert 0.02 < lossy.unsolvable < 0.12
    assert 0.02 < lossy.unsolvable_farama < 0.12
    repaired = levels.compare_once(make("MiniGrid-ObstructedMaze-2Dlhb-v1"), 20, seed=1)
    assert (repaired.unsolvable, repaired.unsolvable_farama) == (0, 0)


def test_a_task_that_is_always_the_same_level_has_nothing_to_test_and_passes():
    report = levels.compare_levels(make("Empty-5x5"), 20)
    assert report.passed
    assert report.tests == ()
    assert report.summary()[-1] == "same"


def test_levels_of_reset_are_distributed_like_faramas_too():
    made, _ = jax.jit(jax.vmap(MiniGrid(ROOMS).reset))(jax.random.split(jax.random.key(0), 500))
    assert differing(ROOMS, made) == set()


# Levels that are not Farama's


def test_unaltered_levels_do_not_differ():
    assert differing(CORRIDOR, our_levels(CORRIDOR)) == set()
    assert differing(ROOMS, our_levels(ROOMS)) == set()


def test_a_spanning_tree_of_doors_is_found():
    altered = our_levels(CORRIDOR)
    draws = np.random.default_rng(0)
    for grid in altered.grid:
        _prune_to_tree(grid, draws)
    assert {"door count", "walls with a door"} <= differing(CORRIDOR, altered)


def _prune_to_tree(grid: np.ndarray, draws: np.random.Generator) -> None:
    """Takes away every door between rooms that hang together without it; every other cell is a room."""
    leader = {(x, y): (x, y) for x in (1, 3, 5) for y in (1, 3, 5)}
    for y in (1, 3, 5):
        leader[3, y] = (3, 1)

    def top(room):
        return room if leader[room] == room else top(leader[room])

    doors = np.argwhere((grid & cells.OBJECT_MASK) == cells.DOOR)
    locked_first = sorted(draws.permutation(doors).tolist(), key=lambda at: -(int(grid[tuple(at)]) >> 7))
    for x, y in locked_first:
        step = (1, 0) if x % 2 == 0 else (0, 1)
        one, other = top((x - step[0], y - step[1])), top((x + step[0], y + step[1]))
        if one == other:
            grid[x, y] = cells.WALL_CELL
        leader[one] = other


def test_a_missing_colour_of_doors_is_found():
    altered = our_levels(CORRIDOR)
    closed_grey = cells.pack(cells.DOOR, cells.GREY, cells.CLOSED)
    altered.grid[altered.grid == closed_grey] = cells.pack(cells.DOOR, cells.RED, cells.CLOSED)
    assert {"grey doors", "red doors"} <= differing(CORRIDOR, altered)


def test_a_key_that_lies_more_often_in_the_target_s_row_is_found_though_each_is_right_by_itself():
    many = our_levels(CORRIDOR, 3 * POWER)
    found = features(CORRIDOR, many)
    same_row = found["key's room"] % 3 == found["target's room"] % 3
    chosen = np.flatnonzero(same_row | (np.arange(3 * POWER) % 2 == 0))[:POWER]
    altered = jax.tree.map(lambda part: part[chosen], many)
    wrong = differing(CORRIDOR, altered)
    assert "key's and target's rooms" in wrong
    assert not {"key's room", "target's room"} & wrong


def test_a_symmetric_test_for_overlapping_rooms_is_found(monkeypatch):
    class SymmetricRooms(MultiRoom):
        """A class of its own, so that no level compiled with the right test is reused."""

    def overlaps(corner, extent, chain):
        before = (corner + extent <= chain.corner).any(axis=1)
        behind = (chain.corner + chain.extent <= corner).any(axis=1)
        return ~(before | behind)

    monkeypatch.setattr(multiroom, "_overlaps", overlaps)
    wrong = differing(ROOMS, our_levels(SymmetricRooms(4, 5, side=12)))
    assert {"rooms 0 apart, later left", "rooms 0 apart, later above"} <= wrong


# Families of tests and reports


def test_constants_and_features_under_another_name_do_not_count_as_tests():
    draws = np.random.default_rng(0)
    one, other = draws.integers(0, 4, (2, 100))
    ours = {"a": one, "a again": 7 - 2 * one, "constant": 0 * one, "size": one.astype(float)}
    theirs = {"a": other, "a again": 7 - 2 * other, "constant": 0 * other, "size": other.astype(float)}
    rows = levels.tested(ours, theirs)
    assert {(row.feature, row.test) for row in rows} == {("a", "chi-square"), ("size", "Kolmogorov-Smirnov")}
    assert [row.p for row in rows] == sorted(row.p for row in rows)
    assert rows[0].adjusted_p == pytest.approx(2 * rows[0].p)


def test_a_constant_that_differs_between_the_sources_is_a_test_and_fails():
    (row,) = levels.tested({"a": np.zeros(100, int)}, {"a": np.ones(100, int)})
    assert row.adjusted_p < 1e-10


def _report(number: int, p: float, seed: int = 0) -> levels.LevelReport:
    row = levels.Row("agent x", "chi-square", 9.0, p, p)
    return levels.LevelReport("task", number, seed, (row,), 0.05, 0.06)


@pytest.mark.parametrize(("second", "verdict"), [(0.3, "same"), (1e-9, "DIFFERENT")])
def test_a_failure_is_rerun_once_with_ten_times_the_levels_and_another_seed(monkeypatch, second, verdict):
    asked = []

    def compare_once(env, number, seed, progress):
        asked.append((number, seed))
        return _report(number, 0.001 if len(asked) == 1 else second, seed)

    monkeypatch.setattr(levels, "compare_once", compare_once)
    report = levels.compare_levels(make("Empty-5x5"), 50, seed=3)
    assert asked == [(50, 3), (500, 4)]
    assert report.first == _report(50, 0.001, 3)
    assert report.passed == (verdict == "same")
    assert report.summary()[-1] == f"{verdict} (rerun: with 50 levels 'agent x' had 0.001)"


def test_what_passes_is_not_rerun(monkeypatch):
    monkeypatch.setattr(levels, "compare_once", lambda env, number, seed, progress: _report(number, 0.01))
    assert levels.compare_levels(make("Empty-5x5"), 50).first is None


def test_reports_become_tables():
    report = _report(2000, 0.25)
    assert report.summary() == ("task", "2,000", "1", "0.25", "agent x", "5.00%", "6.00%", "same")
    table = levels.markdown(levels.ROW_COLUMNS, report.rows())
    assert table.splitlines() == [
        "| feature | test | statistic | p | adjusted p |",
        "| --- | --- | --- | --- | --- |",
        "| agent x | chi-square | 9 | 0.25 | 0.25 |",
    ]
    assert len(levels.SUMMARY_COLUMNS) == len(report.summary())


def test_levels_that_take_farama_long_are_compared_in_smaller_numbers():
    assert levels.affordable(make("MiniGrid-MultiRoom-N12-S10-v0"), 2000) == 200
    assert levels.affordable(make("MiniGrid-MultiRoom-N6-v0"), 2000) == 2000


def test_the_same_seed_gives_the_same_report():
    env = make("DoorKey-5x5")
    assert levels.compare_once(env, 30, seed=7) == levels.compare_once(env, 30, seed=7)


def test_no_levels_is_refused():
    with pytest.raises(GobiError, match="levels >= 1"):
        levels.compare_once(make("Empty-5x5"), 0)
