"""How long a study should take: by earlier runs on the device, and less for what is done."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import jax
import numpy as np
import pytest

from gobi.reproduce import timing
from gobi.training import metrics, recipes
from gobi.training.control import recipes as control
from gobi.training.folder import Folder, Plan, Run

TASK = "MiniGrid-DoorKey-5x5-v0"
FRAMES = 640_000


def planned(folder: Path, seeds: int = 2, **changes) -> Run:
    recipe = recipes.recipe(TASK, learner="impala", frames=FRAMES, **changes)
    return Folder(folder), Plan(recipe, tuple(range(seeds)))


def trained(folder: Path, speed: float, seeds: int = 2, rows: int = 20, **changes) -> Path:
    """A run that was so fast; its first row took a minute longer, as compiling does."""
    about = {
        "device": jax.devices()[0].device_kind,
        "reward": "gobi",
        "network": "paper",
        "precision": "float32",
        "seeds": list(range(seeds)),
        "beside": 0,
        "frames": 1000 * rows,
        "seconds": 60 + 1000 * rows * seeds / speed,
    }
    file = metrics.MetricsFile(folder / "metrics.csv")
    for row in range(1, rows + 1):
        took = 1000 * seeds / speed + 60 * (row == 1)
        pace = 1000 * seeds / took
        file.append({"seed": np.arange(seeds), "frames": 1000 * row, "steps_per_second": pace})
    file.close()
    (folder / "card.json").write_text(json.dumps({**about, **changes}))
    return folder


def guess(place: Path, pack: list[Run]) -> float:
    seconds = timing.seconds([pack], timing.earlier(place))
    assert seconds is not None
    return seconds - timing.COMPILING


def test_earlier_runs_on_this_device_tell_how_fast_it_is(tmp_path):
    trained(tmp_path / "a", 200.0)
    assert guess(tmp_path, [planned(tmp_path / "new")]) == pytest.approx(2 * FRAMES / 200)
    assert "earlier runs" in timing.source([[planned(tmp_path / "new")]], timing.earlier(tmp_path))


def test_a_run_that_was_stopped_at_once_tells_nothing(tmp_path):
    """Nearly all of its time went into compiling."""
    trained(tmp_path / "stopped", 200.0, rows=2, finished=None)
    pack = [planned(tmp_path / "new")]
    assert guess(tmp_path, pack) == pytest.approx(2 * FRAMES / timing.TWO_CORES)
    trained(tmp_path / "later", 400.0, rows=20, finished=None)
    assert guess(tmp_path, pack) == pytest.approx(2 * FRAMES / 400)


def test_a_run_whose_metrics_cannot_be_read_tells_nothing(tmp_path):
    (trained(tmp_path / "a", 200.0) / "metrics.csv").write_text("seed,frames\n0,nothing\n")
    (trained(tmp_path / "b", 200.0) / "metrics.csv").unlink()
    assert timing.earlier(tmp_path) == []


def test_runs_in_one_precision_tell_nothing_of_another(tmp_path, monkeypatch):
    trained(tmp_path / "a", 2000.0, precision="bfloat16")
    assert guess(tmp_path, [planned(tmp_path / "new")]) == pytest.approx(2 * FRAMES / timing.TWO_CORES)
    halved = [planned(tmp_path / "new", precision="bfloat16")]
    assert guess(tmp_path, halved) == pytest.approx(2 * FRAMES / 2000)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    alone = [planned(tmp_path / "new", seeds=1, precision="bfloat16")]
    assert guess(tmp_path / "new", alone) == pytest.approx(FRAMES / timing.H200["bfloat16"][1])


def test_those_of_the_same_reward_tell_it_better(tmp_path):
    trained(tmp_path / "a", 200.0)
    trained(tmp_path / "b", 2000.0, reward="rnd")
    assert guess(tmp_path, [planned(tmp_path / "new", reward="rnd")]) == pytest.approx(2 * FRAMES / 2000)


def test_without_any_each_reward_is_as_much_faster_than_gobi_as_it_was_measured_to_be(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    known = timing.EVERY_REWARD
    gobi = guess(tmp_path, [planned(tmp_path / "new")])
    for reward in ("none", "noveld", "ec"):
        asked = guess(tmp_path, [planned(tmp_path / "new", reward=reward)])
        assert asked == pytest.approx(gobi * known["gobi"] / known[reward])
    assert guess(tmp_path, [planned(tmp_path / "new", reward="r2")]) == pytest.approx(gobi)


def test_the_measured_speeds_are_those_that_are_kept():
    kept = Path(__file__).parents[2] / "results/training-speed/h200-every-reward.csv"
    with kept.open() as file:
        rows = {row["reward"]: int(row["steps_per_second"]) for row in csv.DictReader(file)}
    assert rows == timing.EVERY_REWARD


def test_on_a_cpu_the_full_comparator_is_as_slow_as_it_was_measured_to_be(tmp_path):
    whole = [planned(tmp_path / "new", reward="ec", reward_options="beta=0.5,threshold=0.5")]
    small = [planned(tmp_path / "new", reward="ec", reward_options="size=small")]
    assert guess(tmp_path, whole) == pytest.approx(2 * FRAMES / timing.FULL_EC)
    assert guess(tmp_path, small) == pytest.approx(2 * FRAMES / timing.TWO_CORES)


def test_earlier_runs_of_another_reward_or_size_count_as_much_as_it_is_faster(tmp_path):
    slower = timing.FULL_EC / timing.TWO_CORES
    whole = [planned(tmp_path / "new", reward="ec", reward_options="beta=0.5,threshold=0.5")]
    trained(tmp_path / "a", 2000.0)
    assert guess(tmp_path, whole) == pytest.approx(2 * FRAMES / (2000 * slower))
    small = trained(tmp_path / "b", 4000.0, reward="ec")
    (small / "recipe.json").write_text(json.dumps({"reward_options": "size=small"}))
    assert guess(tmp_path, whole) == pytest.approx(2 * FRAMES / (4000 * slower))


def test_those_with_about_as_many_agents_tell_it_better(tmp_path):
    trained(tmp_path / "few", 200.0)
    trained(tmp_path / "many", 2000.0, beside=30)
    pack = [planned(tmp_path / str(number)) for number in range(10)]
    assert guess(tmp_path, pack) == pytest.approx(20 * FRAMES / 2000)


def test_other_devices_and_other_networks_tell_nothing(tmp_path):
    trained(tmp_path / "a", 2000.0, device="abacus")
    trained(tmp_path / "b", 2000.0, network="compact")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "card.json").write_text("{}")
    pack = [planned(tmp_path / "new")]
    assert guess(tmp_path, pack) == pytest.approx(2 * FRAMES / timing.TWO_CORES)
    assert "nothing like it" in timing.source([pack], timing.earlier(tmp_path))


def test_what_is_done_takes_no_time(tmp_path):
    one = planned(tmp_path / "half")
    whole = guess(tmp_path, [one])
    (one[0].checkpoints / f"{FRAMES // 2:012d}").mkdir(parents=True)
    assert guess(tmp_path, [one]) == pytest.approx(whole / 2)


def test_packs_that_are_trained_at_once_take_as_long_as_whoever_has_most_to_do(tmp_path):
    trained(tmp_path / "a", 200.0)
    packs, known = [[planned(tmp_path / str(n))] for n in range(5)], timing.earlier(tmp_path)
    one = guess(tmp_path, packs[0]) + timing.COMPILING
    for at_once, rounds in ((1, 5), (2, 3), (4, 2), (5, 1), (8, 1)):
        assert timing.seconds(packs, known, at_once) == pytest.approx(rounds * one)


def on_control(folder: Path, **changes) -> list[Run]:
    return [(Folder(folder), Plan(control.recipe("hopper_hop", frames=FRAMES, **changes), (0, 1)))]


def test_control_runs_are_judged_by_control_runs_that_see_alike(tmp_path):
    trained(tmp_path / "state", 2000.0, network="sac 256", reward="re3")
    trained(tmp_path / "pixels", 200.0, network="rad 1024", reward="re3", precision="bfloat16")
    assert guess(tmp_path, on_control(tmp_path / "new")) == pytest.approx(2 * FRAMES / 200)
    seen = on_control(tmp_path / "new", observations="state")
    assert guess(tmp_path, seen) == pytest.approx(2 * FRAMES / 2000)


def test_without_any_it_is_two_cores_that_tell_and_where_nothing_was_measured_nobody_knows(
    tmp_path, monkeypatch
):
    pack = on_control(tmp_path / "new", observations="state")
    assert guess(tmp_path, pack) == pytest.approx(2 * FRAMES / timing.CONTROL["cpu", "state", "float32"])
    monkeypatch.setattr(jax, "default_backend", lambda: "abacus")
    assert timing.seconds([pack], []) is None
    assert timing.source([pack], []).startswith("nothing like it has been trained on this device")
