"""The same actions in both games: nothing may differ, and whatever differs must be found."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gobi.envs.minigrid import FARAMA_TASKS
from gobi.envs.minigrid.parity import campaign, transitions
from gobi.envs.minigrid.parity.transitions import FIELDS, Tally, check_shard
from gobi.errors import GobiError

PER_TASK = 8_000
SMALL = "MiniGrid-Empty-5x5-v0"
EVENTFUL = "MiniGrid-ObstructedMaze-1Dlhb-v0"


@pytest.mark.parametrize("task", FARAMA_TASKS)
def test_every_task_plays_as_farama_does(task):
    (tally,) = campaign.run([task], PER_TASK)
    assert tally.transitions >= PER_TASK
    assert tally.mismatches == 0, tally.first_mismatch
    assert tally.success > 0
    assert tally.timeouts > 0


def test_what_is_played_uses_doors_keys_balls_boxes_and_drops():
    tally = check_shard(EVENTFUL, 0)
    events = {"door": 10, "key": 100, "ball": 100, "box": 30, "drop": 200, "success": 10}
    for event, least in events.items():
        assert getattr(tally, event) >= least, event


@pytest.mark.parametrize("field", FIELDS)
def test_a_difference_in_any_field_is_found(field, monkeypatch):
    real = transitions.player

    def with_one_error(env):
        def play(*arguments):
            trace = real(env)(*arguments)
            values = np.array(getattr(trace, field))
            values[3, 0] = ~values[3, 0] if values.dtype == bool else values[3, 0] + 1
            return trace._replace(**{field: values})

        return play

    monkeypatch.setattr(transitions, "player", with_one_error)
    tally = check_shard(SMALL, 0)
    assert tally.mismatches == 1
    assert "episode 3 step 0" in tally.first_mismatch
    assert f"{field} differ" in tally.first_mismatch


def test_a_shard_plays_the_same_every_time():
    first, again, other = check_shard(SMALL, 0), check_shard(SMALL, 0), check_shard(SMALL, 1)
    assert first.transitions == again.transitions
    assert first.success == again.success
    assert (first.transitions, first.success) != (other.transitions, other.success)


@pytest.fixture
def fake_shards(monkeypatch):
    """Shards of 100 transitions that take no time; the list of those played."""
    played = []

    def fake(task: str, shard: int) -> Tally:
        played.append((task, shard))
        bad = shard == 2
        return Tally(
            task, shard, 100, mismatches=int(bad), first_mismatch="x" * bad, code=transitions.code_version()
        )

    monkeypatch.setattr(campaign, "check_shard", fake)
    return played


def test_a_run_plays_shards_until_it_has_enough(fake_shards):
    results = campaign.run(["a", "b"], 250)
    assert fake_shards == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]
    assert [tally.transitions for tally in results] == [300, 300]
    assert [tally.mismatches for tally in results] == [1, 1]
    assert results[0].first_mismatch == "x"


def test_a_run_goes_on_where_it_was_stopped(fake_shards, tmp_path):
    campaign.run(["a"], 200, folder=tmp_path)
    with (tmp_path / campaign.FILE).open("a") as file:
        file.write('{"task": "a", "shard": 2, "transi')
    del fake_shards[:]
    (result,) = campaign.run(["a"], 400, folder=tmp_path)
    assert fake_shards == [("a", 2), ("a", 3)]
    assert result.transitions == 400


def test_what_other_code_has_played_does_not_count(fake_shards, tmp_path):
    campaign.run(["a"], 200, folder=tmp_path)
    path = tmp_path / campaign.FILE
    path.write_text(path.read_text().replace(transitions.code_version(), "older, minigrid 1.0"))
    del fake_shards[:]
    campaign.run(["a"], 200, folder=tmp_path)
    assert fake_shards == [("a", 0), ("a", 1)]


def test_a_line_cut_short_does_not_spoil_the_next(fake_shards, tmp_path):
    (tmp_path / campaign.FILE).write_text('{"task": "a", "sha')
    campaign.run(["a"], 100, folder=tmp_path)
    (found,) = campaign.recorded(tmp_path)
    assert (found.task, found.shard) == ("a", 0)


def test_several_processes_find_what_one_finds(tmp_path):
    alone = campaign.run([SMALL], 2000)
    together = campaign.run([SMALL], 2000, jobs=2, folder=tmp_path)
    assert [tally.mismatches for tally in together] == [0]
    shards = [json.loads(line) for line in (tmp_path / campaign.FILE).read_text().splitlines()]
    assert {shard["shard"] for shard in shards} >= {0, 1}
    assert together[0].transitions >= alone[0].transitions


def test_nonsense_numbers_are_refused():
    with pytest.raises(GobiError, match="transitions >= 1 and jobs >= 1, got 0 and 1"):
        campaign.run([SMALL], 0)
