"""Learning curves: which runs are found, what is drawn of them, and what `gobi plot` says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gobi.analysis import curves
from gobi.cli.arguments import UsageError, bind
from gobi.cli.plot import plot as plot_command
from gobi.errors import GobiError
from gobi.training.metrics import MetricsFile

CARD = {"task": "MiniGrid-MultiRoom-N7-S8-v0", "best_return": 0.68, "pretraining_frames": 500_000}


def make_run(folder: Path, seeds: int = 2, steps: int = 4, card: dict | None = None) -> Path:
    """A run whose seed s has the return s + step / 10, unknown at the first step."""
    file = MetricsFile(folder / "metrics.csv")
    for step in range(1, steps + 1):
        returns = np.arange(seeds) + step / 10 if step > 1 else np.full(seeds, np.nan)
        file.append({"seed": np.arange(seeds), "frames": step * 1_000_000, "return": returns, "success": 0.5})
    file.close()
    if card is not None:
        (folder / "card.json").write_text(json.dumps(card))
    return folder


def draw(paths: list[Path], *, panels=("return",), band="range", count_pretraining=False, title=""):
    return curves.draw(curves.find(paths), panels, band, count_pretraining, title)


def thick(axis) -> list:
    return [line for line in axis.get_lines() if line.get_linewidth() > 1.5]


# Which runs


def test_runs_are_found_in_folders_files_and_folders_of_folders_each_once(tmp_path):
    first, second = make_run(tmp_path / "task" / "gobi"), make_run(tmp_path / "task" / "rnd")
    runs = curves.find([first, tmp_path, second / "metrics.csv"])
    assert [run.name for run in runs] == ["gobi", "rnd"]
    assert runs[0].seeds == [0, 1]


def test_runs_of_the_same_name_are_told_apart_by_their_folders(tmp_path):
    paths = [make_run(tmp_path / task / "gobi") for task in ("a", "b")]
    assert [run.name for run in curves.find(paths)] == ["a/gobi", "b/gobi"]


def test_where_there_is_nothing_to_draw_an_error_says_so(tmp_path):
    with pytest.raises(GobiError, match=r"there is no .*nowhere"):
        curves.find([tmp_path / "nowhere"])
    with pytest.raises(GobiError, match=r"no run in .*metrics\.csv"):
        curves.find([tmp_path])
    MetricsFile(tmp_path / "metrics.csv").close()
    with pytest.raises(GobiError, match="has no rows yet"):
        curves.find([tmp_path])


@pytest.mark.parametrize("content", [None, "{", "[]", "{}"])
def test_a_run_without_a_readable_card_is_drawn_all_the_same(tmp_path, content):
    make_run(tmp_path)
    if content:
        (tmp_path / "card.json").write_text(content)
    (axis,) = draw([tmp_path], count_pretraining=True).axes
    assert thick(axis)[0].get_xdata().tolist() == [2.0, 3.0, 4.0]


# What is drawn


def test_the_mean_is_over_the_seeds_in_million_frames_and_starts_with_the_first_known_value(tmp_path):
    (axis,) = draw([make_run(tmp_path)]).axes
    (mean,) = thick(axis)
    assert mean.get_xdata().tolist() == [2.0, 3.0, 4.0]
    assert mean.get_ydata() == pytest.approx([0.7, 0.8, 0.9])
    assert len(axis.get_lines()) == 3


def test_pretraining_frames_come_before_the_first_if_wanted(tmp_path):
    (axis,) = draw([make_run(tmp_path, card=CARD)], count_pretraining=True).axes
    assert thick(axis)[0].get_xdata().tolist() == [2.5, 3.5, 4.5]
    assert "pre-training included" in axis.get_xlabel()


def test_the_best_known_return_is_a_dashed_line_in_the_panel_of_the_return_alone(tmp_path):
    figure = draw([make_run(tmp_path, card=CARD)], panels=("return", "success"))
    dashed = [[line for line in axis.get_lines() if line.is_dashed()] for axis in figure.axes]
    assert [list(line.get_ydata()) for line in dashed[0]] == [[0.68, 0.68]]
    assert dashed[1] == []
    assert figure.axes[0].texts[0].get_text() == "best known 0.68"


def test_the_band_reaches_from_the_least_to_the_greatest_seed(tmp_path):
    (axis,) = draw([make_run(tmp_path, seeds=3)]).axes
    edges = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == pytest.approx((0.2, 2.4))
    (axis,) = draw([tmp_path], band="none").axes
    assert len(axis.collections) == 0


def test_the_interval_covers_the_mean_of_seeds_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(5.0, 2.0, (40, 2000))
    low, high = curves.interval(draws)
    assert 0.92 < np.mean((low < 5.0) & (high > 5.0)) < 0.96
    low, high = curves.interval(np.array([[1.0, np.nan, np.nan], [3.0, 2.0, np.nan]]))
    assert (low[1], high[1]) == (2.0, 2.0)
    assert np.isnan([low[2], high[2]]).all()
    assert low[0] == 1.0 < high[0] == 3.0


def test_seeds_logged_at_different_frames_are_interpolated_but_never_beyond_what_they_reached():
    columns = {"seed": [0, 0, 1, 1], "frames": [0, 4, 2, 6], "return": [0.0, 4.0, 10.0, 30.0]}
    run = curves.Run("x", {name: np.array(column) for name, column in columns.items()}, {})
    frames, values = curves.curve(run, "return")
    assert frames.tolist() == [0, 2, 4, 6]
    np.testing.assert_array_equal(values, [[0, 2, 4, np.nan], [np.nan, 10, 20, 30]])


def test_several_runs_have_a_legend_and_one_run_a_title(tmp_path):
    one, two = make_run(tmp_path / "one", seeds=1, card=CARD), make_run(tmp_path / "two", card=CARD)
    both = draw([one, two])
    assert [text.get_text() for text in both.legends[0].get_texts()] == ["one (1 seed)", "two (2 seeds)"]
    assert both.get_suptitle() == "MultiRoom-N7-S8-v0"
    alone = draw([one])
    assert not alone.legends
    assert alone.get_suptitle() == "MultiRoom-N7-S8-v0: one (1 seed)"
    assert draw([one], title="mine").get_suptitle() == "mine"
    # Two dollars: matplotlib would read what is between them as mathematics, and fail when it is saved.
    draw([one], title=r"$\bad{$").savefig(tmp_path / "dollars.png")


def test_a_metric_without_any_value_is_an_empty_panel(tmp_path):
    figure = draw([make_run(tmp_path)], panels=("bonus",), band="interval")
    assert figure.axes[0].get_ylabel() == "bonus per step"


# The command


def command(*words: str | Path) -> None:
    bind(plot_command, [str(word) for word in words], program="gobi plot")()


def test_the_command_writes_a_picture_and_says_what_is_on_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command(make_run(tmp_path / "a", card=CARD), make_run(tmp_path / "b"), "--panels", "return", "bonus")
    with Image.open("curves.png") as picture:
        assert picture.width > 1000
    out = capsys.readouterr().out
    assert "a (2 seeds): 4,000,000 frames" in out
    assert "wrote curves.png" in out


def test_no_display_is_needed_even_if_matplotlib_is_told_to_use_one(tmp_path):
    words = [str(make_run(tmp_path / "a")), "--out", str(tmp_path / "x.png")]
    program = f"""
