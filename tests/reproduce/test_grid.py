"""Searches over two settings: the same for all methods, every cell kept, the best one found."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from compared_runs import N7, make_run

from gobi.errors import GobiError
from gobi.reproduce import STUDIES, grid, searches
from gobi.reproduce.study import Arm
from gobi.rewards import registry
from gobi.training import pack, recipes
from gobi.training.folder import Folder, Plan
from gobi.training.sweep import same_program

AXES = ("beta", "threshold")
FRAMES = 8e6
SOLVED_AT = {"beta-0.5-threshold-0.75": (1e6, 2e6), "beta-1-threshold-0.25": (1.5e6, float("inf"))}
"""By arm, for each of two seeds; all other cells never solve the task."""


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> list[tuple[Arm, Path]]:
    place = tmp_path_factory.mktemp("search")
    never = (float("inf"), float("inf"))
    return [
        (
            arm,
            make_run(
                place / arm.name,
                reward="ec",
                seeds=(0, 1),
                solved_at=SOLVED_AT.get(arm.name, never),
                frames=FRAMES,
                settings={"reward_options": arm.changes["reward_options"]},
                card={"best_return": 0.6},
            ),
        )
        for arm in searches.curiosity(N7)
    ]


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
            own = recipes.recipe(N7, reward=arm.reward)
            assert arm.changes["coefficient"] == own.coefficient
    assert any(arm.changes["decay"] == recipes.recipe(N7).decay for arm in STUDIES["tuned"].arms)


@pytest.mark.parametrize("study", ["tuned", "ec-grid"])
def test_all_cells_of_a_method_are_trained_by_one_program(study):
    arms = STUDIES[study].arms
    programs = {(arm.reward, same_program(recipes.recipe(arm.task, **arm.changes))) for arm in arms}
    assert len(programs) == len({arm.reward for arm in arms})


@pytest.mark.parametrize(("study", "methods"), [("tuned", 6), ("ec-grid", 1)])
def test_a_method_is_one_pack(study, methods, tmp_path):
    seeds = tuple(range(STUDIES[study].seeds))
    runs = [
        (Folder(tmp_path / arm.folder), Plan(recipes.recipe(arm.task, **arm.changes), seeds))
        for arm in STUDIES[study].arms
    ]
    assert len(pack.packs(runs)) == methods


def test_the_best_cell_has_the_largest_mean_return(searched):
    (best,) = grid.best(grid.scores(searched))
    assert best.arm.name == "beta-0.5-threshold-0.75"
    assert best.solved == 1.0
    assert best.reached == "1.40M"


def test_an_unsolved_seed_makes_the_frames_a_bound(searched):
    half = next(one for one in grid.scores(searched) if one.arm.name == "beta-1-threshold-0.25")
    assert half.solved == 0.5
    assert half.reached.startswith("> ")
    assert half.frames is not None
    assert half.frames > FRAMES / 2


def test_cells_that_never_solve_say_so(searched):
    rest = [one for one in grid.scores(searched) if one.arm.name not in SOLVED_AT]
    assert {one.reached for one in rest} == {"never"}
    assert {one.mean for one in rest} == {0.0}


def test_the_whole_grid_is_kept_as_csv(searched):
    found = grid.scores(searched)
    rows = list(csv.DictReader(io.StringIO(grid.to_csv(found, AXES))))
    cells = {(row["beta"], row["threshold"]) for row in rows}
    assert cells == {(beta, threshold) for beta in searches.BETAS for threshold in searches.THRESHOLDS}
    assert [row["run"] for row in rows if row["best"] == "1"] == ["beta-0.5-threshold-0.75"]
    by_name = {row["run"]: row for row in rows}
    for one in found:
        assert float(by_name[one.arm.name]["area"]) == pytest.approx(float(np.mean(one.area)), abs=1e-5)
        assert int(by_name[one.arm.name]["seeds"]) == 2


def test_a_picture_that_cannot_be_written_is_an_error_of_one_line(searched, tmp_path):
    with pytest.raises(GobiError, match=r"could not write .*nowhere.grid\.png"):
        grid.draw(tmp_path / "nowhere" / "grid.png", grid.scores(searched), AXES)


def test_the_grid_is_drawn(searched, tmp_path):
    grid.draw(tmp_path / "grid.png", grid.scores(searched), AXES)
    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")
