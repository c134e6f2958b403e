"""`gobi claims`, and `gobi reproduce --list` and `--from`, as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest
from compared_runs import N7, make_run
from made_runs import EMPTY, SMALL, add_snapshot, made_run
from study_runs import FAST, SLOW, make_arm

from gobi.reproduce import STUDIES
from gobi.reproduce.claims import CLAIMS
from gobi.reproduce.study import Study, crossed


def test_every_claim_is_listed_also_where_there_are_no_runs(gobi_command):
    code, out, _ = gobi_command("claims")
    assert code == 0
    assert all(f"\n{claim.name} " in out for claim in CLAIMS)
    assert "from 0 runs" in out


def test_kept_results_are_judged_and_the_page_is_written(gobi_command):
    for name, times in (("gobi", FAST), ("r2", SLOW)):
        make_arm(Path("results/any") / name, "ablation", name, task=N7, solved_at=times, plateau=0.65)
    code, out, _ = gobi_command("claims", "results", "--markdown", "docs/claims.md")
    assert code == 0
    assert "return 0.61 reached by gobi at 2.0 to 3.4M frames (4 seeds), r2 at 5.8 to 7.2M" in out
    page = Path("docs/claims.md").read_text()
    assert "`gobi claims results --markdown docs/claims.md` makes this page" in page
    assert "| gobi | 4 | 8.00M | 1c4f986 | " in page


def test_a_folder_that_is_not_there_is_an_error_of_one_line(gobi_command):
    code, _, err = gobi_command("claims", "nowhere")
    assert code == 1
    assert err == "gobi: error: there is no nowhere\n"


def test_a_folder_without_runs_is_said_to_have_none(gobi_command):
    Path("empty").mkdir()
    code, out, err = gobi_command("claims", "empty")
    assert code == 0, err
    assert "note: no run in empty: a run is a folder with a card.json and a metrics.csv" in out
    assert "from 0 runs" in out


@pytest.mark.parametrize("command", [["claims"], ["reproduce", "ablation", "--from"]])
def test_a_file_is_no_folder_of_runs(gobi_command, command):
    Path("file.txt").write_text("nothing")
    code, _, err = gobi_command(*command, "file.txt")
    assert code == 1
    assert err == "gobi: error: file.txt is a file: name the folder of a run, or one that has runs inside\n"
    assert not Path("reproduced").exists()


def test_no_figure_is_made_from_folders_without_runs(gobi_command):
    Path("empty").mkdir()
    code, _, err = gobi_command("reproduce", "ablation", "--from", "empty")
    assert code == 1
    assert err == "gobi: error: no run in empty: a run is a folder with a card.json and a metrics.csv\n"
    assert not Path("reproduced").exists()


def test_kept_runs_that_are_none_of_the_figures_do_not_begin_it(gobi_command):
    make_arm(Path("kept/a"), "decay", "rho-5e-7")
    code, out, err = gobi_command("reproduce", "ablation", "--from", "kept")
    assert code == 0, err
    assert "note: none of the 1 runs found is one of ablation" in out
    _, out, _ = gobi_command("reproduce", "--list")
    assert "not begun" in next(line for line in out.splitlines() if line.startswith("ablation"))


def test_a_study_made_from_kept_runs_is_not_begun_until_one_of_its_own_is(gobi_command):
    make_arm(Path("kept/a"), "ablation", "gobi", task=N7)
    assert gobi_command("reproduce", "ablation", "--from", "kept")[0] == 0
    _, out, _ = gobi_command("reproduce", "--list")
    assert "not begun" in next(line for line in out.splitlines() if line.startswith("ablation"))
    begun = make_arm(Path("reproduced/ablation/MultiRoom-N7-S8/r2"), "ablation", "r2", task=N7)
    (begun / "metrics.csv").unlink()
    _, out, _ = gobi_command("reproduce", "--list")
    assert "0 of 12 runs done" in next(line for line in out.splitlines() if line.startswith("ablation"))


@pytest.mark.parametrize("words", [["--seed", "3"], ["--together", "4"], ["--seeds", "2"], ["--plan"]])
def test_what_changes_training_does_not_go_with_kept_runs(gobi_command, words):
    make_arm(Path("kept/a"), "ablation", "gobi", task=N7)
    code, _, err = gobi_command("reproduce", "ablation", "--from", "kept", *words)
    assert code == 1
    assert err == "gobi: error: --from takes the runs that it finds: it goes with --out only\n"


def test_a_figure_is_made_from_kept_runs_without_training(gobi_command):
    for name, times in (("gobi", FAST), ("r2", SLOW)):
        make_arm(Path("kept") / name, "ablation", name, task=N7, solved_at=times, plateau=0.65)
    code, out, _ = gobi_command("reproduce", "ablation", "--from", "kept")
    assert code == 0
    assert "The paper (section 3.3, figure 7): R2" in out
    assert Path("reproduced/ablation/kept/figure.png").exists()
    assert not list(Path("reproduced").rglob("metrics.csv"))


def test_the_list_shows_how_each_figure_stands(gobi_command):
    for study, name in (("decay", "rho-5e-7"), ("decay", "rho-8e-7"), ("wallclock", "gobi")):
        make_arm(Path("mine") / study / name, study, name)
    make_arm(Path("mine/wallclock/noveld"), "wallclock", "noveld")
    make_arm(Path("mine/decay/rho-1e-6"), "decay", "rho-1e-6", card={"finished": None})
    make_arm(Path("mine/decay/trial"), "decay", "rho-1e-6", changes={"frames": 10_000})
    code, out, _ = gobi_command("reproduce", "--list", "--out", "mine")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert "not begun" in lines["ablation"]
    assert "2 of 3 runs done" in lines["decay"]
    assert "done  " in lines["wallclock"]
    assert "1 not held" in lines["wallclock"]
    for name in ("rho-5e-7", "rho-8e-7", "rho-1e-6"):
        make_arm(Path("few/decay") / name, "decay", name, seeds=(0,))
    _, out, _ = gobi_command("reproduce", "--list", "--out", "few")
    assert "3 of 3 runs, 1 of 4 seeds" in next(line for line in out.splitlines() if line.startswith("decay"))
    _, alone, _ = gobi_command("reproduce")
    assert "not begun" in next(line for line in alone.splitlines() if line.startswith("decay"))


def test_one_run_that_cannot_be_read_does_not_stop_the_others(gobi_command):
    make_arm(Path("reproduced/decay/good"), "decay", "rho-5e-7")
    (make_arm(Path("reproduced/decay/bad"), "decay", "rho-8e-7") / "card.json").write_text("")
    for words in (["claims"], ["reproduce", "--list"], ["reproduce", "decay", "--from", "reproduced"]):
        code, out, err = gobi_command(*words)
        assert code == 0, err
        assert "note: left out: bad has no card.json" in out


def test_a_short_study_ends_in_what_can_be_compared(gobi_command):
    """NovelD and RND end where GoBI's pre-training does."""
    for name, before in (("gobi", 100_000), ("noveld", 0), ("rnd", 0)):
        short = {"changes": {"frames": 100_000}, "pretraining": before}
        make_arm(Path("kept") / name, "minigrid", name, task=N7, **short)
    code, out, err = gobi_command("reproduce", "minigrid", "--from", "kept")
    assert code == 0, err
    assert "note: not in the table: gobi on MultiRoom-N7-S8 (no frames in common with noveld and rnd)" in out
    assert "differ in more" not in out
    table = Path("reproduced/minigrid/kept/table.csv").read_text()
    assert [line.split(",")[1] for line in table.splitlines()] == ["arm", "noveld", "rnd"]
    assert Path("reproduced/minigrid/kept/figure.png").exists()


