"""How long a study should take: by earlier runs on the device, and less for what is done."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import pytest

from gobi.reproduce import timing
from gobi.training import recipes
from gobi.training.control import recipes as control
from gobi.training.folder import Folder, Plan, Run

TASK = "MiniGrid-DoorKey-5x5-v0"
FRAMES = 640_000


def planned(folder: Path, seeds: int = 2, **changes) -> Run:
    return Folder(folder), Plan(recipes.recipe(TASK, frames=FRAMES, **changes), tuple(range(seeds)))


def card(folder: Path, seconds: float, seeds: int = 2, **changes) -> None:
    about = {
        "device": jax.devices()[0].device_kind,
        "reward": "gobi",
        "network": "paper",
        "seeds": list(range(seeds)),
        "beside": 0,
        "frames": 1000,
        "seconds": seconds,
    }
    folder.mkdir(parents=True)
    (folder / "card.json").write_text(json.dumps({**about, **changes}))


def guess(place: Path, pack: list[Run]) -> float:
    seconds = timing.seconds([pack], timing.earlier(place))
    assert seconds is not None
    return seconds - timing.COMPILING


def test_earlier_runs_on_this_device_tell_how_fast_it_is(tmp_path):
    card(tmp_path / "a", seconds=10.0)
    assert guess(tmp_path, [planned(tmp_path / "new")]) == pytest.approx(2 * FRAMES / 200)
    assert "earlier runs" in timing.source([[planned(tmp_path / "new")]], timing.earlier(tmp_path))


def test_those_of_the_same_reward_tell_it_better(tmp_path):
    card(tmp_path / "a", seconds=10.0)
    card(tmp_path / "b", seconds=1.0, reward="rnd")
    assert guess(tmp_path, [planned(tmp_path / "new", reward="rnd")]) == pytest.approx(2 * FRAMES / 2000)


def test_those_with_about_as_many_agents_tell_it_better(tmp_path):
    card(tmp_path / "few", seconds=10.0)
    card(tmp_path / "many", seconds=1.0, beside=30)
    pack = [planned(tmp_path / str(number)) for number in range(10)]
    assert guess(tmp_path, pack) == pytest.approx(20 * FRAMES / 2000)


def test_other_devices_and_other_networks_tell_nothing(tmp_path):
    card(tmp_path / "a", seconds=1.0, device="abacus")
    card(tmp_path / "b", seconds=1.0, network="compact")
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


def on_control(folder: Path, **changes) -> list[Run]:
    return [(Folder(folder), Plan(control.recipe("hopper_hop", frames=FRAMES, **changes), (0, 1)))]


def test_control_runs_are_judged_by_control_runs_that_see_alike(tmp_path):
    card(tmp_path / "state", seconds=1.0, network="sac 256", reward="re3")
    card(tmp_path / "pixels", seconds=10.0, network="rad 1024", reward="re3")
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
