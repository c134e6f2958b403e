"""`gobi compare`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from compared_runs import N7, S3, cut, fall, make_run
from PIL import Image

RESULTS = Path(__file__).parents[1] / "results" / "minigrid-gobi"
FILES = {"comparison.html", "comparison.csv", "curves.csv", "curves-MultiRoom-N7-S8-v0.png"}


def refused(answer: tuple[int, str, str], expected: str, code: int = 1) -> None:
    assert answer[:2] == (code, "")
    assert answer[2].count("\n") == 1
    assert expected in answer[2]


def test_compare_tells_the_groups_and_writes_page_pictures_and_numbers(gobi_command, tmp_path):
    make_run(tmp_path / "in" / "gobi")
    make_run(tmp_path / "in" / "count", reward="count", seeds=(0, 1), solved_at=(5e6, 6e6))
    code, out, err = gobi_command("compare", "in", "--out", "out", "--threshold", "0.6")
    assert (code, err) == (0, "")
    (row,) = (line.split() for line in out.splitlines() if line.startswith("MultiRoom-N7-S8-v0  gobi"))
    assert row[:8] == ["MultiRoom-N7-S8-v0", "gobi", "1", "4", "8.00M", "0.600", "(0.600", "to"]
    (pair,) = (line for line in out.splitlines() if line.startswith("a seed of"))
    assert pair.startswith("a seed of 'count' has a larger area than one of 'gobi': 0.000 (0.000 to 0.000), ")
    # Two seeds against four: no interval, however narrow, says more than that.
    assert pair.endswith("; too few seeds to tell")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert "open out/comparison.html" in out
    assert all(name in out.splitlines()[-1] for name in FILES)
    rows = list(csv.DictReader((tmp_path / "out" / "comparison.csv").read_text().splitlines()))
    (solved,) = (r for r in rows if (r["method"], r["statistic"]) == ("count", "frames_mean"))
    assert float(solved["value"]) == 5.5e6
    with Image.open(tmp_path / "out" / "curves-MultiRoom-N7-S8-v0.png") as picture:
        assert picture.size[0] > 600
    assert "<title>2 methods on MultiRoom-N7-S8-v0</title>" in (tmp_path / "out/comparison.html").read_text()


def test_a_pair_of_methods_is_told_with_its_verdict(gobi_command, tmp_path):
    make_run(tmp_path / "in" / "gobi")
    make_run(tmp_path / "in" / "count", reward="count", solved_at=(5e6, 6e6, 6.5e6, 7e6))
    _, out, _ = gobi_command("compare", "in", "--out", "out")
    assert (
        "one of 'gobi': 0.000 (0.000 to 0.000), MultiRoom-N7-S8-v0, over 8.00M frames; 'gobi' is better"
        in out
    )


def test_many_pairs_are_counted_and_left_to_the_page(gobi_command, tmp_path):
    for place, reward in enumerate(("gobi", "count", "rnd", "ride", "noveld", "icm")):
        times = tuple(1e6 + 1e5 * (place == 0) + 1e3 * seed for seed in range(4))
        make_run(tmp_path / "in" / reward, reward=reward, solved_at=times)
    _, out, _ = gobi_command("compare", "in", "--out", "out")
    # All but one are the same.
    assert "15 pairs of methods, all on the page; in 5 of them one is better by area" in out
    assert "a seed of" not in out


def test_the_results_that_are_kept_can_be_compared_as_the_documentation_says(gobi_command, monkeypatch):
    monkeypatch.setattr("gobi.cli.compare.png", lambda *_: b"")
    code, out, err = gobi_command("compare", str(RESULTS))
    assert (code, err) == (0, "")
    assert "ObstructedMaze-Full-v1" in out


def test_a_run_that_has_just_begun_does_not_stop_the_comparison_of_its_folder(gobi_command, tmp_path):
    make_run(tmp_path / "in" / "gobi")
    (tmp_path / "in" / "new").mkdir()
    (tmp_path / "in" / "new" / "metrics.csv").write_text("seed,frames,return\n")
    code, out, err = gobi_command("compare", "in", "--out", "out")
    assert (code, err) == (0, "")
    assert f"note: left out, it has no rows yet: {tmp_path / 'in' / 'new'}" in out


def test_compare_over_several_tasks_draws_each_and_all(gobi_command, tmp_path):
    for task in (N7, S3):
        make_run(tmp_path / "in" / task, task=task)
    assert gobi_command("compare", "in")[0] == 0
    pictures = {path.name for path in (tmp_path / "runs" / "comparison").glob("*.png")}
    assert pictures == {
        "curves-MultiRoom-N7-S8-v0.png", "curves-KeyCorridorS3R3-v0.png", "curves-all-tasks.png",
    }  # fmt: skip


def test_compare_counts_looks_as_frames_if_told_to(gobi_command, tmp_path):
    make_run(tmp_path / "in" / "a", card={"peeks": 24_000_000})
    make_run(tmp_path / "in" / "b", reward="noveld", card={"privileged": [], "peeks": 0})
    code, out, err = gobi_command("compare", "in", "--out", "out", "--peeks", "both", "--threshold", "0.3")
    assert (code, err) == (0, "")
    assert "note: Looks without a step (peeks) are counted: each step of 'gobi peeks=counted'" in out
    rows = list(csv.DictReader((tmp_path / "out" / "comparison.csv").read_text().splitlines()))
    times = {row["method"]: float(row["value"]) for row in rows if row["statistic"] == "frames_mean"}
    assert times["gobi peeks=counted"] == 4 * times["gobi"]
    assert times["noveld"] == times["gobi"]
    assert "--peeks" in gobi_command("compare", "in", "--peeks", "some")[2]


def test_compare_tells_how_far_a_run_is_and_over_which_frames_pairs_are(gobi_command, tmp_path):
    make_run(tmp_path / "in" / "gobi")
    cut(make_run(tmp_path / "in" / "count", reward="count"), 2e6)
    code, out, err = gobi_command("compare", "in", "--out", "out", "--threshold", "0.6")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line.startswith("MultiRoom-N7-S8-v0 ")]
    told = {line[1]: " ".join(line[4:]) for line in lines}
    assert told["gobi"].startswith("8.00M 0.600 (0.600 to 0.600) ")
    assert told["count"].startswith("2.00M (not finished: 2.00M of 8.00M) ")
    assert "MultiRoom-N7-S8-v0, over 2.00M frames" in out


def test_seeds_that_touch_the_threshold_and_end_below_it_are_told(gobi_command, tmp_path):
    fall(make_run(tmp_path / "in" / "gobi"), seeds=(1, 2, 3), to=0.5)
    make_run(tmp_path / "in" / "count", reward="count")
    code, out, _ = gobi_command("compare", "in", "--out", "out", "--threshold", "0.6")
    assert code == 0
    gobi, count = (
        next(line for line in out.splitlines() if f" {name} " in line) for name in ("gobi", "count")
    )
    assert "4 of 4 (0.510 to 1.000), at the end 1 of 4" in gobi
    assert "at the end" not in count
    rows = list(csv.DictReader((tmp_path / "out" / "comparison.csv").read_text().splitlines()))
    ends = {row["method"]: float(row["value"]) for row in rows if row["statistic"] == "solved_at_end"}
    assert ends == {"gobi": 0.25, "count": 1.0}
    assert '<th scope="col">there at the end</th>' in (tmp_path / "out" / "comparison.html").read_text()


def test_one_seed_of_one_run_is_no_error(gobi_command, tmp_path):
    make_run(tmp_path / "in", seeds=(3,))
    code, out, err = gobi_command("compare", "in", "--metric", "success")
    assert (code, err) == (0, "")
    assert "note: There is one method only, so there is nothing to compare" in out
    assert "so no interval is possible" in out


def test_a_second_comparison_gets_a_folder_of_its_own_and_is_the_same_byte_for_byte(gobi_command, tmp_path):
    make_run(tmp_path / "in")
    for _ in range(2):
        assert gobi_command("compare", "in", "--seed", "7")[0] == 0
    first, second = tmp_path / "runs" / "comparison", tmp_path / "runs" / "comparison-2"
    for name in FILES - {"curves-MultiRoom-N7-S8-v0.png"}:
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_without_matplotlib_the_page_is_written_all_the_same(gobi_command, tmp_path, monkeypatch):
    make_run(tmp_path / "in")
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    code, out, _ = gobi_command("compare", "in", "--out", "out")
    assert code == 0
    assert "no pictures beside the page: this needs the package 'matplotlib'" in out
    assert "<svg" in (tmp_path / "out" / "comparison.html").read_text()
    assert not list((tmp_path / "out").glob("*.png"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("nowhere",), "there is no nowhere"),
        (("in", "--metric", "retrun"), "did you mean return"),
        (("in", "--threshold", "nan"), "--threshold must be a number, got nan"),
        (("in", "--seed", "-1"), "--seed must be at least 0, got -1"),
        (("in", "--out", "in"), "the output folder in is already in use"),
        (("empty",), "no run in empty"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_leaves_nothing_behind(gobi_command, tmp_path, words, expected):
    make_run(tmp_path / "in")
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    refused(gobi_command("compare", *words), expected)
    assert sorted(tmp_path.rglob("*")) == before


def test_compare_needs_a_run(gobi_command):
    refused(gobi_command("compare"), "missing RUN", code=2)