def test_the_grid_of_a_search_is_made_from_kept_runs(gobi_command):
    for name, times in (("beta-0.5-threshold-0.5", FAST), ("beta-1-threshold-0.5", SLOW)):
        make_arm(Path("kept") / name, "ec-grid", name, seeds=(0, 1), solved_at=times)
    code, out, err = gobi_command("reproduce", "ec-grid", "--from", "kept")
    assert code == 0, err
    place = Path("reproduced/ec-grid/kept")
    assert {path.name for path in place.iterdir()} == {"grid.csv", "grid.png", "table.csv", "summary.md"}
    assert len((place / "grid.csv").read_text().splitlines()) == 3
    assert "![grid](grid.png)" in (place / "summary.md").read_text()
    assert "the best of each method" in out


def test_a_search_in_which_nothing_was_learned_has_no_best_cell(gobi_command):
    for name in ("beta-0.5-threshold-0.5", "beta-1-threshold-0.5"):
        make_arm(Path("kept") / name, "ec-grid", name, seeds=(0, 1), solved_at=(float("inf"),) * 2)
    code, out, err = gobi_command("reproduce", "ec-grid", "--from", "kept")
    assert code == 0, err
    assert "no best of ec on MultiRoom-N7-S8: no cell learned anything (2 cells at 0)" in out
    assert "the best of each method" not in out


