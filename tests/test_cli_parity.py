"""`gobi parity`: what it writes, what it says, and that a difference makes it fail."""

from __future__ import annotations

import dataclasses

import pytest

from gobi.envs.minigrid.parity import campaign, levels

EMPTY = "MiniGrid-Empty-5x5-v0"
CORRIDOR = "MiniGrid-KeyCorridorS3R1-v0"


def test_both_comparisons_end_in_tables_and_say_where_they_are(gobi_command, tmp_path):
    code, out, _ = gobi_command(
        "parity", CORRIDOR, "--transitions", "1000", "--levels", "50", "--out", "here"
    )
    assert code == 0
    table = (tmp_path / "here" / "transitions.md").read_text().splitlines()
    assert table[0].startswith("| task | transitions | door |")
    assert table[2].split(" | ")[0] == f"| {CORRIDOR}"
    assert table[2].split(" | ")[-2] == "0"
    p_values = (tmp_path / "here" / "levels.md").read_text()
    assert f"## {CORRIDOR}" in p_values
    assert "| key colour | chi-square |" in p_values
    for name in ("transitions.jsonl", "transitions.md", "levels.md"):
        assert f"here/{name}" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "say how much to compare"),
        (("KeyCorridorS9R9", "--levels", "5"), "unknown task 'KeyCorridorS9R9'; did you mean"),
        (("--transitions", "-1"), "--transitions must be at least 0, got -1"),
        (("--levels", "5", "--jobs", "0"), "--jobs must be at least 1, got 0"),
        (("--levels", str(10**20)), f"--levels must be at most {10**10}, got {10**20}"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(gobi_command, tmp_path, words, expected):
    code, out, err = gobi_command("parity", *words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert expected in err
    assert not list(tmp_path.iterdir())


def test_a_mismatch_makes_the_command_fail_and_is_named(gobi_command, monkeypatch):
    real = campaign.check_shard

    def with_mismatch(task, shard):
        return dataclasses.replace(real(task, shard), mismatches=3, first_mismatch="step 7")

    monkeypatch.setattr(campaign, "check_shard", with_mismatch)
    code, _, err = gobi_command("parity", EMPTY, "--transitions", "100")
    assert code == 1
    assert f"3 mismatches in {EMPTY}, the first in step 7" in err


def test_levels_that_differ_make_the_command_fail(gobi_command, monkeypatch):
    def different(env, count, seed, progress):
        row = levels.Row("door colour", "chi-square", 99.0, p=1e-9, adjusted_p=1e-8)
        return levels.LevelReport(env.spec.id, count, seed, (row,), unsolvable=0.0, unsolvable_farama=0.0)

    monkeypatch.setattr(levels, "compare_levels", different)
    code, out, err = gobi_command("parity", EMPTY, "--levels", "5")
    assert code == 1
    assert "DIFFERENT" in out
    assert f"the levels of {EMPTY} differ from Farama's in 'door colour'" in err
