"""`gobi claims`, and `gobi reproduce --list` and `--from`, as a user meets them."""

from __future__ import annotations

from pathlib import Path

from compared_runs import N7
from study_runs import FAST, SLOW, make_arm

from gobi.reproduce.claims import CLAIMS


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
    assert "| gobi | 4 | 8.00M | - | " in page


def test_a_folder_that_is_not_there_is_an_error_of_one_line(gobi_command):
    code, _, err = gobi_command("claims", "nowhere")
    assert code == 1
    assert err == "gobi: error: there is no nowhere\n"


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