def test_a_short_search_ends_in_the_cells_that_can_be_compared(gobi_command, monkeypatch):
    arms = {"gobi-x1-rho-0": 100_000, "rnd-x1-rho-0": 0, "count-x1-rho-0": 0}

    def train(*_):
        for name, before in arms.items():
            folder = Path("reproduced/tuned/MultiRoom-N7-S8") / name
            short = {"changes": {"frames": 100_000}, "pretraining": before, "seeds": (0, 1)}
            make_arm(folder, "tuned", name, compact=True, **short)
        return []

    monkeypatch.setattr("gobi.cli.packs.train", train)
    code, out, err = gobi_command("reproduce", "tuned", "--arms", *arms, "--frames", "1e5")
    assert code == 0, err
    lines = Path("reproduced/tuned/grid.csv").read_text().splitlines()
    assert [line.rpartition(",")[2] for line in lines] == ["run", "rnd-x1-rho-0", "count-x1-rho-0"]
    assert (
        "gobi-x1-rho-0 on MultiRoom-N7-S8 (no frames in common with rnd-x1-rho-0 and count-x1-rho-0)" in out
    )
    assert Path("reproduced/tuned/summary.md").exists()


def test_maps_of_kept_runs_need_their_snapshots(gobi_command):
    """The curves that are kept in results have none."""
    make_arm(Path("kept/a"), "heatmaps", "gobi", task=N7)
    code, out, err = gobi_command("reproduce", "heatmaps", "--from", "kept")
    assert code == 0, err
    assert "note: no map of MultiRoom-N7-S8/gobi: its snapshots are not kept\n" in out
    assert Path("reproduced/heatmaps/kept/table.csv").exists()


def test_runs_of_another_study_without_maps_are_seen_and_said_to_have_none(gobi_command):
    """They have other snapshots than the study of maps asks for, which makes no other method of them."""
    for name in ("gobi", "ec"):
        make_arm(Path("kept") / name, "minigrid", name, task=N7)
    code, out, err = gobi_command("reproduce", "heatmaps", "--from", "kept")
    assert code == 0, err
    assert "there are runs of gobi and ec on MultiRoom-N7-S8, but no maps of them are kept" in out
    table = Path("reproduced/heatmaps/kept/table.csv").read_text()
    assert [line.split(",")[1] for line in table.splitlines()] == ["arm", "gobi", "ec"]


def test_maps_are_drawn_from_kept_runs_that_have_snapshots(gobi_command, monkeypatch):
    made = {"frames": 200, "snapshots": 1, "network": "compact", "world": "real", "bank": 8}
    study = Study("where", "", crossed((EMPTY,), {"gobi": made}), seeds=1, maps={"Empty-5x5/gobi": (200,)})
    monkeypatch.setitem(STUDIES, "tiny", study)
    settings = {**SMALL, "count_room": 256, "snapshots": 0}
    made_run(Path("kept/one"), frames=200)
    make_run(Path("kept/one"), task=EMPTY, frames=200, seeds=(0,), settings=settings)
    add_snapshot(Path("kept/one"), 200)
    code, _, err = gobi_command("reproduce", "tiny", "--from", "kept")
    assert code == 0, err
    assert Path("reproduced/tiny/kept/maps-Empty-5x5-v0.png").exists()
    assert not list(Path("kept").rglob("heatmap.*"))
    assert "(maps-Empty-5x5-v0.png)" in Path("reproduced/tiny/kept/summary.md").read_text()


def test_looks_are_counted_in_kept_runs_too(gobi_command):
    make_arm(Path("kept/a"), "fair", "panorama", task=N7, card={"peeks": 24_000_000})
    code, out, err = gobi_command("reproduce", "fair", "--from", "kept")
    assert code == 0, err
    assert "panorama peeks=counted" in out
