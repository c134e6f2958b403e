"""How a study ends: its table, its figures, its sentences."""

from __future__ import annotations

import csv
import errno
import json

import pytest
from compared_runs import N7, S3, cut
from matplotlib.figure import Figure
from study_runs import FAST, SLOW, make_arm

from gobi.errors import GobiError
from gobi.reproduce import STUDIES, ending, figures, tables
from gobi.reproduce.evidence import Evidence, gather

FULL = "MiniGrid-ObstructedMaze-Full-v0"
PNG = b"\x89PNG"


def written(study, place):
    found, compared = ending.conclude(study, Evidence(gather([place])))
    files, complaint = ending.write(study, found, compared, place / "out")
    assert not complaint
    with (place / "out" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    return found, {file.name for file in files}, rows


@pytest.fixture
def ablated(tmp_path):
    for name, times in (("gobi", FAST), ("r2", SLOW)):
        make_arm(tmp_path / name, "ablation", name, task=N7, solved_at=times, plateau=0.65)
    return tmp_path


def test_the_table_has_a_line_for_each_arm_with_its_first_and_last_seed(ablated):
    _, _, rows = written("ablation", ablated)
    assert [row["arm"] for row in rows] == ["gobi", "r2"]
    assert [row["frames to it"] for row in rows] == ["2.0 to 3.4M", "5.8 to 7.2M"]
    assert {row["solved"] for row in rows} == {"4 of 4"}
    assert rows[0]["return at the end"] == "0.650 (0.650 to 0.650)"
    assert float(rows[0]["area"].split()[0]) > float(rows[1]["area"].split()[0])


def test_an_arm_that_is_not_finished_is_marked_and_cuts_none_of_the_others_short(ablated):
    _, _, before = written("ablation", ablated)
    cut(make_arm(ablated / "r3", "ablation", "r3", task=N7, solved_at=FAST, plateau=0.65), 2e6)
    _, _, rows = written("ablation", ablated)
    assert [row["frames"] for row in rows] == ["8.00M", "8.00M", "2.00M (not finished: 2.00M of 8.00M)"]
    assert [row["solved"] for row in rows] == ["4 of 4", "4 of 4", "1 of 4"]
    for row, alone in zip(rows, before, strict=False):
        assert {row[name] == alone[name] for name in ("frames to it", "return at the end")} == {True}
    # Only areas are set beside each other: over what all have, and it is said.
    assert {row["area over"] for row in rows} == {"2.00M"}
    assert rows[0]["area"] == rows[2]["area"] != before[0]["area"]


def test_a_seed_that_is_not_finished_hides_nothing_that_the_others_solved(ablated):
    cut(make_arm(ablated / "more", "ablation", "r2", task=N7, seeds=(4,), solved_at=SLOW[:1]), 2e6)
    _, _, rows = written("ablation", ablated)
    assert rows[1]["frames"] == "2.00M (not finished: 2.00M of 8.00M)"
    assert (rows[1]["solved"], rows[1]["frames to it"]) == ("4 of 5", "5.8 to 7.2M")


def drawn(monkeypatch, place, study):
    """The axes of a study's learning curves."""
    kept = []
    monkeypatch.setattr(figures, "png", lambda figure: kept.append(figure) or PNG)
    written(study, place)
    return kept[0]


def test_each_curve_goes_to_its_own_end_with_a_cross_where_it_was_stopped(ablated, monkeypatch):
    cut(ablated / "r2", 2e6)
    figure = drawn(monkeypatch, ablated, "ablation")
    (axis,) = figure.axes
    assert axis.get_xlim() == (0, 8)
    assert {float(line.get_xdata()[-1]) for line in axis.lines if len(line.get_xdata()) > 2} == {8.0, 2.0}
    (cross,) = [line for line in axis.lines if line.get_marker() == "x"]
    assert cross.get_xdata().tolist() == [2.0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["gobi", "r2", "not finished"]


def test_the_title_of_a_panel_stays_inside_the_picture(tmp_path, monkeypatch):
    for task in (N7, S3, FULL):
        make_arm(tmp_path / task, "minigrid", "gobi", task=task, changes={"precision": "bfloat16"})
    figure = drawn(monkeypatch, tmp_path, "minigrid")
    figure.canvas.draw()
    for axis in figure.axes:
        box = axis.title.get_window_extent()
        assert box.x0 > 0
        assert box.x1 < figure.bbox.x1
        assert box.width < 1.1 * axis.get_window_extent().width


def test_a_figure_a_summary_and_a_sentence_are_written(ablated):
    found, files, _ = written("ablation", ablated)
    assert files == {"table.csv", "figure.png", "summary.md"}
    assert (ablated / "out" / "figure.png").read_bytes().startswith(PNG)
    summary = (ablated / "out" / "summary.md").read_text()
    assert "![figure](figure.png)" in summary
    assert "| MultiRoom-N7-S8 | r2 | 4 |" in summary
    (sentence,) = [text for text in found.sentences if "R2" in text]
    assert "Open: return 0.61 reached by gobi at 2.0 to 3.4M" in sentence
    assert sentence.startswith("The paper (section 3.3, figure 7): R2, which pays for growing")


def test_runs_that_differ_in_more_are_named_and_not_in_the_table(ablated):
    make_arm(ablated / "short", "ablation", "r1", task=N7, changes={"frames": 4_000_000})
    make_arm(ablated / "going", "ablation", "r3", task=N7, card={"finished": None})
    found, _, rows = written("ablation", ablated)
    assert [row["arm"] for row in rows] == ["gobi", "r2", "r3"]
    assert any("short (4.00M frames)" in note for note in found.notes)
    assert "not finished: going" in found.notes


def test_accuracy_ends_in_exact_shares_and_a_scatter(tmp_path):
    for name, share in (("1e3", 0.4), ("1e5", 0.98)):
        folder = make_arm(tmp_path / name, "accuracy", name, solved_at=FAST, plateau=0.65)
        (folder / "world_report.json").write_text(json.dumps({"actions": [], "total": {"exact": share}}))
    _, files, rows = written("accuracy", tmp_path)
    assert [row["exact before"] for row in rows] == ["40.0%", "98.0%"]
    assert "accuracy.png" in files
    assert (tmp_path / "out" / "accuracy.png").read_bytes().startswith(PNG)


def test_wallclock_ends_in_the_ratio_beside_the_papers(tmp_path):
    for name, seconds in (("noveld", 0.0), ("gobi", 12.5)):
        make_arm(tmp_path / name, "wallclock", name, seeds=(0,), card={"pretraining_seconds": seconds})
    found, files, rows = written("wallclock", tmp_path)
    assert [row["against noveld"] for row in rows] == ["1", "1.00 (paper 1.95)"]
    assert [row["pre-training"] for row in rows] == ["0", "12"]
    assert "wallclock.png" in files
    assert "Did not hold here: gobi takes 1.00 times as long as noveld" in found.sentences[0]


def test_a_study_without_a_claim_says_so(tmp_path):
    make_arm(tmp_path / "a", "fair", "view", task=N7, card={"privileged": []})
    found, _, rows = written("fair", tmp_path)
    assert len(rows) == 1
    assert found.sentences == [ending.NO_CLAIM]


def test_looks_are_free_and_counted_where_the_study_asks_for_both(tmp_path):
    make_arm(tmp_path / "a", "fair", "panorama", task=N7, card={"peeks": 24_000_000}, pretraining=100_000)
    make_arm(tmp_path / "b", "fair", "view", task=N7, card={"privileged": [], "peeks": 0})
    found, _, rows = written("fair", tmp_path)
    assert [(row["arm"], row["frames"]) for row in rows] == [
        ("panorama", "8.10M"), ("panorama peeks=counted", "32.40M"), ("view", "8.00M"),
    ]  # fmt: skip
    assert found.notes == []


def test_looks_that_no_card_tells_are_not_counted_and_it_is_said(tmp_path):
    make_arm(tmp_path / "a", "fair", "panorama", task=N7)
    found, _, rows = written("fair", tmp_path)
    assert [row["arm"] for row in rows] == ["panorama"]
    assert "not in the table: panorama peeks=counted on MultiRoom-N7-S8" in found.notes[0]
    assert "its card does not tell how often" in found.notes[0]


def test_a_searchs_figure_is_its_grid(tmp_path):
    make_arm(tmp_path / "a", "ec-grid", "beta-0.5-threshold-0.5")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "grid.png").write_bytes(PNG)
    _, files, rows = written("ec-grid", tmp_path)
    assert files == {"table.csv", "summary.md"}
    assert len(rows) == 1
    assert "![grid](grid.png)" in (tmp_path / "out" / "summary.md").read_text()


def test_a_study_without_runs_has_no_table(tmp_path):
    found, files, _ = written("decay", tmp_path)
    assert files == {"table.csv", "summary.md"}
    assert "No runs yet." in (tmp_path / "out" / "summary.md").read_text()
    assert all("Not run" in text for text in found.sentences)


def test_maps_that_cannot_be_written_are_an_error_of_one_line_and_the_old_ones_stay(tmp_path, monkeypatch):
    figure = Figure()
    # Playing takes trained agents, and is tested with the heatmaps.
    monkeypatch.setattr(ending.heatmap, "stages", lambda *_, **__: ["agent"])
    monkeypatch.setattr(ending.heatmap, "maps", lambda *_: [])
    monkeypatch.setattr(ending.heatmap, "save", lambda *_: None)
    monkeypatch.setattr(ending.heatmap, "draw", lambda *_: figure)
    runs = {folder: tmp_path / folder for folder in STUDIES["heatmaps"].maps}
    first, *_ = ending.draw_maps(STUDIES["heatmaps"], runs, tmp_path, lambda _: None)
    assert first.name == "maps-KeyCorridorS5R3-v0.png"
    drawn = first.read_bytes()
    assert drawn.startswith(PNG)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr("gobi.training.files.write_synced", full)
    with pytest.raises(GobiError, match=r"could not write .*maps-KeyCorridorS5R3-v0\.png: the disk is full"):
        ending.draw_maps(STUDIES["heatmaps"], runs, tmp_path, lambda _: None)
    assert first.read_bytes() == drawn


def test_cells_of_a_table_may_hold_anything():
    assert (
        tables.to_markdown(["a", "b"], [["x|y", "1"]], left=1) == "| a | b |\n| --- | --: |\n| x\\|y | 1 |\n"
    )
