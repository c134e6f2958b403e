"""Making entries of the zoo: what is kept of a run, whose policy, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from made_entries import entry, finished_run
from made_runs import EMPTY

from gobi.analysis import evaluation
from gobi.errors import GobiError
from gobi.training import card, metrics, trained
from gobi.zoo import catalogue

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "make_zoo.py"


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return finished_run(tmp_path_factory.mktemp("runs") / "run")


def test_an_entry_plays_exactly_as_the_run_that_it_comes_from(source, tmp_path):
    made = entry(source, tmp_path)
    before, after = trained.load(source, 2), trained.load(made.folder)
    assert jax.tree.all(jax.tree.map(np.array_equal, before.policy, after.policy))
    (expected,), (found,) = (evaluation.evaluate(agents, 12).scores for agents in (before, after))
    assert expected == found
    assert (made.seed, made.mean_return, made.success) == (2, expected.mean_return, expected.success)
    assert (made.levels, made.level_seed, made.policy) == (12, before.level_seed, "sampled")
    assert (made.task, made.learner, made.frames, made.name) == (EMPTY, "impala", 200, "Empty-5x5")
    assert catalogue.read(made.folder) == made


def test_only_what_evaluating_and_drawing_need_is_kept(source, tmp_path):
    made = entry(source, tmp_path)
    names = ["card.json", "metrics.csv", "policy.json", "policy.safetensors", "recipe.json", "run.json"]
    assert sorted(path.name for path in made.folder.iterdir()) == [*names, "zoo.json"]
    assert made.size == sum(path.stat().st_size for path in made.folder.iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["Empty-5x5"]
    kept = metrics.read(made.folder / "metrics.csv")
    assert list(kept) == ["seed", "frames", "return", "success"]
    assert kept["return"].tolist() == [0.9, 0.2, 0.1, 0.8]


def test_the_folders_of_the_machine_that_trained_are_not_told(source, tmp_path):
    made = entry(source, tmp_path)
    assert card.read(made.folder / "card.json").command == ("gobi train Empty-5x5 --out run --set x=y")
    for path in made.folder.glob("*.json"):
        assert "/home" not in path.read_text()
        assert str(source.parent) not in path.read_text()


def test_the_seed_is_the_best_at_the_end_of_training_or_the_one_that_is_named(source, tmp_path):
    best, named = entry(source, tmp_path), entry(source, tmp_path, name="first", seed=1)
    assert (best.seed, best.chosen) == (2, "best of 2 seeds")
    assert (named.seed, named.chosen, named.name) == (1, "seed 1, named, of 2", "first")
    with pytest.raises(GobiError, match="no agent of seed 3 in this run: it has 1, 2"):
        entry(source, tmp_path, seed=3)


def test_an_entry_is_replaced_only_if_one_says_so(source, tmp_path):
    entry(source, tmp_path, seed=1)
    with pytest.raises(GobiError, match="is there already: give another --name, or --overwrite"):
        entry(source, tmp_path)
    assert entry(source, tmp_path, overwrite=True).seed == 2


def test_what_is_too_large_is_refused_and_nothing_stays(source, tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "MOST_BYTES", 100_000)
    with pytest.raises(GobiError, match=r"Empty-5x5 would have .* \(policy.safetensors alone .* 100,000"):
        entry(source, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_not_finished_is_refused(source, tmp_path):
    run = shutil.copytree(source, tmp_path / "run")
    recipe = json.loads((run / "recipe.json").read_text())
    (run / "recipe.json").write_text(json.dumps(recipe | {"frames": 10_000}))
    with pytest.raises(GobiError, match="is not finished: gobi resume"):
        entry(run, tmp_path / "zoo")


def test_a_world_that_learned_along_is_refused(tmp_path):
    settings = {"reward": "gobi", "world": "learned", "world_mode": "online", "model_size": "narrow"}
    run = finished_run(tmp_path / "run", **settings)
    with pytest.raises(GobiError, match="learned along"):
        entry(run, tmp_path / "zoo")


def test_the_script_says_what_it_made_and_what_it_refuses(source, tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("make_zoo", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    words = ["make_zoo.py", str(source), "--levels", "5", "--greedy", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    script.main()
    told = capsys.readouterr().out
    assert f"Empty-5x5: {EMPTY}, impala, seed 2 (best of 2 seeds), 200 frames" in told
    assert "5 new levels, greedy actions: return" in told
    made = catalogue.read(tmp_path / "Empty-5x5")
    assert made.command == "gobi evaluate zoo/Empty-5x5 --episodes 5 --greedy"
    with pytest.raises(SystemExit, match=r"make_zoo.py: error: .* is there already"):
        script.main()