import sys
from gobi.cli.arguments import bind
from gobi.cli.plot import plot
bind(plot, {words!r}, program="gobi plot")()
assert "matplotlib.pyplot" not in sys.modules
"""
    surroundings = {**os.environ, "MPLBACKEND": "TkAgg"}
    surroundings.pop("DISPLAY", None)
    subprocess.run([sys.executable, "-c", program], check=True, env=surroundings, capture_output=True)
    assert (tmp_path / "x.png").exists()


def test_a_picture_is_replaced_only_if_told_to(tmp_path):
    out = tmp_path / "new" / "x.svg"
    command(make_run(tmp_path / "a"), "--out", out)
    before = out.stat().st_mtime_ns
    with pytest.raises(GobiError, match="is there already: give another name, or --overwrite"):
        command(tmp_path / "a", "--out", out)
    assert out.stat().st_mtime_ns == before
    command(tmp_path / "a", "--out", out, "--overwrite")
    assert out.stat().st_mtime_ns > before


def test_short_axes_are_in_thousands_and_control_runs_show_their_return_while_training(tmp_path):
    file = MetricsFile(tmp_path / "metrics.csv", ("seed", "frames", "return", "success", "training_return"))
    for frames in (1000, 2000):
        file.append({"seed": np.arange(1), "frames": frames, "return": 5.0, "training_return": 4.0})
    file.close()
    (tmp_path / "card.json").write_text(json.dumps({"task": "dmc/hopper_hop"}))
    runs = curves.find([tmp_path])
    figure = curves.draw(runs, curves.usual_panels(runs), "none", False, "")
    assert [axis.get_ylabel() for axis in figure.axes] == ["return", "return while training"]
    assert {axis.get_xlabel() for axis in figure.axes} == {"thousand frames"}
    assert figure.axes[0].lines[0].get_xdata().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "x.bmp"), r"must end in one of \.png"),
        (("--panels", "retrun"), "unknown metric 'retrun'; did you mean return"),
        (("--panels",), "needs at least one panel"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GobiError, match=message):
        command(make_run(tmp_path / "a"), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_no_run_at_all_is_wrong_usage():
    with pytest.raises(UsageError, match="missing RUN"):
        command()


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(GobiError, match=r"gobi\[plot\]"):
        command(make_run(tmp_path / "a"))


def test_in_a_folder_of_runs_those_without_rows_are_left_out(tmp_path):
    make_run(tmp_path / "gobi")
    for place in ("new", "newer"):
        MetricsFile(tmp_path / place / "metrics.csv").close()
    assert [run.name for run in curves.find([tmp_path])] == ["gobi"]
    assert [file.parent.name for file in curves.just_begun([tmp_path])] == ["new", "newer"]
    with pytest.raises(GobiError, match="has no rows yet"):
        curves.find([tmp_path / "gobi", tmp_path / "new"])
