"""Searches over two settings: the same for all methods, every cell kept, the best one found."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from compared_runs import N7
from study_runs import make_arm

from gobi.errors import GobiError
from gobi.reproduce import STUDIES, grid, searches
from gobi.reproduce.evidence import Evidence, gather
from gobi.rewards import registry
from gobi.training import pack, recipes
from gobi.training.folder import Folder, Plan
from gobi.training.sweep import same_program

AXES = ("beta", "threshold")
FRAMES = 8e6
SOLVED_AT = {"beta-0.5-threshold-0.75": (1e6, 2e6), "beta-1-threshold-0.25": (1.5e6, float("inf"))}
"""By arm, for each of two seeds; all other cells never solve the task."""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[grid.Score]:
    place, never = tmp_path_factory.mktemp("search"), (float("inf"), float("inf"))
    for arm in searches.curiosity(N7):
        solved_at = SOLVED_AT.get(arm.name, never)
        options = {"seeds": (0, 1), "solved_at": solved_at, "card": {"best_return": 0.6}}
        make_arm(place / arm.name, "ec-grid", arm.name, **options)
    return scored(place)


def scored(place: Path) -> list[grid.Score]:
    one, _ = Evidence(gather([place])).whole("ec-grid", N7)
    return grid.scores(STUDIES["ec-grid"], [one] if one else [])


def test_every_method_gets_the_same_multiples_and_decays():
    arms = STUDIES["tuned"].arms
    each = Counter(arm.reward for arm in arms)
    assert set(each.values()) == {len(searches.MULTIPLES) * len(searches.DECAYS)}
    for arm in arms:
        own = registry.coefficient(arm.reward, N7)
        assert arm.cell is not None
        assert arm.changes["coefficient"] == pytest.approx(float(arm.cell.row) * own)
        assert arm.changes["decay"] == float(arm.cell.column)


def test_the_centre_of_the_grid_is_what_each_method_is_trained_with_otherwise():
    for arm in STUDIES["tuned"].arms:
        if arm.cell and arm.cell.row == "1":
            own = recipes.recipe(N7, reward=arm.reward, learner="impala")
            assert arm.changes["coefficient"] == own.coefficient
    own = recipes.recipe(N7, learner="impala").decay
    assert any(arm.changes["decay"] == own for arm in STUDIES["tuned"].arms)


@pytest.mark.parametrize("study", ["tuned", "ec-grid"])
def test_all_cells_of_a_method_are_trained_by_one_program(study):
    arms = STUDIES[study].arms
    programs = {(arm.reward, same_program(recipes.recipe(arm.task, **arm.settings))) for arm in arms}
    assert len(programs) == len({arm.reward for arm in arms})


@pytest.mark.parametrize(("study", "methods"), [("tuned", 6), ("ec-grid", 1)])
def test_a_method_is_one_pack(study, methods, tmp_path):
    seeds = tuple(range(STUDIES[study].seeds))
    runs = [
        (Folder(tmp_path / arm.folder), Plan(recipes.recipe(arm.task, **arm.settings), seeds))
        for arm in STUDIES[study].arms
    ]
    assert len(pack.packs(runs)) == methods


def test_the_best_cell_has_the_largest_mean_return(found):
    (best,) = grid.best(found)
    assert best.arm.name == "beta-0.5-threshold-0.75"
    assert best.solved == 1.0
    assert best.reached == "1.40M"


@pytest.mark.parametrize(
    ("solved_at", "told"),
    [
        (float("inf"), "ec on MultiRoom-N7-S8: no cell learned anything (3 cells at 0)"),
        (1e6, "ec on MultiRoom-N7-S8: the cells cannot be told apart (3 cells at "),
    ],
)
def test_where_all_cells_are_alike_none_is_the_best(tmp_path, solved_at, told):
    for arm in searches.curiosity(N7)[:3]:
        make_arm(tmp_path / arm.name, "ec-grid", arm.name, seeds=(0, 1), solved_at=(solved_at,) * 2)
    cells = scored(tmp_path)
    assert grid.best(cells) == []
    (why,) = grid.alike(cells)
    assert why.startswith(told)
    assert {row["best"] for row in csv.DictReader(io.StringIO(grid.to_csv(cells, AXES)))} == {"0"}
    grid.draw(tmp_path / "grid.png", cells, AXES)


def test_a_method_that_learned_something_has_a_best_cell_also_beside_one_that_did_not(tmp_path):
    never, times = (float("inf"),) * 2, {"count-x1-rho-0": (1e6, 1e6), "count-x2-rho-0": (2e6, 2e6)}
    for name in ("rnd-x1-rho-0", "rnd-x2-rho-0", *times):
        make_arm(tmp_path / name, "tuned", name, seeds=(0, 1), solved_at=times.get(name, never))
    one, _ = Evidence(gather([tmp_path])).whole("tuned", N7)
    cells = grid.scores(STUDIES["tuned"], [one] if one else [])
    assert [best.arm.name for best in grid.best(cells)] == ["count-x1-rho-0"]
    assert grid.alike(cells) == ["rnd on MultiRoom-N7-S8: no cell learned anything (2 cells at 0)"]


def test_an_unsolved_seed_makes_the_frames_a_bound(found):
    half = next(one for one in found if one.arm.name == "beta-1-threshold-0.25")
    assert half.solved == 0.5
    assert half.reached.startswith("> ")
    assert half.frames is not None
    assert half.frames > FRAMES / 2


def test_cells_that_never_solve_say_so(found):
    rest = [one for one in found if one.arm.name not in SOLVED_AT]
    assert {one.reached for one in rest} == {"never"}
    assert {one.mean for one in rest} == {0.0}


def test_the_whole_grid_is_kept_as_csv(found):
    rows = list(csv.DictReader(io.StringIO(grid.to_csv(found, AXES))))
    cells = {(row["beta"], row["threshold"]) for row in rows}
    assert cells == {(beta, threshold) for beta in searches.BETAS for threshold in searches.THRESHOLDS}
    assert [row["run"] for row in rows if row["best"] == "1"] == ["beta-0.5-threshold-0.75"]
    by_name = {row["run"]: row for row in rows}
    for one in found:
        assert float(by_name[one.arm.name]["area"]) == pytest.approx(float(np.mean(one.area)), abs=1e-5)
        assert int(by_name[one.arm.name]["seeds"]) == 2


def test_seeds_of_a_cell_may_lie_in_several_runs(tmp_path):
    for seed in (0, 1):
        make_arm(tmp_path / str(seed), "ec-grid", "beta-0.5-threshold-0.5", seeds=(seed,))
    (one,) = scored(tmp_path)
    assert len(one.area) == 2
    assert grid.to_csv([one], AXES).splitlines()[1].endswith(",0 1")


def test_a_picture_that_cannot_be_written_is_an_error_of_one_line(found, tmp_path):
    with pytest.raises(GobiError, match=r"could not write .*nowhere.grid\.png"):
        grid.draw(tmp_path / "nowhere" / "grid.png", found, AXES)


def test_the_grid_is_drawn(found, tmp_path):
    grid.draw(tmp_path / "grid.png", found, AXES)
    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")
