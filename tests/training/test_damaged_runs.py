"""Files of a run that were altered by hand: refused in one line that names the file and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import made_run

from gobi.errors import GobiError
from gobi.training import card, run, trained
from gobi.training.recipe import MOST_STEPS, from_json

DEEP = "[" * 100_000


@pytest.fixture
def folder(tmp_path) -> run.Folder:
    return run.Folder(made_run(tmp_path / "run", seeds=(3, 4)))


def altered(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seeds": []}, r"seeds.*got \[\]"),
        ({"seeds": 34}, "seeds.*got 34"),
        ({"seeds": "34"}, "seeds.*got '34'"),
        ({"seeds": [3, 4.5]}, r"seeds.*4\.5"),
        ({"seeds": [[3], [4]]}, r"seeds.*\[3\]"),
        ({"seeds": [3, True]}, "seeds.*True"),
        ({"seeds": [3, 3]}, r"differ.*\[3, 3\]"),
        ({"deterministic": "no"}, "deterministic.*'no'"),
        ({"options": [1]}, r"options.*\[1\]"),
        ({"options": {"gobi": 1}}, "options.*1"),
    ],
)
def test_a_field_of_another_type_is_named_with_what_it_has(folder, changes, says):
    altered(folder.run, **changes)
    with pytest.raises(GobiError, match=says) as refusal:
        run.planned(folder)
    assert "run.json" in str(refusal.value)


@pytest.mark.parametrize("content", [DEEP, "no JSON", "[]", "\0"])
def test_files_that_are_no_json_or_nested_without_end_are_named(folder, content):
    before = {path: path.read_bytes() for path in (folder.run, folder.recipe)}
    for path in before:
        path.write_text(content)
        with pytest.raises(GobiError, match=path.name):
            run.planned(folder)
        path.write_bytes(before[path])
    folder.card.write_text(content)
    with pytest.raises(GobiError, match=folder.card.name):
        card.read(folder.card)


def test_a_recipe_that_is_not_utf8_is_named(folder):
    folder.recipe.write_bytes(b'{"task": "\xff\xfe"}')
    with pytest.raises(GobiError, match=r"recipe\.json"):
        run.planned(folder)


@pytest.mark.parametrize("seeds", [[1], [3], [4, 3]])
def test_seeds_that_are_not_those_of_the_checkpoint_are_refused_with_both(folder, seeds):
    altered(folder.run, seeds=seeds)
    with pytest.raises(GobiError, match=r"(?s)(?=.*run\.json)(?=.*\[3, 4\])") as refusal:
        trained.load(folder.path)
    assert str(seeds) in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_envs": 10**12}, f"num_envs x unroll.*{MOST_STEPS}.*1000000000000"),
        ({"bank": 10**12}, "bank must be at most .*1000000000000"),
        ({"count_room": 10**12}, "count_room must be at most .*1000000000000"),
        ({"snapshots": 10**12}, "snapshots must be at most .*1000000000000"),
    ],
)
def test_sizes_that_nothing_could_hold_are_refused(folder, changes, says):
    altered(folder.recipe, **changes)
    with pytest.raises(GobiError, match=says):
        from_json(folder.recipe.read_bytes())
